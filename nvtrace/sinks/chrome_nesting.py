"""Which lanes need no second look: almost everywhere slices are nested or apart as they come.

Checked a stretch of time at a time; what is still open at the end of one is carried to the next.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I64
from nvtrace.sinks import chrome_native

Bools = npt.NDArray[np.bool_]

# A nest may be half as deep as lanes are: whoever is near the limit is looked at closely.
_DOUBLINGS = 8


def nest_check(groups: int) -> NestCheck | chrome_native.NestCheck:
    """Return what finds the groups whose slices do not all nest, in C where that was built."""
    return chrome_native.NestCheck(groups) if chrome_native.library() else NestCheck(groups)


class NestCheck:
    """Finds the groups whose slices do not all nest on one lane.

    Args:
        groups: the number of groups.
    """

    def __init__(self, groups: int) -> None:
        self.used: Bools = np.zeros(groups, np.bool_)
        self.failed: Bools = np.zeros(groups, np.bool_)
        self._open: list[I64] = [np.empty(0, np.int64)] * 3

    def add(self, group: I64, start: I64, end: I64, anchors: Bools) -> None:
        """Check slices that all start later than those before.

        Args:
            group: of shape (n,). Rows come by start, then longer first.
            start: ns.
            end: ns, not before ``start``.
            anchors: slices with whose start no other may start that lies inside.
        """
        self.used[group] = True
        carried = len(self._open[0])
        group, start, end = (
            np.concatenate([before, now])
            for before, now in zip(self._open, (group, start, end), strict=True)
        )
        anchors = np.concatenate([np.zeros(carried, np.bool_), anchors])
        trusted = ~self.failed[group]
        if not trusted.all():
            group, start, end = group[trusted], start[trusted], end[trusted]
            anchors = anchors[trusted]
        if not len(group):
            self._open = [group, start, end]
            return
        short = group.astype(np.uint16) if len(self.used) < 1 << 16 else group
        order = np.argsort(short, kind="stable")
        bad = _misplaced(group[order], start[order], end[order], anchors[order])
        self.failed[group[order[bad]]] = True
        still = (end > start[-1]) & ~self.failed[group]
        self._open = [column[still] for column in (group, start, end)]


def _misplaced(group: I64, start: I64, end: I64, anchors: Bools) -> Bools:
    """Return slices that cross one before, that hide an anchor, or that are very deep.

    If any two cross, then one of all slices outlasts the latest that was open when it started.
    """
    around = _around(group, start, end)
    bad: Bools = (around >= 0) & (end > end[around])
    tied = (start[1:] == start[:-1]) & (group[1:] == group[:-1])
    bad[1:] |= tied & anchors[:-1] & (end[1:] > start[1:])
    ancestor = np.append(around, -1)
    for _ in range(_DOUBLINGS):
        ancestor = ancestor[ancestor]
        if ancestor.max() < 0:
            return bad
    return bad | (ancestor[:-1] >= 0)


def _around(group: I64, start: I64, end: I64) -> I64:
    """Return for each slice the nearest to the left that is open when it starts, -1 none.

    Everyone first points left, then jumps over those that are closed. Whatever one of them had
    jumped over was closed even earlier, so the jumps double in length and stay exact.
    """
    around = np.arange(-1, len(group) - 1)
    around[1:][group[1:] != group[:-1]] = -1
    around[0] = -1
    climbing = np.flatnonzero(around >= 0)
    while True:
        climbing = climbing[end[around[climbing]] <= start[climbing]]
        if not len(climbing):
            return around
        around[climbing] = around[around[climbing]]
        climbing = climbing[around[climbing] >= 0]


class ApartCheck:
    """Finds the groups in which slices meet: on one lane they would not be apart.

    Args:
        groups: the number of groups.
    """

    def __init__(self, groups: int) -> None:
        self.used: Bools = np.zeros(groups, np.bool_)
        self.failed: Bools = np.zeros(groups, np.bool_)
        self._until: I64 = np.full(groups, np.iinfo(np.int64).min)

    def add(self, group: I64, start: I64, end: I64) -> None:
        """Check slices that start no earlier than those before.

        Args:
            group: of shape (n,). Rows come by start, then longer first.
            start: ns.
            end: ns, not before ``start``.
        """
        short = group.astype(np.uint16) if len(self.used) < 1 << 16 else group
        order = np.argsort(short, kind="stable")
        group, start, end = (column.take(order) for column in (group, start, end))
        first = np.ones(len(group), np.bool_)
        first[1:] = group[1:] != group[:-1]
        before = np.empty_like(end)
        before[1:] = end[:-1]
        before[first] = self._until[group[first]]
        self.failed[group[start < before]] = True
        self.used[group] = True
        last = np.append(first[1:], True)
        self._until[group[last]] = end[last]
