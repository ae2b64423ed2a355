"""What is said of a trace as a whole: the window, the devices, how much GPU time there was."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.events import Events, Window
from nvtrace.analysis.measures import Measures, gpu_known
from nvtrace.analysis.parts import Figures, Groups
from nvtrace.model.arrays import code_order, grouped
from nvtrace.model.trace import TraceData

I64 = npt.NDArray[np.int64]


class Basis(NamedTuple):
    """What every table may rest on, of one file or of several together.

    Attributes:
        by_how: GPU time unattributed, attributed and inferred, ns: shape (3,), by Attribution.
        steps: number of steps that are counted.
        in_steps: when any of them went on.
        step_times: by number and which time it comes in its process, ns: the maximum is of the
            longest process.
        extent: from the first event to the last.
        device_rows: number of rows of GPU work, selected or not.
        mute: rows of processes that launched GPU work, with no row of it.
        devices: rows of the devices to report on.
    """

    by_how: I64
    steps: int
    in_steps: Events
    step_times: Groups
    extent: Events
    device_rows: int
    mute: frozenset[int]
    devices: frozenset[int]


def gather(measures: Measures) -> Basis:
    """Return what every table may rest on."""
    trace, selection = measures.trace, measures.selection

    def extent() -> tuple[I64, I64]:
        tables = [table for table in (trace.ranges, trace.calls, trace.device) if table.rows]
        first = np.array([table["start"].min() for table in tables], np.int64)
        last = np.array([table["end"].max() for table in tables], np.int64)
        return np.sort(first)[:1], np.sort(last)[-1:]

    steps = measures.explained.step_rows[selection.steps]
    return Basis(
        by_how=measures.by_how,
        steps=len(steps),
        in_steps=Events.of(trace.ranges, steps, count=False),
        step_times=_step_times(measures),
        extent=Events([extent], []),
        device_rows=trace.device.rows,
        mute=frozenset(measures.mute.tolist()),
        devices=frozenset(measures.devices),
    )


def _step_times(measures: Measures) -> Groups:
    explained, chosen = measures.explained, measures.selection.steps
    rows, number = explained.step_rows[chosen], explained.step_numbers[chosen]
    process = measures.trace.threads["process"][measures.trace.ranges["thread"][rows]]
    _, own = grouped(process, number)
    order = code_order(own)
    before = np.empty(len(rows), np.int64)  # of the same number and process
    before[order] = np.arange(len(rows)) - np.searchsorted(own[order], own[order])
    keys, codes = grouped(number, before)
    return Groups(keys, (Figures.of(codes, measures.range_time(rows), len(keys)),))


@dataclass(frozen=True)
class Frame:
    """What tables are made of beside their own parts.

    Attributes:
        trace: names, processes, devices, notes; not its rows, which may not be there.
        basis: figures of the whole.
        window: disjoint intervals in ascending order, ns.
        narrowed: whether the user asked for a part.
    """

    trace: TraceData
    basis: Basis
    window: Window
    narrowed: bool

    @classmethod
    def of(cls, measures: Measures) -> Frame:
        """Return that of a trace whose rows are there."""
        selection = measures.selection
        return cls(measures.trace, gather(measures), selection.window, selection.narrowed)

    @classmethod
    def around(cls, trace: TraceData, basis: Basis, *, narrowed: bool) -> Frame:
        """Return that of a trace whose rows are not: its window is the steps, else all."""
        if basis.steps:
            return cls(trace, basis, basis.in_steps.intervals(), narrowed)
        starts, ends = basis.extent.intervals()
        first, last = (int(starts[0]), int(ends[-1])) if len(starts) else (0, 0)
        if last > trace.capture_start:
            first = max(first, trace.capture_start)
        window = np.array([first]), np.array([max(first, last)])
        return cls(trace, basis, window, narrowed)

    @property
    def window_ns(self) -> int:
        """The length of the window."""
        return int((self.window[1] - self.window[0]).sum())

    @property
    def gpu_ns(self) -> int:
        """All GPU time."""
        return int(self.basis.by_how.sum())

    @property
    def devices(self) -> list[int]:
        """Rows of the devices to report on."""
        return sorted(self.basis.devices)

    @cached_property
    def gpu_known(self) -> npt.NDArray[np.bool_]:
        """Processes whose GPU work was recorded, or that had none: shape (processes,)."""
        return gpu_known(self.trace, self.basis.mute)
