"""Nesting of ranges on their threads, decided on integer ns.

The parent of a push/pop range is the latest earlier-starting one on its thread, of any domain,
whose end is not before its own; equal bounds nest in order of appearance. Ranges that cross become
siblings.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.intervals import sum_by, union_by
from nvtrace.model.arrays import code_order, depths, stable_order
from nvtrace.model.explained import Level

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_FOREVER = np.iinfo(np.int64).max


class Nest(NamedTuple):
    """Some rows of a table as a forest, one per thread.

    Positions count through ``rows``, which are sorted by (thread, start, longer first).

    Attributes:
        rows: row of the table at each position.
        start: ns.
        end: ns.
        parent: position of the parent, -1 none.
        depth: number of ancestors.
        bounds: first position of each thread, and the end of the last.
        tangled: threads whose ranges may cross.
    """

    rows: I32
    start: I64
    end: I64
    parent: I32
    depth: I32
    bounds: I64
    tangled: tuple[int, ...]

    @classmethod
    def build(cls, rows: npt.NDArray[np.integer[Any]], thread: I32, start: I64, end: I64) -> Nest:
        """Return the forest of ``rows``; the arrays are aligned with them."""
        if not _in_order(start, end):
            order = stable_order(start, -end)
            rows, thread = rows.take(order), thread.take(order)
            start, end = start.take(order), end.take(order)
        order, bounds = by_thread(thread)
        start, end = start.take(order), end.take(order)
        parent, depth = np.empty(len(order), np.int32), np.empty(len(order), np.int32)
        tangled = []
        for one, (first, last) in enumerate(pairwise(bounds.tolist())):
            part = slice(first, last)
            found = _by_depth(start[part], end[part])
            if found is None:
                tangled.append(one)
                found = _by_chain(end[part])
            parent[part] = np.where(found[0] >= 0, found[0] + np.int32(first), np.int32(-1))
            depth[part] = found[1]
        table_rows = rows.take(order).astype(np.int32)
        return cls(table_rows, start, end, parent, depth, bounds, tuple(tangled))

    @property
    def thread(self) -> I32:
        """The thread at each position."""
        threads = np.arange(len(self.bounds) - 1, dtype=np.int32)
        return np.repeat(threads, np.diff(self.bounds))

    def levels(self) -> tuple[Level, ...]:
        """Return the ranges by depth; none where there are over 256 depths."""
        if int(self.depth.max(initial=0)) > 255:
            return ()
        order = code_order(self.depth)
        rows, parent = self.rows.take(order), self.parent.take(order)
        levels, last = [], 0
        for depth, count in enumerate(np.bincount(self.depth).tolist()):
            first, last = last, last + count
            above = parent[first:last]
            heads = np.flatnonzero((above >= 0) & (above != np.append(-1, above[:-1])))
            levels.append(Level(depth, rows[first:last], self.rows[above[heads]], heads))
        return tuple(levels)

    def innermost(self, thread: I32, start: I64, end: I64) -> I32:
        """Return the row of the innermost range that contains each interval, -1 none.

        A range contains an interval of its thread when neither bound lies outside; of several, the
        latest started is the innermost.

        Args:
            thread: shape (m,).
            start: shape (m,), ns.
            end: shape (m,), ns.
        """
        found = np.full(len(start), -1, np.int32)
        asked, wanted = by_thread(thread)
        rows, ends = np.append(self.rows, np.int32(-1)), np.append(self.end, _FOREVER)
        for mine, (first, last) in zip(
            pairwise(wanted.tolist()), pairwise(self.bounds.tolist()), strict=False
        ):
            here = asked[slice(*mine)]
            if first == last or not len(here):
                continue
            finish = end.take(here)
            place = np.searchsorted(self.start[first:last], start.take(here), side="right") - 1
            position = np.where(place >= 0, place + first, -1)
            # whatever starts before and does not contain the interval lies on the chain of parents
            climbing = np.flatnonzero(ends.take(position) < finish)
            while len(climbing):
                above = self.parent[position[climbing]]
                position[climbing] = above
                climbing = climbing[ends[above] < finish[climbing]]
            found[here] = rows.take(position)
        return found

    def crossing(self) -> Mask:
        """Return which positions cross another: one starts inside the other and ends after it."""
        crossing = np.zeros(len(self.rows), np.bool_)
        for thread in self.tangled:
            first, last = self.bounds[thread : thread + 2].tolist()
            start, end = self.start[first:last], self.end[first:last]
            crossing[first:last] = _cross_an_earlier(start, end)
            mirrored = stable_order(-end, start)
            late = _cross_an_earlier(-end[mirrored], -start[mirrored])
            crossing[first + mirrored[late]] = True
        return crossing

    def self_time(self, crossing: Mask) -> I64:
        """Return duration minus the union of the children at each position, ns."""
        duration = self.end - self.start
        if crossing.any():
            children = np.flatnonzero(self.parent >= 0)
            start, end = self.start[children], self.end[children]
            return duration - union_by(self.parent[children], start, end, len(self.rows))
        return duration - sum_by(self.parent + 1, duration, len(self.rows) + 1)[1:]


def by_thread(thread: I32) -> tuple[I64, I64]:
    """Return rows ordered by thread, and where in them each thread begins, and the last ends."""
    counts = np.bincount(thread)
    return code_order(thread), np.concatenate([[0], np.cumsum(counts)])


def _in_order(start: I64, end: I64) -> bool:
    """Return whether ranges are sorted by start, longer first at equal starts."""
    earlier, equal = start[1:] < start[:-1], start[1:] == start[:-1]
    return not (earlier | (equal & (end[1:] > end[:-1]))).any()


def _by_depth(start: I64, end: I64) -> tuple[I32, I32] | None:
    """Return parents and depths of one thread's ranges; None where they do not plainly nest.

    Where nothing crosses, the ranges open at a start are the ancestors. A first child follows its
    parent, any other shares the parent of the last range as deep. The outcome is proven: nobody
    outlasts the parent, and everybody the sibling before, so all that lies between ends too early.
    """
    count = len(start)
    place = np.arange(count, dtype=np.int32)
    beyond = np.maximum(np.searchsorted(start, end, side="left"), place + 1)
    closed = np.cumsum(np.bincount(beyond, minlength=count + 1)[:count])
    depth = (place - closed).astype(np.int32)
    order = code_order(depth)
    first = np.ones(count, np.bool_)
    first[1:] = depth[1:] > depth[:-1]
    first = first.take(order)
    eldest = np.maximum.accumulate(np.where(first, place, np.int32(0)))
    above, ends = order.take(eldest) - 1, end.take(order)
    roots = np.count_nonzero(above < 0)
    within = end.take(above[roots:]) >= ends[roots:]
    if not within.all() or not (first[1:] | (ends[1:] > ends[:-1])).all():
        return None
    parent = np.empty(count, np.int32)
    parent[order] = above
    return parent, depth


def _by_chain(end: I64) -> tuple[I32, I32]:
    """Return parents and depths of one thread's ranges, whichever way they overlap.

    Everyone first points left, then jumps through those that are too short; what a row jumps over
    has always been found too short for it, so the jumps double in length and stay exact.
    """
    parent = np.arange(-1, len(end) - 1, dtype=np.int32)
    searching = np.flatnonzero(end[:-1] < end[1:]) + 1
    while len(searching):
        parent[searching] = parent[parent[searching]]
        here = parent[searching]
        searching = searching[(here >= 0) & (end[here] < end[searching])]
    return parent, depths(parent)


def _cross_an_earlier(start: I64, end: I64) -> Mask:
    """Return which ranges of one thread start inside an earlier one and end after it.

    They are those with an earlier range among the ones that end within them: these are neighbours
    in the order of ends, and the earliest of 2^n neighbours is known for one n after the other.
    """
    order = np.argsort(end, kind="stable")
    ends = end[order]
    first = np.searchsorted(ends, start, side="right")
    last = np.searchsorted(ends, end, side="left")
    crossing = np.zeros(len(start), np.bool_)
    earliest, size = order, 1
    asked = np.flatnonzero(last > first)
    while len(asked):
        decided = last[asked] - first[asked] < 2 * size
        here = asked[decided]
        crossing[here] = np.minimum(earliest[first[here]], earliest[last[here] - size]) < here
        asked = asked[~decided]
        earliest = np.minimum(earliest[:-size], earliest[size:])
        size *= 2
    return crossing
