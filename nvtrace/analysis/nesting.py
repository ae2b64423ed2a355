"""Nesting of ranges on their threads, decided on integer ns.

The parent of a push/pop range is the latest earlier-starting one on its thread, of any domain,
whose end is not before its own; equal bounds nest in order of appearance. Ranges that cross become
siblings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.intervals import grouped_keys, grouped_keys_of, sum_by, union_by
from nvtrace.model.arrays import stable_order

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Nest:
    """Some rows of a table as a forest, one per thread.

    Positions count through ``rows``, which are sorted by (thread, start, longer first).

    Attributes:
        rows: row of the table at each position.
        thread: thread at each position.
        start: ns.
        end: ns.
        parent: position of the parent, -1 none.
    """

    rows: I64
    thread: I32
    start: I64
    end: I64
    parent: I64

    @classmethod
    def build(cls, rows: I64, thread: I32, start: I64, end: I64) -> Nest:
        """Return the forest of ``rows``; the arrays are aligned with them."""
        order = stable_order(thread, start, -end)
        thread, start, end = thread[order], start[order], end[order]
        return cls(rows[order], thread, start, end, _parents(thread, end))

    def innermost(self, thread: I32, start: I64, end: I64) -> I64:
        """Return the row of the innermost range that contains each interval, -1 none.

        A range contains an interval of its thread when neither bound lies outside; of several, the
        latest started is the innermost.

        Args:
            thread: shape (m,).
            start: shape (m,), ns.
            end: shape (m,), ns.
        """
        if not len(self.rows):
            return np.full(len(start), -1, np.int64)
        keys, wanted = grouped_keys_of((self.thread, self.start), (thread, start))
        position = np.searchsorted(keys, wanted, side="right") - 1
        position[(position >= 0) & (self.thread[position] != thread)] = -1
        # whatever starts before and does not contain the interval lies on the chain of parents
        climbing = np.flatnonzero((position >= 0) & (self.end[position] < end))
        while len(climbing):
            position[climbing] = self.parent[position[climbing]]
            here = position[climbing]
            climbing = climbing[(here >= 0) & (self.end[here] < end[climbing])]
        return np.where(position >= 0, self.rows[position], -1)

    def depth(self) -> I32:
        """Return the number of ancestors at each position."""
        depth = (self.parent >= 0).astype(np.int32)
        ancestor = self.parent.copy()
        rising = np.flatnonzero(ancestor >= 0)
        while len(rising):
            depth[rising] += depth[ancestor[rising]]
            ancestor[rising] = ancestor[ancestor[rising]]
            rising = rising[ancestor[rising] >= 0]
        return depth

    def crossing(self) -> Mask:
        """Return which positions cross another: one starts inside the other and ends after it."""
        crossing = np.zeros(len(self.rows), np.bool_)
        for thread in np.unique(self.thread[self._suspects()]).tolist():
            first, last = np.searchsorted(self.thread, [thread, thread + 1])
            start, end = self.start[first:last], self.end[first:last]
            crossing[first:last] = _cross_an_earlier(start, end)
            mirrored = stable_order(-end, start)
            late = _cross_an_earlier(-end[mirrored], -start[mirrored])
            crossing[first + mirrored[late]] = True
        return crossing

    def _suspects(self) -> Mask:
        """Return which positions have more ranges open around their start than ancestors.

        Where nothing crosses there are none; where something does, it or what it contains is here.
        """
        if not len(self.rows):
            return np.zeros(0, np.bool_)
        starts, ends = grouped_keys(self.thread, self.start, self.end)
        closed = np.searchsorted(np.sort(ends), starts, side="right")
        # empty ranges at the same instant are closed, and sorted after the one that starts there
        empty = np.sort(starts[starts == ends])
        closed -= np.searchsorted(empty, starts, side="right")
        closed += np.searchsorted(empty, starts, side="left")
        longer: Mask = self.end > self.start
        return longer & (np.arange(len(starts)) - closed > self.depth())

    def self_time(self, crossing: Mask) -> I64:
        """Return duration minus the union of the children at each position, ns."""
        children = np.flatnonzero(self.parent >= 0)
        parents = self.parent[children]
        start, end = self.start[children], self.end[children]
        if crossing.any():
            covered = union_by(parents, start, end, len(self.rows))
        else:
            covered = sum_by(parents, end - start, len(self.rows))
        return self.end - self.start - covered


def _parents(thread: I32, end: I64) -> I64:
    """Return for each position the nearest one to the left with an end not before its own.

    Everyone first points left, then jumps through those that are too short; what a row jumps over
    has always been found too short for it, so the jumps double in length and stay exact.
    """
    count = len(end)
    parent = np.arange(-1, count - 1)
    first = np.ones(count, np.bool_)
    first[1:] = thread[1:] != thread[:-1]
    parent[first] = -1
    searching = np.flatnonzero(~first)
    searching = searching[end[parent[searching]] < end[searching]]
    while len(searching):
        parent[searching] = parent[parent[searching]]
        here = parent[searching]
        searching = searching[(here >= 0) & (end[here] < end[searching])]
    return parent


def _cross_an_earlier(start: I64, end: I64) -> Mask:
    """Return which ranges of one thread start inside an earlier one and end after it.

    For each range, from the last to the first, the nearest smaller end among the earlier ranges
    decides: it lies inside the range or none does. Ends are kept in a linked list that shrinks.
    """
    values, ranks = np.unique(end, return_inverse=True)
    ends = values.tolist()
    left = np.bincount(ranks, minlength=len(ends)).tolist()
    smaller = list(range(-1, len(ends) - 1))
    larger = list(range(1, len(ends) + 1))
    crossing = np.zeros(len(start), np.bool_)
    begins = start.tolist()
    for row, rank in reversed(list(enumerate(ranks.tolist()))):
        before = smaller[rank]
        if before >= 0 and ends[before] > begins[row] and ends[rank] > begins[row]:
            crossing[row] = True
        left[rank] -= 1
        if not left[rank]:
            after = larger[rank]
            if after < len(ends):
                smaller[after] = before
            if before >= 0:
                larger[before] = after
    return crossing
