"""On which lane each row stands, and in which order the events are written."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I32, I64, distinct, picked, stable_order
from nvtrace.model.explained import Explained
from nvtrace.model.schema import DeviceKind, RangeStyle
from nvtrace.sinks.chrome_arrows import Behind, Launches
from nvtrace.sinks.chrome_choice import Chosen
from nvtrace.sinks.chrome_lanes import spread
from nvtrace.sinks.chrome_nesting import ApartCheck, nest_check
from nvtrace.sinks.chrome_order import (
    STRETCH_ROWS,
    device_stretches,
    host_stretches,
)
from nvtrace.sinks.chrome_parts import Derived
from nvtrace.sinks.chrome_slices import RowsOf
from nvtrace.sinks.chrome_tracks import Groups, Tracks, counter_owner, make_tracks

Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.uint8]


class Shape(IntEnum):
    """The shapes of events. Those that launch or are launched bring their arrow's end along.

    The row of an arrow's start on its own, which a call has from its second arrow on, is that of
    the device row; the row of a link between ranges is its place among ``Chosen.links``.
    """

    RANGE = 0
    CALL = 1
    LAUNCH = 2
    ARROW_START = 3
    KERNEL = 4
    LAUNCHED_KERNEL = 5
    OTHER_DEVICE = 6
    LAUNCHED_OTHER = 7
    MARK = 8
    COUNTER = 9
    LINK_START = 10
    LINK_END = 11


class Events(NamedTuple):
    """Some events in order.

    Attributes:
        shape: Shape of each.
        row: its row in the table of that shape.
    """

    shape: Codes
    row: I64


class Layout:
    """Lanes of the rows shown, and the sequence of events.

    Attributes:
        tracks: the viewer's processes and threads.
        range_lane: returns the row in ``tracks`` of the lane of each of some rows of ``ranges``.
        call_lane: returns the same for ``calls``.
        device_lane: returns the same for ``device``.
        first_launched: the device row that the first arrow of each call goes to, -1 none.
        counters: rows of ``counters`` that are shown.
        links: rows of ``ranges`` that arrows leave from, and that they arrive at.
    """

    def __init__(self, explained: Explained, chosen: Chosen) -> None:
        self._explained = explained
        self._trace = trace = explained.trace
        self._chosen = chosen
        self._groups = groups = Groups(trace)
        paired = trace.ranges["style"] == RangeStyle.START_END
        self._range_group = (trace.ranges["thread"] + groups.paired * paired).astype(np.int32)
        self._launches = Launches(explained, chosen)
        self.links = forward, backward = chosen.links
        by_forward = np.argsort(forward, kind="stable")
        self._linked = np.concatenate([forward, backward])
        self._forward = Behind(forward[by_forward], by_forward, trace.ranges.rows)
        self._backward = Behind(backward, np.arange(len(backward)), trace.ranges.rows)
        marks = chosen.ranges & (trace.ranges["style"] == RangeStyle.MARK)
        self._marks = np.flatnonzero(marks)
        self._samples = np.flatnonzero(chosen.samples)

        self._sequence: list[I32] = []  # host rows as they are written, a call as the complement
        lanes = np.zeros(groups.count, np.int64)
        lanes[trace.ranges["thread"][self._marks]] = 1
        host = self._host_lanes(lanes)
        gpu = self._device_lanes(lanes)
        self.counters = distinct(trace.samples["counter"][self._samples]).tolist()
        self.tracks: Tracks = make_tracks(
            trace, lanes, [counter_owner(trace, row) for row in self.counters]
        )
        first = self.tracks.first
        self.range_lane = _lane(self._range_group, first, host[0])
        self.call_lane = _lane(trace.calls["thread"], first, host[1])
        self.device_lane = _lane(trace.device["stream"], first[groups.streams :], gpu)
        self.first_launched = self._launches.first

    def events(self) -> Iterator[Events]:
        """Yield all events, on each lane by start, outer ones first.

        Viewers sort by time and take what is simultaneous as it comes. So an arrow follows its
        slice before anything inside that slice, and the host comes before the device.
        """
        for coded in self._sequence:
            yield self._host_events(coded)
        yield from _plain(Shape.MARK, self._marks)
        is_kernel = self._trace.device["kind"] == DeviceKind.KERNEL
        for rows in device_stretches(self._trace, self._chosen):
            shape = np.where(is_kernel[rows], Shape.KERNEL, Shape.OTHER_DEVICE).astype(np.uint8)
            shape[self._chosen.arrows[rows]] += 1
            yield Events(shape, rows)
        yield from _plain(Shape.COUNTER, self._samples)

    def _host_events(self, coded: I32) -> Events:
        row = np.maximum(coded, ~coded).astype(np.int64)
        calls, ranges = np.maximum(~coded, -1), np.maximum(coded, -1)
        shape = np.where(coded < 0, np.uint8(Shape.CALL), np.uint8(Shape.RANGE))
        shape[self._launches.first.take(calls) >= 0] = Shape.LAUNCH
        behind = (
            (Shape.ARROW_START, *self._launches.more.find(calls)),
            (Shape.LINK_END, *self._backward.find(ranges)),
            (Shape.LINK_START, *self._forward.find(ranges)),
        )
        if not any(len(place) for _, place, _ in behind):
            return Events(shape, row)
        place = [np.arange(len(shape)), *(place for _, place, _ in behind)]
        order = np.argsort(np.concatenate(place), kind="stable")
        shapes = [shape, *(np.full(len(rows), kind, np.uint8) for kind, _, rows in behind)]
        rows = [row, *(rows for *_, rows in behind)]
        return Events(np.concatenate(shapes)[order], np.concatenate(rows)[order])

    def _stream_group(self, rows: I64) -> I64:
        return picked(self._trace.device["stream"], rows).astype(np.int64) + self._groups.streams

    def _host_lanes(self, lanes: I64) -> tuple[tuple[I64, I32], tuple[I64, I32]]:
        """Return the ranges and the calls that must move, and note how many lanes groups need.

        Ranges and calls share their thread's lanes; start/end ranges have their own.
        """
        trace, chosen = self._trace, self._chosen
        check = nest_check(self._groups.count)
        for stretch in host_stretches(trace, chosen):
            ranges, calls = stretch.ranges, stretch.calls
            thread = picked(trace.calls["thread"], calls)
            group = stretch.ordered(self._range_group.take(ranges), thread).astype(np.int64)
            launches = self._launches.first.take(calls) >= 0
            anchors = stretch.ordered(self._has_link(ranges), launches)
            check.add(group, stretch.start, stretch.end, anchors)
            self._sequence.append(stretch.ordered(ranges, ~calls).astype(np.int32))
        lanes[check.used] = 1
        slices = np.flatnonzero(chosen.ranges & (trace.ranges["style"] != RangeStyle.MARK))
        slices = slices[check.failed[self._range_group[slices]]]
        called = np.flatnonzero(chosen.calls & check.failed[trace.calls["thread"]])
        moved = _spread(
            np.concatenate([self._range_group[slices], trace.calls["thread"][called]]),
            np.concatenate([trace.ranges["start"][slices], trace.calls["start"][called]]),
            np.concatenate([trace.ranges["end"][slices], trace.calls["end"][called]]),
            np.concatenate([self._has_link(slices), self._launches.first[called] >= 0]),
            lanes,
        )
        return _moved(slices, moved[: len(slices)]), _moved(called, moved[len(slices) :])

    def _has_link(self, ranges: I64) -> Bools:
        """Return which ranges have an arrow at their start."""
        if not len(self._linked):
            return np.zeros(len(ranges), np.bool_)
        return np.isin(ranges, self._linked)

    def _device_lanes(self, lanes: I64) -> tuple[I64, I32]:
        """Return the rows that must move, and note how many lanes streams need."""
        device = self._trace.device
        check = ApartCheck(self._groups.count)
        for rows in device_stretches(self._trace, self._chosen):
            start, end = picked(device["start"], rows), picked(device["end"], rows)
            check.add(self._stream_group(rows), start, np.maximum(start, end))
        lanes[check.used] = 1
        failed = check.failed[self._groups.streams :]
        rows = np.flatnonzero(self._chosen.device & failed[device["stream"]])
        group = self._stream_group(rows)
        return _moved(rows, _spread(group, device["start"][rows], device["end"][rows], None, lanes))


def _lane(group: npt.NDArray[np.integer], first: I64, moved: tuple[I64, I32]) -> RowsOf:
    """Return what finds the lanes of a table's rows: mostly the first one of a row's group.

    Args:
        group: of each row.
        first: row in ``Tracks`` of the first lane of each group.
        moved: rows on other lanes, ascending, and how many lanes further down each is.
    """
    mostly = Derived(group, table=first)
    elsewhere, further = moved
    if not len(elsewhere):
        return mostly

    def lane(rows: I64) -> I64:
        place = np.minimum(np.searchsorted(elsewhere, rows), len(elsewhere) - 1)
        found: I64 = mostly(rows) + np.where(elsewhere[place] == rows, further[place], 0)
        return found

    return lane


def _plain(shape: Shape, rows: I64) -> Iterator[Events]:
    for first in range(0, len(rows), STRETCH_ROWS):
        some = rows[first : first + STRETCH_ROWS]
        yield Events(np.full(len(some), shape, np.uint8), some)


def _spread(group: I64, start: I64, end: I64, anchors: Bools | None, lanes: I64) -> I32:
    """Return how many lanes further down each slice goes; those without anchors may not nest."""
    end = np.maximum(start, end)
    order = stable_order(group, start, -end)
    nest = anchors is not None
    inner = anchors[order] if anchors is not None else None
    moved = np.empty(len(order), np.int32)
    moved[order] = spread(group[order], start[order], end[order], nest=nest, anchors=inner)
    np.maximum.at(lanes, group, moved + 1)
    return moved


def _moved(rows: I64, lanes: I32) -> tuple[I64, I32]:
    return rows[lanes > 0], lanes[lanes > 0]
