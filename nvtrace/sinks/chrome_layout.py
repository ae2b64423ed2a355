"""On which lane each row stands, and in which order the events are written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I32, I64
from nvtrace.model.explained import Explained
from nvtrace.model.schema import DeviceKind, RangeStyle
from nvtrace.model.trace import TraceData
from nvtrace.sinks.chrome_choice import Chosen
from nvtrace.sinks.chrome_lanes import spread
from nvtrace.sinks.chrome_tracks import Groups, Tracks, counter_owner, make_tracks

Codes = npt.NDArray[np.uint8]


class Shape(IntEnum):
    """The shapes of events. The row of an arrow, at either end, is that of its device row."""

    RANGE = 0
    CALL = 1
    ARROW_START = 2
    MARK = 3
    KERNEL = 4
    OTHER_DEVICE = 5
    ARROW_END = 6
    COUNTER = 7


@dataclass(frozen=True)
class Layout:
    """Lanes of the rows shown, and the sequence of events.

    Attributes:
        tracks: the viewer's processes and threads.
        range_lane: row of the lane in ``tracks``, for each row of ``ranges``.
        call_lane: the same for ``calls``.
        device_lane: the same for ``device``. All are meaningless for rows not shown.
        shape: Shape of each event, in the order of the file.
        row: its row in the table of that shape.
    """

    tracks: Tracks
    range_lane: I64
    call_lane: I64
    device_lane: I64
    shape: Codes
    row: I64


@dataclass(frozen=True)
class _Slices:
    """Rows with a duration, sorted by group, then start, then longer first."""

    shape: Codes
    row: I64
    group: I64
    lane: I32

    def lanes_by_row(self, first: I64, shapes: tuple[Shape, ...], rows: int) -> I64:
        """Return the row of the lane for each of the ``rows`` of a table."""
        lanes = np.zeros(rows, np.int64)
        own = np.isin(self.shape, shapes)
        lanes[self.row[own]] = first[self.group[own]] + self.lane[own]
        return lanes

    def with_arrows(self, after: I64, arrows: I64, shape: Shape) -> tuple[Codes, I64]:
        """Return shapes and rows in order, each of ``arrows`` put right behind slice ``after``."""
        count = np.bincount(after, minlength=len(self.row))
        place = np.arange(len(self.row)) + np.cumsum(count) - count
        total = len(self.row) + len(arrows)
        shapes = np.full(total, shape, np.uint8)
        rows = np.empty(total, np.int64)
        shapes[place], rows[place] = self.shape, self.row
        rows[np.delete(np.arange(total), place)] = arrows[np.argsort(after, kind="stable")]
        return shapes, rows


def lay_out(explained: Explained, chosen: Chosen) -> Layout:
    """Give each row shown a lane, and order the events: on each lane by start, outer ones first."""
    trace = explained.trace
    groups = Groups(trace)
    is_mark = trace.ranges["style"] == RangeStyle.MARK
    marks = np.flatnonzero(chosen.ranges & is_mark)
    samples = np.flatnonzero(chosen.samples)
    host = _host_slices(explained, chosen, groups)
    gpu = _device_slices(trace, chosen, groups)

    lanes = np.zeros(groups.count, np.int64)
    np.maximum.at(lanes, trace.ranges["thread"][marks], 1)
    for slices in (host, gpu):
        np.maximum.at(lanes, slices.group, slices.lane + 1)
    counters = np.unique(trace.samples["counter"][samples]).tolist()
    tracks = make_tracks(trace, lanes, [counter_owner(trace, row) for row in counters])

    range_lane = host.lanes_by_row(tracks.first, (Shape.RANGE,), trace.ranges.rows)
    range_lane[marks] = tracks.first[trace.ranges["thread"][marks]]
    shape, row = _sequence(explained, chosen, host, gpu, marks, samples)
    return Layout(
        tracks,
        range_lane,
        host.lanes_by_row(tracks.first, (Shape.CALL,), trace.calls.rows),
        gpu.lanes_by_row(tracks.first, (Shape.KERNEL, Shape.OTHER_DEVICE), trace.device.rows),
        shape,
        row,
    )


def _host_slices(explained: Explained, chosen: Chosen, groups: Groups) -> _Slices:
    """Ranges and calls share their thread's lanes; start/end ranges have their own."""
    trace, style = explained.trace, explained.trace.ranges["style"]
    ranges = np.flatnonzero(chosen.ranges & (style != RangeStyle.MARK))
    calls = np.flatnonzero(chosen.calls)
    launching = np.zeros(trace.calls.rows, np.bool_)
    launching[explained.device_call[chosen.arrows]] = True
    thread = trace.ranges["thread"][ranges]
    paired = style[ranges] == RangeStyle.START_END
    return _sorted(
        np.repeat(np.array([Shape.RANGE, Shape.CALL], np.uint8), [len(ranges), len(calls)]),
        np.concatenate([ranges, calls]),
        np.concatenate([thread + groups.paired * paired, trace.calls["thread"][calls]]),
        np.concatenate([trace.ranges["start"][ranges], trace.calls["start"][calls]]),
        np.concatenate([trace.ranges["end"][ranges], trace.calls["end"][calls]]),
        np.concatenate([np.zeros(len(ranges), np.bool_), launching[calls]]),
        nest=True,
    )


def _device_slices(trace: TraceData, chosen: Chosen, groups: Groups) -> _Slices:
    rows = np.flatnonzero(chosen.device)
    kernel = trace.device["kind"][rows] == DeviceKind.KERNEL
    return _sorted(
        np.where(kernel, Shape.KERNEL, Shape.OTHER_DEVICE).astype(np.uint8),
        rows,
        trace.device["stream"][rows] + groups.streams,
        trace.device["start"][rows],
        trace.device["end"][rows],
        np.zeros(len(rows), np.bool_),
        nest=False,
    )


def _sorted(
    shape: Codes,
    row: I64,
    group: npt.NDArray[np.integer],
    start: I64,
    end: I64,
    launching: npt.NDArray[np.bool_],
    *,
    nest: bool,
) -> _Slices:
    end = np.maximum(start, end)
    order = np.lexsort((-end, start, group))
    groups: I64 = group[order].astype(np.int64)
    lane = spread(groups, start[order], end[order], nest=nest, anchors=launching[order])
    return _Slices(shape[order], row[order], groups, lane)


def _sequence(
    explained: Explained, chosen: Chosen, host: _Slices, gpu: _Slices, marks: I64, samples: I64
) -> tuple[Codes, I64]:
    """Return shape and row of each event.

    Viewers sort by time and take what is simultaneous as it comes. So an arrow follows its slice
    before anything inside that slice, and the host comes before the device.
    """
    arrows = np.flatnonzero(chosen.arrows)
    of_call = np.zeros(explained.trace.calls.rows, np.int64)
    of_device = np.zeros(explained.trace.device.rows, np.int64)
    is_call = np.flatnonzero(host.shape == Shape.CALL)
    of_call[host.row[is_call]] = is_call
    of_device[gpu.row] = np.arange(len(gpu.row))
    parts = [
        host.with_arrows(of_call[explained.device_call[arrows]], arrows, Shape.ARROW_START),
        (np.full(len(marks), Shape.MARK, np.uint8), marks),
        gpu.with_arrows(of_device[arrows], arrows, Shape.ARROW_END),
        (np.full(len(samples), Shape.COUNTER, np.uint8), samples),
    ]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
