"""Figures that several views share, each computed once and only when asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.attribution import nearest_of
from nvtrace.analysis.intervals import count_by, grouped_keys_of, previous_maximum, sum_by
from nvtrace.analysis.nesting import Nest
from nvtrace.analysis.selection import Selection
from nvtrace.model.arrays import factorize, stable_order
from nvtrace.model.explained import Explained
from nvtrace.model.schema import Attribution, DeviceKind, RangeKind, RangeStyle

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_LAUNCH = re.compile(r"cu(?:da)?(?:Launch(?!Host)|GraphLaunch|Memcpy|Memset)")


@dataclass(frozen=True)
class Figures:
    """Calls, total, maximum and minimum of each group, int64 of shape (groups,).

    ``summed`` is the plain sum that the average comes from, where the total leaves out what
    recursion would count twice.
    """

    calls: I64
    total: I64
    maximum: I64
    minimum: I64
    summed: I64 | None = None

    @classmethod
    def of(cls, codes: npt.NDArray[Any], values: I64, groups: int) -> Figures:
        """Return the figures of ``values`` by group; maximum and minimum of none are 0."""
        calls = count_by(codes, groups)
        order = np.argsort(codes, kind="stable")
        first = (np.cumsum(calls) - calls)[calls > 0]
        maximum = np.zeros(groups, np.int64)
        minimum = np.zeros(groups, np.int64)
        if len(values):
            ordered = values[order]
            maximum[calls > 0] = np.maximum.reduceat(ordered, first)
            minimum[calls > 0] = np.minimum.reduceat(ordered, first)
        return cls(calls, sum_by(codes, values, groups), maximum, minimum)

    @property
    def average(self) -> I64:
        """The mean, rounded to whole ns; 0 of none."""
        summed = self.total if self.summed is None else self.summed
        return np.rint(summed / np.maximum(self.calls, 1)).astype(np.int64)

    @classmethod
    def once(cls, codes: npt.NDArray[Any], values: I64, counted: Mask, groups: int) -> Figures:
        """Return the figures of all rows, with totals of the ``counted`` rows alone."""
        every = cls.of(codes, values, groups)
        total = sum_by(codes[counted], values[counted], groups)
        return cls(every.calls, total, every.maximum, every.minimum, summed=every.total)


class Contained(NamedTuple):
    """What the calls inside each range, on its thread, launched: int64 of shape (ranges,) each.

    Runs of whole graphs hold an unknown number of kernels: where there are any, ``kernels`` is no
    count.
    """

    gpu: I64
    kernels: I64
    launches: I64
    graphs: I64


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

    @cached_property
    def range_time(self) -> I64:
        """Duration of each range, ns."""
        duration: I64 = self.trace.ranges["end"] - self.trace.ranges["start"]
        return duration

    @cached_property
    def launched(self) -> I64:
        """Selected device rows whose launching call is known."""
        return np.flatnonzero(self.selection.device & (self.explained.device_call >= 0))

    @cached_property
    def call_gpu(self) -> I64:
        """GPU time that each call launched, ns."""
        rows = self.launched
        return sum_by(
            self.explained.device_call[rows], self.device_time[rows], self.trace.calls.rows
        )

    @cached_property
    def call_kernels(self) -> I64:
        """Number of kernels that each call launched."""
        return self._launched_of(DeviceKind.KERNEL)

    def _launched_of(self, kind: DeviceKind) -> I64:
        rows = self.launched[self.trace.device["kind"][self.launched] == kind]
        return count_by(self.explained.device_call[rows], self.trace.calls.rows)

    @cached_property
    def launching(self) -> Mask:
        """Calls that launched any selected device row."""
        mask = np.zeros(self.trace.calls.rows, np.bool_)
        mask[self.explained.device_call[self.launched]] = True
        return mask

    @cached_property
    def by_how(self) -> I64:
        """GPU time unattributed, attributed and inferred: int64 of shape (3,), by Attribution."""
        return sum_by(self.explained.device_how, self.device_time, len(Attribution))

    @cached_property
    def contained(self) -> Contained:
        """GPU time (ns), kernels, launches and graph runs of the calls each range contains."""
        ranges, calls = self.trace.ranges, self.trace.calls
        weights = (
            self.call_gpu,
            self.call_kernels,
            self.launching.astype(np.int64),
            self._launched_of(DeviceKind.GRAPH),
        )
        totals = Contained(*(np.zeros(ranges.rows, np.int64) for _ in weights))
        rows = np.flatnonzero(self.launching)
        rows = rows[stable_order(calls["thread"][rows], calls["start"][rows])]
        timed = ranges["style"] != RangeStyle.MARK
        while len(rows):
            # calls of one thread end in the order they start, unless one runs inside another:
            # those that end too early wait for the next round
            previous, follows = previous_maximum(calls["thread"][rows], calls["end"][rows])
            early = follows & (calls["end"][rows] < previous)
            self._add_contained(totals, weights, rows[~early], timed)
            rows = rows[early]
        return totals

    def _add_contained(
        self, totals: Contained, weights: tuple[I64, ...], rows: I64, timed: Mask
    ) -> None:
        ranges, calls = self.trace.ranges, self.trace.calls
        thread = calls["thread"][rows]
        starts, ends, range_starts, range_ends = grouped_keys_of(
            (thread, calls["start"][rows]),
            (thread, calls["end"][rows]),
            (ranges["thread"], ranges["start"]),
            (ranges["thread"], ranges["end"]),
        )
        first = np.searchsorted(starts, range_starts, side="left")
        last = np.maximum(np.searchsorted(ends, range_ends, side="right"), first)
        for total, weight in zip(totals, weights, strict=True):
            sums = np.concatenate([[0], np.cumsum(weight[rows])])
            total += np.where(timed, sums[last] - sums[first], 0)

    @cached_property
    def devices(self) -> list[int]:
        """Rows of the devices to report on: all, or those that a chosen rank uses."""
        streams = self.trace.streams
        if self.selection.processes.all():
            return list(range(len(self.trace.devices)))
        used = np.unique(streams["device"][self.selection.processes[streams["process"]]])
        rows: list[int] = used.tolist()
        return rows

    @cached_property
    def gpu_known(self) -> Mask:
        """Processes whose GPU work was recorded, or that had none: shape (processes,)."""
        trace = self.trace
        known = np.array([one.device_recorded for one in trace.processes], np.bool_)
        known &= trace.recorded.device
        known[self.silent] = False
        return known

    @cached_property
    def silent(self) -> I64:
        """Processes that launched GPU work, in a trace of such work, with none of it recorded."""
        trace = self.trace
        if not trace.recorded.device or not trace.calls.rows:
            return np.empty(0, np.int64)
        names, codes = factorize(trace.calls["name"])
        texts = trace.strings.take(names)
        launches = np.array([_LAUNCH.match(text) is not None for text in texts], np.bool_)
        launching = np.unique(trace.calls["process"][launches[codes]])
        return np.setdiff1d(launching, trace.device["process"]).astype(np.int64)

    @cached_property
    def inferred(self) -> I64:
        """GPU time of other threads' calls that each phase was inferred to own, ns."""
        explained = self.explained
        phase = explained.call_phase
        around = np.full(len(phase), -1, np.int32)
        owned = explained.call_range >= 0
        around[owned] = explained.range_phase[explained.call_range[owned]]
        rows = np.flatnonzero((phase >= 0) & (around < 0))
        # a start/end phase contains the calls of its own thread: nothing is inferred there
        own_thread = self.trace.ranges["thread"][phase[rows]] == self.trace.calls["thread"][rows]
        rows = rows[~own_thread]
        return sum_by(phase[rows], self.call_gpu[rows], self.trace.ranges.rows)

    @cached_property
    def owned_gpu(self) -> I64:
        """GPU time owned by each range itself, children excluded, ns."""
        explained = self.explained
        rows = np.flatnonzero(explained.device_how == Attribution.THREAD)
        return sum_by(explained.device_range[rows], self.device_time[rows], self.trace.ranges.rows)

    def outermost(self, rows: I64, groups: npt.NDArray[Any]) -> Mask:
        """Return which push/pop ``rows`` lie in no other of their thread and group.

        Start/end ranges have no nest and always count.

        Args:
            rows: rows of ranges.
            groups: their groups, aligned with ``rows``.
        """
        ranges = self.trace.ranges
        thread, start, end = ranges["thread"][rows], ranges["start"][rows], ranges["end"][rows]
        codes = groups.astype(np.int64) * (int(thread.max(initial=0)) + 1) + thread
        order = stable_order(codes, start, -end)
        previous, follows = previous_maximum(_dense(codes[order]), end[order])
        nested = np.empty(len(rows), np.bool_)
        nested[order] = follows & (previous >= end[order])
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


@dataclass(frozen=True)
class Operators:
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
        nested = np.flatnonzero(chosen & (ranges["style"] == RangeStyle.PUSH_POP))
        nest = Nest.build(
            nested, ranges["thread"][nested], ranges["start"][nested], ranges["end"][nested]
        )
        rows = np.flatnonzero(chosen)
        self_time = measures.range_time.copy()
        self_time[nest.rows] = nest.self_time(nest.crossing())
        return cls(rows, self_time[rows], nearest_of(chosen, explained.range_parent))


def _dense(ordered: I64) -> I64:
    """Return consecutive codes for values in ascending order."""
    steps = np.ones(len(ordered), np.int64)
    steps[:1] = 0
    steps[1:] = ordered[1:] != ordered[:-1]
    return np.cumsum(steps)


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
