"""Algebra of closed-open time intervals, integer ns, vectorised over groups."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import distinct, stable_order, time_order
from nvtrace.model.table import Table

I64 = npt.NDArray[np.int64]
Codes = npt.NDArray[Any]

_ROOM = 2**62
_STRETCH_ROWS = 131_072  # whose starts, ends and lengths stay in the cache


def sum_by(codes: Codes, values: npt.NDArray[Any], groups: int) -> I64:
    """Return the sum of integer ``values`` of each group, int64 of shape (groups,)."""
    sums = np.zeros(groups, np.int64)
    np.add.at(sums, codes, values.astype(np.int64, copy=False))
    return sums


def sum_at(rows: Codes, values: npt.NDArray[Any], count: int) -> I64:
    """Return the sum of ``values`` at each of ``count`` rows; those at row -1 count nowhere."""
    return sum_by(rows, values, count + 1)[:-1]


def count_by(codes: Codes, groups: int) -> I64:
    """Return the number of rows of each group, int64 of shape (groups,)."""
    counts = np.zeros(groups, np.int64)
    np.add.at(counts, codes, 1)
    return counts


def grouped_keys_of(*pairs: tuple[Codes, I64]) -> list[I64]:
    """Return comparable (group, time) keys of several (codes, times) pairs."""
    filled = [(codes, times) for codes, times in pairs if len(times)]
    if not filled:
        return [np.empty(0, np.int64) for _ in pairs]
    low = min(int(times.min()) for _, times in filled)
    span = max(int(times.max()) for _, times in filled) - low + 1
    groups = max(int(codes.max()) for codes, _ in filled) + 1
    if span * groups < _ROOM:
        return [codes.astype(np.int64) * span + (times - low) for codes, times in pairs]
    # too long a capture for one int64 key: ranks of the times keep their order in less room
    moments = distinct(np.concatenate([times for _, times in filled]))
    return [
        codes.astype(np.int64) * len(moments) + np.searchsorted(moments, times)
        for codes, times in pairs
    ]


def previous_maximum(codes: Codes, values: I64) -> tuple[I64, npt.NDArray[np.bool_]]:
    """Return the largest earlier value of the row's group, and whether there is an earlier row.

    Args:
        codes: groups in ascending order, shape (n,).
        values: shape (n,).
    """
    first = np.ones(len(codes), np.bool_)
    first[1:] = codes[1:] != codes[:-1]
    if not len(codes):
        return values, ~first
    low = int(values.min())
    span = int(values.max()) - low + 1
    if span * (int(codes[-1]) + 1) < _ROOM:
        keys = codes.astype(np.int64) * span + (values - low)
        largest = np.maximum.accumulate(keys) - codes.astype(np.int64) * span + low
    else:
        order = np.argsort(values, kind="stable")
        ranks = np.empty(len(values), np.int64)
        ranks[order] = np.arange(len(values))
        offset = codes.astype(np.int64) * len(values)
        largest = values[order][np.maximum.accumulate(ranks + offset) - offset]
    previous = np.empty_like(values)
    previous[0] = values[0]
    previous[1:] = largest[:-1]
    return previous, ~first


def union_by(codes: Codes, starts: I64, ends: I64, groups: int) -> I64:
    """Return the length of the union of each group's intervals, int64 of shape (groups,)."""
    order = stable_order(codes, starts)
    codes, starts, ends = codes[order], starts[order], ends[order]
    previous, follows = previous_maximum(codes, ends)
    begins = np.where(follows, np.maximum(starts, previous), starts)
    return sum_by(codes, np.maximum(ends - begins, 0), groups)


class Union:
    """The union of intervals, which may overlap, and how much of it lies where.

    Args:
        starts: shape (n,).
        ends: shape (n,), none before its start.
    """

    def __init__(self, starts: I64, ends: I64) -> None:
        self._starts, self._ends = starts, ends

    def before(self, moments: npt.NDArray[Any]) -> I64:
        """Return how much of the union lies before each moment."""
        return _before(self._starts, self._ends, moments)

    def within(self, window: tuple[I64, I64]) -> int:
        """Return how much of the union lies in ``window``, disjoint intervals in order."""
        length = 0
        for starts, ends, (begin, end) in self._stretches():
            first = np.searchsorted(window[1], begin, side="right")
            last = np.searchsorted(window[0], end, side="left")
            if first < last:
                opens = np.maximum(window[0][first:last], begin)
                closes = np.minimum(window[1][first:last], end)
                upto = _before(starts, ends, np.concatenate([opens, closes]))
                length += int(upto[len(opens) :].sum() - upto[: len(opens)].sum())
        return length

    def _stretches(self) -> Iterator[tuple[I64, I64, tuple[int, int]]]:
        """Yield what goes on in one stretch of time after the other, and the stretch's bounds.

        Of a long union little is at work at once. What began earlier and goes on is one interval.
        """
        if not len(self._starts):
            return
        runs = [(self._starts[run], self._ends[run]) for run in ascending_runs(self._starts)]
        step = max(_STRETCH_ROWS // len(runs), 1)
        marks = np.sort(np.concatenate([starts[step::step] for starts, _ in runs]))
        cuts = distinct(marks[len(runs) - 1 :: len(runs)])
        places = [[0, *np.searchsorted(starts, cuts).tolist(), len(starts)] for starts, _ in runs]
        begin = reach = min(int(starts[0]) for starts, _ in runs)
        for number, end in enumerate([*cuts.tolist(), np.iinfo(np.int64).max]):
            parts = [slice(*place[number : number + 2]) for place in places]
            starts, ends = (
                np.concatenate(
                    [first, *(run[side][part] for run, part in zip(runs, parts, strict=True))]
                )
                for side, first in enumerate(([begin], [reach]))
            )
            yield starts, ends, (begin, end)
            begin, reach = end, max(int(ends.max()), end)


def _before(starts: I64, ends: I64, moments: npt.NDArray[Any]) -> I64:
    """Return how much of the union of intervals lies before each moment."""
    if not len(starts):
        return np.zeros(len(moments), np.int64)
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    gaps = np.maximum(starts[1:] - reach[:-1], 0)
    gaps = np.cumsum(gaps, out=gaps)
    last = np.searchsorted(starts, moments, side="right") - 1
    begun = np.maximum(last, 0)
    left_out = np.where(begun > 0, gaps[begun - 1], 0) if len(gaps) else 0
    length = np.minimum(reach[begun], moments) - starts[0] - left_out
    return np.where(last >= 0, length, 0)


def by_start(table: Table, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return chosen rows in the order of time, also where each file's stand behind another's."""
    order = time_order({name: table[name][rows] for name in ("start", "end")})
    found: npt.NDArray[Any] = rows[order]
    return found


def ascending_runs(starts: I64) -> list[slice]:
    """Return where in ``starts`` they ascend: all of one file, and then of the next."""
    breaks = np.flatnonzero(starts[1:] < starts[:-1]) + 1
    return [slice(*bounds) for bounds in pairwise([0, *breaks.tolist(), len(starts)])]


def merged(starts: I64, ends: I64) -> tuple[I64, I64]:
    """Return the union as disjoint intervals in ascending order; touching ones are joined."""
    if not len(starts):
        return starts, ends
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    ends = np.maximum.accumulate(ends)
    opens = np.ones(len(starts), np.bool_)
    opens[1:] = starts[1:] > ends[:-1]
    closes = np.append(opens[1:], True)
    return starts[opens], ends[closes]


def spans(first: I64, last: I64) -> I64:
    """Return the numbers from each ``first`` to before its ``last``, one span after the other."""
    lengths = np.maximum(last - first, 0)
    found: I64 = np.repeat(first - np.cumsum(lengths) + lengths, lengths)
    found += np.arange(len(found))
    return found


def clipped(starts: I64, ends: I64, window: tuple[I64, I64]) -> tuple[I64, I64]:
    """Return the union of intervals cut to a window, as disjoint intervals in ascending order.

    Args:
        starts: shape (n,).
        ends: shape (n,).
        window: disjoint intervals in ascending order.
    """
    starts, ends = merged(starts, ends)
    if not len(starts) or not len(window[0]):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    first = np.searchsorted(window[1], starts, side="right")
    last = np.searchsorted(window[0], ends, side="left")
    part = spans(first, last)
    owner = np.repeat(np.arange(len(starts)), np.maximum(last - first, 0))
    return np.maximum(starts[owner], window[0][part]), np.minimum(ends[owner], window[1][part])
