"""Figures that several views share, computed only when asked for, and once.

What a report asks for but once is not kept: it may be as long as the trace.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.attribution import nearest_of
from nvtrace.analysis.communication import communication_kernels
from nvtrace.analysis.containment import Containment
from nvtrace.analysis.intervals import count_by, previous_maximum, sum_at, sum_by
from nvtrace.analysis.nesting import Nest
from nvtrace.analysis.selection import Selection
from nvtrace.model.arrays import code_order, distinct, factorize, taken
from nvtrace.model.explained import Explained
from nvtrace.model.schema import Attribution, DeviceKind, RangeFlag, RangeKind, RangeStyle
from nvtrace.model.trace import TraceData

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_LAUNCH = re.compile(r"cu(?:da)?(?:Launch(?!Host)|GraphLaunch|Memcpy|Memset)")


class Measures:
    """The selected rows of an explained trace, measured.

    Attributes:
        explained: the trace.
        selection: what is counted.
    """

    def __init__(self, explained: Explained, selection: Selection) -> None:
        self.explained = explained
        self.selection = selection
        self.trace = explained.trace

    @cached_property
    def device_time(self) -> I64:
        """Duration of each device row, ns; 0 for rows outside the selection."""
        device = self.trace.device
        return np.where(self.selection.device, device["end"] - device["start"], 0)

    def range_time(self, rows: npt.NDArray[Any]) -> I64:
        """Return the duration of chosen ranges, ns."""
        duration: I64 = self.trace.ranges["end"][rows] - self.trace.ranges["start"][rows]
        return duration

    @cached_property
    def call_gpu(self) -> I64:
        """GPU time that each call launched, ns."""
        return sum_at(self.explained.device_call, self.device_time, self.trace.calls.rows)

    def _launched_of(self, kind: DeviceKind) -> I64:
        """Return how many device rows of a kind each call launched."""
        chosen = self.selection.device & (self.trace.device["kind"] == kind)
        call = self.explained.device_call
        call = call if chosen.all() else call[chosen]
        return count_by(call + np.int32(1), self.trace.calls.rows + 1)[1:]

    @cached_property
    def launching(self) -> Mask:
        """Calls that launched any selected device row."""
        mask = np.zeros(self.trace.calls.rows + 1, np.bool_)
        mask[self.explained.device_call[self.selection.device]] = True
        return mask[:-1]

    @cached_property
    def by_how(self) -> I64:
        """GPU time unattributed, attributed and inferred: int64 of shape (3,), by Attribution."""
        return sum_by(self.explained.device_how, self.device_time, len(Attribution))

    @cached_property
    def _containment(self) -> Containment:
        return Containment(self.explained, self.launching)

    @cached_property
    def contained_gpu(self) -> I64:
        """GPU time launched by the calls inside each range, on its thread, ns."""
        return self._containment.total(self.call_gpu)

    @property
    def contained_kernels(self) -> I64:
        """Number of kernels likewise; no count where ``contained_graphs`` has any."""
        return self._containment.total(self._launched_of(DeviceKind.KERNEL))

    @property
    def contained_launches(self) -> I64:
        """Number of launching calls inside each range."""
        return self._containment.total(self.launching.astype(np.int64))

    @property
    def contained_graphs(self) -> I64:
        """Number of runs of whole graphs, which hold an unknown number of kernels, likewise."""
        if not (self.trace.device["kind"] == DeviceKind.GRAPH).any():
            return np.broadcast_to(np.int64(0), self.trace.ranges.rows)
        return self._containment.total(self._launched_of(DeviceKind.GRAPH))

    @cached_property
    def devices(self) -> list[int]:
        """Rows of the devices to report on: all, or those that a chosen rank uses."""
        streams = self.trace.streams
        if self.selection.processes.all():
            return list(range(len(self.trace.devices)))
        used = distinct(streams["device"][self.selection.processes[streams["process"]]])
        rows: list[int] = used.tolist()
        return rows

    @cached_property
    def on_device(self) -> dict[int, I32]:
        """Device rows that may reach into the window, by the device to report on."""
        device_of = taken(self.trace.streams["device"], self.trace.device["stream"])
        reaching = self.selection.reaching.device
        return {
            row: np.flatnonzero(reaching & (device_of == row)).astype(np.int32)
            for row in self.devices
        }

    @cached_property
    def communication(self) -> Mask:
        """Device rows that are communication."""
        return communication_kernels(self.explained)

    @cached_property
    def mute(self) -> I64:
        """Processes that launched GPU work and have no device row: had it been recorded?"""
        trace = self.trace
        without = np.ones(len(trace.processes), np.bool_)
        without[trace.device["process"]] = False
        calls = np.flatnonzero(without[trace.calls["process"]])
        names, codes = factorize(trace.calls["name"][calls])
        texts = trace.strings.take(names)
        launches = np.array([_LAUNCH.match(text) is not None for text in texts], np.bool_)
        return distinct(trace.calls["process"][calls[launches[codes]]]).astype(np.int64)

    @cached_property
    def gpu_known(self) -> Mask:
        """Processes whose GPU work was recorded, or that had none: shape (processes,)."""
        return gpu_known(self.trace, self.mute.tolist())

    @property
    def inferred(self) -> I64:
        """GPU time of other threads' calls that each phase was inferred to own, ns."""
        explained, ranges = self.explained, self.trace.ranges
        phase = explained.call_phase
        around = taken(explained.range_phase, explained.call_range)
        rows = np.flatnonzero((phase >= 0) & (around < 0))
        # a start/end phase contains the calls of its own thread: nothing is inferred there
        rows = rows[ranges["thread"][phase[rows]] != self.trace.calls["thread"][rows]]
        return sum_by(phase[rows], self.call_gpu[rows], ranges.rows)

    @cached_property
    def owned_gpu(self) -> I64:
        """GPU time owned by each range itself, children excluded, ns."""
        return sum_at(self.explained.call_range, self.call_gpu, self.trace.ranges.rows)

    def outermost(self, rows: I64, groups: npt.NDArray[Any]) -> Mask:
        """Return which push/pop ``rows`` lie in no other of their thread and group.

        Start/end ranges have no nest and always count.

        Args:
            rows: rows of ranges, ascending.
            groups: their groups, aligned with ``rows``.
        """
        ranges = self.trace.ranges
        thread, end = ranges["thread"][rows], ranges["end"][rows]
        threads = int(thread.max(initial=0)) + 1
        _, codes = factorize(groups.astype(np.int64) * threads + thread)
        order = code_order(codes)
        ends = end[order]
        previous, follows = previous_maximum(codes[order], ends)
        nested = np.empty(len(rows), np.bool_)
        nested[order] = follows & (previous >= ends)
        counts: Mask = ~nested | (ranges["style"][rows] == RangeStyle.START_END)
        return counts

    @cached_property
    def operators(self) -> Operators:
        """Operators as a nest of their own."""
        return Operators.build(self)

    @cached_property
    def path(self) -> tuple[I32, list[str]]:
        """Each range's path of names from the outermost ancestor: codes, and paths by code."""
        return _paths(self.explained)


def gpu_known(trace: TraceData, mute: Collection[int]) -> Mask:
    """Return which processes' GPU work was recorded, or nothing: shape (processes,).

    Args:
        trace: its processes, and what was recorded.
        mute: rows of processes that launched such work, with no row of it.
    """
    known = np.array([one.device_recorded for one in trace.processes], np.bool_)
    known &= trace.recorded.device
    known[list(mute)] = False
    return known


class Operators(NamedTuple):
    """Operator ranges without what other ranges lie between them.

    Attributes:
        rows: rows of ranges.
        self_time: duration minus the union of the operators inside, ns, aligned with ``rows``.
        nearest: for each range the operator it is or lies in, -1 none.
    """

    rows: I64
    self_time: I64
    nearest: I32

    @classmethod
    def build(cls, measures: Measures) -> Operators:
        """Return the operators among the selected ranges."""
        explained, ranges = measures.explained, measures.trace.ranges
        chosen = measures.selection.ranges & (explained.range_kind == RangeKind.OPERATOR)
        chosen &= ranges["style"] != RangeStyle.MARK
        rows = np.flatnonzero(chosen)
        nearest = nearest_of(chosen, explained.range_parent, explained.range_levels)
        time = measures.range_time(rows)
        if ((explained.range_flags & np.uint8(RangeFlag.CROSSING)) != 0).any():
            nested = np.flatnonzero(ranges["style"][rows] == RangeStyle.PUSH_POP)
            thread, start, end = (ranges[name][rows[nested]] for name in ("thread", "start", "end"))
            nest = Nest.build(nested, thread, start, end)
            time[nest.rows] = nest.self_time(nest.crossing())
        else:
            around = taken(nearest, explained.range_parent[rows])
            time -= sum_at(around, time, ranges.rows)[rows]
        return cls(rows, time, nearest)


def _paths(explained: Explained) -> tuple[I32, list[str]]:
    parent, depth, names = explained.range_parent, explained.range_depth, explained.range_name
    strings = explained.trace.strings
    codes = np.full(len(parent), -1, np.int32)
    paths: list[str] = []
    rows_by_path: dict[tuple[int, int], int] = {}
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(int(depth.max(initial=0)) + 2))
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        rows = order[first:last]
        above = np.where(parent[rows] >= 0, codes[parent[rows]], -1)
        keys = (above.astype(np.int64) + 1) * (len(strings) + 1) + names[rows]
        distinct, inverse = np.unique(keys, return_inverse=True)
        level = np.empty(len(distinct), np.int32)
        for place, key in enumerate(distinct.tolist()):
            prefix, name = divmod(key, len(strings) + 1)
            text = strings[name]
            code = rows_by_path.setdefault((prefix - 1, name), len(paths))
            if code == len(paths):
                paths.append(f"{paths[prefix - 1]} / {text}" if prefix else text)
            level[place] = code
        codes[rows] = level[inverse]
    return codes, paths
