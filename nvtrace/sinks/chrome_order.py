"""In which order rows are written: by start, outer ones first, a stretch of time at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I64, picked, time_order
from nvtrace.model.schema import RangeStyle
from nvtrace.model.table import Table
from nvtrace.model.trace import TraceData
from nvtrace.sinks.chrome_choice import Chosen

Bools = npt.NDArray[np.bool_]

STRETCH_ROWS = 32_768


class Ordered:
    """The rows of a table by start, longer first; mostly they stand so already.

    Args:
        table: with columns ``start`` and ``end``.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._order = None if _in_order(table) else time_order(
            {"start": table["start"], "end": np.maximum(table["start"], table["end"])}
        )  # fmt: skip

    def chosen(self, mask: Bools, first: int, last: int) -> I64:
        """Return those of the rows at some positions that a mask of the table chooses."""
        if self._order is None:
            return first + np.flatnonzero(mask[first:last])
        rows = self._order[first:last]
        return rows[mask.take(rows)]

    def start_at(self, position: int) -> int:
        """Return the start of the row at a position, the largest number behind the last."""
        if position >= self._table.rows:
            return np.iinfo(np.int64).max
        row = position if self._order is None else self._order[position]
        return int(self._table["start"][row])

    def position_of(self, time: int, first: int) -> int:
        """Return the position, from ``first`` on, of what starts at ``time`` or later."""
        start = self._table["start"]
        if self._order is None:
            return first + int(np.searchsorted(start[first:], time))
        return int(np.searchsorted(start, time, sorter=self._order))


def _in_order(table: Table) -> bool:
    for first in range(0, table.rows, 1 << 20):
        part = slice(first, first + (1 << 20) + 1)
        start, end = table["start"][part], table["end"][part]
        later = start[1:] > start[:-1]
        if not (later | ((start[1:] == start[:-1]) & (end[1:] <= end[:-1]))).all():
            return False
    return True


class Stretch(NamedTuple):
    """Chosen rows that start in a stretch of time.

    Attributes:
        ranges: rows of ``ranges``.
        calls: rows of ``calls``.
        order: their order by start, longer first: places in ranges and calls, one behind the other.
        start: starts in that order, ns.
        end: ends in that order, none before its start.
    """

    ranges: I64
    calls: I64
    order: I64
    start: I64
    end: I64

    def ordered(self, of_ranges: npt.NDArray[Any], of_calls: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return, in order, what the ranges and the calls have."""
        both: npt.NDArray[Any] = np.concatenate([of_ranges, of_calls]).take(self.order)
        return both


def host_stretches(trace: TraceData, chosen: Chosen) -> Iterator[Stretch]:
    """Yield the chosen ranges, without marks, and calls."""
    ranges, calls = Ordered(trace.ranges), Ordered(trace.calls)
    slices = chosen.ranges & (trace.ranges["style"] != RangeStyle.MARK)
    at_range = at_call = 0
    while at_range < trace.ranges.rows or at_call < trace.calls.rows:
        half = STRETCH_ROWS // 2
        until = min(ranges.start_at(at_range + half), calls.start_at(at_call + half))
        next_range = ranges.position_of(until, at_range)
        next_call = calls.position_of(until, at_call)
        if (next_range, next_call) == (at_range, at_call):  # they all start at once
            next_range = ranges.position_of(until + 1, at_range)
            next_call = calls.position_of(until + 1, at_call)
        own = ranges.chosen(slices, at_range, next_range)
        launched = calls.chosen(chosen.calls, at_call, next_call)
        if len(own) or len(launched):
            yield _merged(trace, own, launched)
        at_range, at_call = next_range, next_call


def _merged(trace: TraceData, ranges: I64, calls: I64) -> Stretch:
    start, end = (
        np.concatenate([picked(trace.ranges[name], ranges), picked(trace.calls[name], calls)])
        for name in ("start", "end")
    )
    order = np.argsort(start, kind="stable")
    ordered = start.take(order)
    tied = _tied(ordered)
    if len(tied):
        of_ties = order[tied]
        length = np.maximum(end[of_ties] - start[of_ties], 0)
        order[tied] = of_ties[np.lexsort((-length, start[of_ties]))]
    return Stretch(ranges, calls, order, ordered, np.maximum(ordered, end.take(order)))


def device_stretches(trace: TraceData, chosen: Chosen) -> Iterator[I64]:
    """Yield chosen rows of ``device``."""
    ordered = Ordered(trace.device)
    for first in range(0, trace.device.rows, STRETCH_ROWS):
        rows = ordered.chosen(chosen.device, first, first + STRETCH_ROWS)
        if len(rows):
            yield rows


def _tied(start: I64) -> I64:
    """Return the positions of rows that start with the one before or behind."""
    same = start[1:] == start[:-1]
    tied = np.zeros(len(start), np.bool_)
    tied[1:] = same
    tied[:-1] |= same
    return np.flatnonzero(tied)
