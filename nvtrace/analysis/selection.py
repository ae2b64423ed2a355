"""Which part of a trace a report is about: steps, a time window, a rank."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.intervals import clipped, merged
from nvtrace.errors import UsageError
from nvtrace.model.arrays import contained, distinct
from nvtrace.model.explained import Explained
from nvtrace.model.schema import RangeStyle
from nvtrace.model.table import Table
from nvtrace.model.trace import TraceData

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Bounds = tuple[int | None, int | None]


class Masks(NamedTuple):
    """Chosen rows: masks over ranges, calls and device rows."""

    ranges: Mask
    calls: Mask
    device: Mask


class Selection(NamedTuple):
    """Rows that a report counts, and the window it measures against.

    Attributes:
        ranges: mask over ranges.
        calls: mask over calls.
        device: mask over device rows.
        processes: mask over processes: those of the rank asked for.
        reaching: what may reach into the window, for figures that are cut to it: also rows that
            start, or were launched, outside of what was asked for.
        steps: mask over ``Explained.step_rows``.
        window: disjoint intervals in ascending order, ns: the steps where there are any, else the
            time from the first event to the last.
        narrowed: whether the user asked for a part.
    """

    ranges: Mask
    calls: Mask
    device: Mask
    processes: Mask
    reaching: Masks
    steps: Mask
    window: tuple[I64, I64]
    narrowed: bool

    def covers(self, times: I64) -> Mask:
        """Return which moments lie in the window, gaps between steps included; all if whole."""
        if not self.narrowed or not len(self.window[0]):
            return np.ones(len(times), np.bool_)
        inside: Mask = (times >= self.window[0][0]) & (times <= self.window[1][-1])
        return inside


def select(
    explained: Explained,
    *,
    steps: Bounds | None = None,
    time: Bounds | None = None,
    rank: int | None = None,
    whole: bool = True,
) -> Selection:
    """Return the part of a trace that the arguments name.

    Args:
        explained: the trace.
        steps: first step and the one after the last; None leaves a side open. Ranges and calls
            that start in a step belong to it, GPU work to the step that launched it.
        time: from and until, ns since the trace's zero; rows that start there.
        rank: only this rank's processes.
        whole: whether the trace is all there is: else rank and steps may be those of another file.

    Raises:
        UsageError: nothing can be there: no such step, a window outside the capture, no such rank.
    """
    trace = explained.trace
    ranges = np.ones(trace.ranges.rows, np.bool_)
    calls = np.ones(trace.calls.rows, np.bool_)
    device = np.ones(trace.device.rows, np.bool_)
    chosen = np.ones(len(explained.step_rows), np.bool_)
    process = trace.threads["process"]
    processes = np.ones(len(trace.processes), np.bool_)
    if rank is not None:
        processes = _processes_of(trace, rank, whole)
        ranges &= processes[process[trace.ranges["thread"]]]
        calls &= processes[trace.calls["process"]]
        device &= processes[trace.device["process"]]
        chosen &= processes[process[trace.ranges["thread"][explained.step_rows]]]
    reaching = Masks(ranges.copy(), calls.copy(), device.copy())
    if steps is not None:
        if whole:
            check_steps(explained.step_numbers[chosen], steps)
        chosen &= _between(explained.step_numbers, steps)
        wanted = explained.step_numbers[chosen]
        ranges &= np.isin(explained.range_step, wanted)
        calls &= np.isin(explained.call_step, wanted)
        device &= np.isin(explained.device_step, wanted) | _unlaunched_within(explained, chosen)
    window = _window(explained, chosen, time)
    if time is not None:
        first, last = _checked_time(explained, time)
        chosen &= _starts_between(trace.ranges, first, last)[explained.step_rows]
        ranges &= _starts_between(trace.ranges, first, last)
        calls &= _starts_between(trace.calls, first, last)
        device &= _starts_between(trace.device, first, last)
    return Selection(
        ranges=ranges,
        calls=calls,
        device=device,
        processes=processes,
        reaching=reaching,
        steps=chosen,
        window=window,
        narrowed=any(argument is not None for argument in (steps, time, rank)),
    )


def _processes_of(trace: TraceData, rank: int, whole: bool) -> Mask:
    if whole:
        check_rank(trace, rank)
    return np.array([process.rank == rank for process in trace.processes], np.bool_)


def check_rank(trace: TraceData, rank: int) -> None:
    """Raise UsageError where no process of a trace has the rank."""
    known = sorted({process.rank for process in trace.processes if process.rank is not None})
    if rank not in known:
        have = f"there are ranks {', '.join(map(str, known))}" if known else "no rank is known"
        raise UsageError(
            f"no process of rank {rank}: {have}; ranks come from file names like run.rank0.sqlite"
        )


def check_steps(numbers: I64, steps: Bounds) -> None:
    """Raise UsageError where none of the steps that there are is one of those asked for.

    Args:
        numbers: of all steps.
        steps: first, and the one after the last.
    """
    if not len(numbers):
        raise UsageError(
            "no step ranges found, so no steps can be chosen; mark them with nvtrace.step() or "
            "name them with --step-range NAME"
        )
    if not _between(numbers, steps).any():
        low, high = int(numbers.min()), int(numbers.max())
        raise UsageError(f"no step in {_written(steps)}: the trace has steps {low}:{high + 1}")


def _between(numbers: I64, steps: Bounds) -> Mask:
    first, stop = steps
    found = np.ones(len(numbers), np.bool_)
    if first is not None:
        found &= numbers >= first
    if stop is not None:
        found &= numbers < stop
    return found


def _unlaunched_within(explained: Explained, chosen: Mask) -> Mask:
    """Return device rows whose launch was not recorded and that start in a chosen step.

    In one of their process, or where that has no steps at all, in one of any.
    """
    trace = explained.trace
    rows, process = np.flatnonzero(explained.device_call < 0), _process_of_steps(explained)
    start, owner = trace.device["start"][rows], trace.device["process"][rows]
    found = np.zeros(trace.device.rows, np.bool_)
    for one in distinct(owner).tolist():
        own = process == one
        steps = explained.step_rows[chosen & own if own.any() else chosen]
        first, last = _intervals(trace.ranges, steps)
        here = owner == one
        place = np.searchsorted(first, start[here], side="right") - 1
        found[rows[here]] = (place >= 0) & (start[here] < np.append(last, 0)[place])
    return found


def astray(explained: Explained) -> bool:
    """Return whether any GPU work is of unknown launch, and of a process without steps."""
    owner = explained.trace.device["process"][explained.device_call < 0]
    return not contained(owner, _process_of_steps(explained)).all()


def _process_of_steps(explained: Explained) -> npt.NDArray[np.int32]:
    trace = explained.trace
    found: npt.NDArray[np.int32] = trace.threads["process"][
        trace.ranges["thread"][explained.step_rows]
    ]
    return found


def _checked_time(explained: Explained, time: Bounds) -> tuple[int, int]:
    begin, end = explained.trace.span
    first = begin if time[0] is None else time[0]
    last = end + 1 if time[1] is None else time[1]
    if first >= last or last <= begin or first > end:
        raise UsageError(
            f"no event in {_written(time)} ns: the trace runs from {begin} to {end} ns"
        )
    return first, last


def _starts_between(table: Table, first: int, last: int) -> Mask:
    inside: Mask = (table["start"] >= first) & (table["start"] < last)
    return inside


def _intervals(ranges: Table, rows: npt.NDArray[np.int32]) -> tuple[I64, I64]:
    timed = rows[ranges["style"][rows] != RangeStyle.MARK]
    return merged(ranges["start"][timed], ranges["end"][timed])


def _window(explained: Explained, steps: Mask, time: Bounds | None) -> tuple[I64, I64]:
    begin, end = explained.trace.span
    whole = np.array([begin]), np.array([max(end, begin)])
    window = (
        _intervals(explained.trace.ranges, explained.step_rows[steps]) if steps.any() else whole
    )
    if time is None:
        return window
    first, last = _checked_time(explained, time)
    narrow = np.array([max(first, begin)]), np.array([min(last, end)])
    inside = clipped(window[0], window[1], narrow)
    # a stretch of time with no step in it is still what the user asked about
    return inside if len(inside[0]) else narrow


def _written(bounds: Bounds) -> str:
    return ":".join("" if bound is None else str(bound) for bound in bounds)
