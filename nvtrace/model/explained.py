"""Explained: a trace with the columns that analysis derives, for sinks to read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import depths, renumbered
from nvtrace.model.trace import TraceData

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]


class Level(NamedTuple):
    """Push/pop ranges of one depth.

    Attributes:
        depth: the number of their ancestors.
        rows: their rows, the children of a range side by side.
        parents: the ranges that have children here, in the order of these; none at depth 0.
        heads: place in ``rows`` of the first child of each.
    """

    depth: int
    rows: I32
    parents: I32
    heads: I64

    def renumbered(self, before: np.int32) -> Level:
        """Return the same for a table in which other rows now come before."""
        rows, parents = (renumbered(before, own) for own in (self.rows, self.parents))
        return self._replace(rows=rows, parents=parents)


@dataclass(frozen=True)
class Explained:
    """A trace and what its rows mean. Arrays are aligned with the rows of the trace's tables.

    Attributes:
        trace: the tables.
        range_parent: row of the innermost enclosing push/pop range on the thread, -1 none
            (start/end ranges and marks have none and are nobody's parent).
        range_self: duration minus the union of the children, ns.
        range_kind: RangeKind.
        range_guessed: True where the kind was guessed from the name alone.
        range_name: row of strings: the name without ids (``aten::mm`` for ``aten::mm, seq = 5``).
        range_attributes: row of strings: what was split off the name, -1 none.
        range_flags: RangeFlag, those of the source and CROSSING.
        range_phase: row of the nearest phase among the range and its ancestors, -1 none.
        call_range: row of the owning range (innermost on the calling thread), -1 none.
        call_phase: row of the phase around the call's owner, or of the start/end phase around the
            call on its thread, or, where that has none open, of the one open in the process; -1.
        call_step_row: row of the step open on the calling thread at the call, or, where that has
            none, of the one open in the process; -1.
        device_call: row of the launching call, -1 unknown.
        device_range: row of the range the launching call's work belongs to: its owner, or the
            phase inferred; -1.
        device_how: Attribution.
        device_capture: row of the range around the creation of its graph node, -1 none.
        step_rows: rows of ranges that are steps, ascending.
        step_numbers: their numbers, aligned with ``step_rows``.
        step_open: returns the row of the step open, on the thread or else in the process, for
            arrays of process, thread and moment (ns); -1.
        range_levels: push/pop ranges by depth, file by file where they stand so; empty where they
            nest deeper than that helps.
    """

    trace: TraceData
    range_parent: I32
    range_self: I64
    range_kind: U8
    range_guessed: npt.NDArray[np.bool_]
    range_name: I32
    range_attributes: I32
    range_flags: U8
    range_phase: I32
    call_range: I32
    call_phase: I32
    call_step_row: I32
    device_call: I32
    device_range: I32
    device_how: U8
    device_capture: I32
    step_rows: I32
    step_numbers: I64
    step_open: Callable[[I32, I32, I64], I32]
    range_levels: tuple[Level, ...]

    @cached_property
    def range_depth(self) -> I32:
        """Number of ancestors of each range."""
        if not self.range_levels:
            return depths(self.range_parent)
        depth = np.zeros(len(self.range_parent), np.int32)
        for level in self.range_levels:
            depth[level.rows] = level.depth
        return depth

    @cached_property
    def range_step(self) -> I32:
        """Step number of each range, -1 outside steps."""
        return self.steps_of(slice(None))

    @cached_property
    def call_step(self) -> I32:
        """Step number of each call, -1 outside steps."""
        return self._numbers(self.call_step_row)

    @cached_property
    def device_step(self) -> I32:
        """Step number of the launching call of each device row, -1 none."""
        return np.append(self.call_step, np.int32(-1))[self.device_call]

    def steps_of(self, ranges: npt.NDArray[np.integer[Any]] | slice) -> I32:
        """Return the step number of chosen ranges, -1 outside steps."""
        table = self.trace.ranges
        thread = table["thread"][ranges]
        process = self.trace.threads["process"][thread]
        return self._numbers(self.step_open(process, thread, table["start"][ranges]))

    def _numbers(self, rows: I32) -> I32:
        """Return the number of the step that each of some rows of ranges is, -1 for none."""
        number_of = np.full(self.trace.ranges.rows + 1, -1, np.int32)  # -1 finds the last
        number_of[self.step_rows] = self.step_numbers
        return number_of[rows]
