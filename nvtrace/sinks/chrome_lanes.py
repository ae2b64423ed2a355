"""Slices that cross, spread over lanes: a viewer drops, without a word, what does not nest.

Almost all slices nest, which a few array operations tell; only the stretches that do not are laid
out one slice at a time.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I32, I64

Bools = npt.NDArray[np.bool_]

# Perfetto ties an arrow from a slice nested deeper than 512 to one further out.
DEEPEST = 500


def spread(
    group: I64, start: I64, end: I64, *, nest: bool = True, anchors: Bools | None = None
) -> I32:
    """Choose a lane for each slice, so that slices on one lane are nested or apart.

    Args:
        group: slices of different groups never meet, of shape (n,). Rows come sorted by group,
            then start, then longer first.
        start: ns.
        end: ns, not before ``start``.
        nest: whether a slice may lie inside another; otherwise slices on one lane are apart.
        anchors: slices whose start an arrow leaves: none that starts with them may lie inside,
            since the arrow would leave from that one.

    Returns:
        The lane within the group, from 0, of shape (n,). Lane 0 holds all that was never crossed.
    """
    lanes = np.zeros(len(start), np.int32)
    if anchors is None:
        anchors = np.zeros(len(start), np.bool_)
    bounds = np.flatnonzero(np.diff(group)) + 1
    for rows in (slice(*pair) for pair in _pairs(bounds, len(group))):
        depth = _depth(start[rows], end[rows])
        bad = _misplaced(start[rows], end[rows], depth, anchors[rows]) if nest else depth > 0
        if bad.any():
            _spread_stretches(lanes[rows], start[rows], end[rows], depth, bad, anchors[rows], nest)
    return lanes


def _pairs(bounds: npt.NDArray[Any], count: int) -> list[tuple[int, int]]:
    edges = [0, *bounds.tolist(), count]
    return list(pairwise(edges)) if count else []


def _depth(start: I64, end: I64) -> I64:
    """Return how many slices before each, in order, are open when it starts.

    A slice without length is open at no time.
    """
    long = end > start
    before: I64 = np.cumsum(long) - long
    return before - np.searchsorted(np.sort(end[long]), start, side="right")


def _misplaced(start: I64, end: I64, depth: I64, anchors: Bools) -> Bools:
    """Return which slices cannot be nested where they are.

    If no earlier slice crosses, those open at a start are one inside the other, and the innermost
    is the latest that is one less deep. So a crossing shows first as a slice that outlasts it.
    """
    bad = depth >= DEEPEST
    inner = np.flatnonzero(depth > 0)
    if not len(inner):
        return bad
    rows = np.arange(len(start))
    long = np.flatnonzero(end > start)
    key = depth * len(start) + rows
    by_depth = np.sort(key[long])
    parent = by_depth[np.searchsorted(by_depth, key[inner] - len(start)) - 1] % len(start)
    bad[inner] |= end[inner] > end[parent]
    if anchors.any():
        bad |= _hides_anchor(start, end, anchors)
    return bad


def _hides_anchor(start: I64, end: I64, anchors: Bools) -> Bools:
    first = np.concatenate([[True], start[1:] != start[:-1]])
    earlier: I64 = np.cumsum(anchors) - anchors
    at_first: I64 = earlier[first][np.cumsum(first) - 1]
    hides: Bools = (earlier > at_first) & (end > start)
    return hides


def _spread_stretches(
    lanes: I32, start: I64, end: I64, depth: I64, bad: Bools, anchors: Bools, nest: bool
) -> None:
    """Lay out the stretches, between moments when nothing is open, that hold a bad slice."""
    stretch = np.cumsum(depth == 0) - 1
    rows = np.flatnonzero(np.isin(stretch, stretch[bad]))
    columns = (column[rows].tolist() for column in (start, end, anchors))
    lanes[rows] = _lay_out(*columns, nest=nest)


def _lay_out(starts: list[int], ends: list[int], anchors: list[bool], *, nest: bool) -> list[int]:
    """Put each slice inside the shortest open one that it fits in, else on the first free lane."""
    lanes: list[int] = []
    # By lane, what is open on it: (end, start that no inner slice may have).
    stacks: list[list[tuple[int, int | None]]] = []
    open_lanes: list[tuple[int, int]] = []  # (end of the innermost, lane), ascending
    free: list[int] = []
    for start, end, anchor in zip(starts, ends, anchors, strict=True):
        while open_lanes and open_lanes[0][0] <= start:
            _, lane = open_lanes.pop(0)
            stack = stacks[lane]
            while stack and stack[-1][0] <= start:
                stack.pop()
            if stack:
                insort(open_lanes, (stack[-1][0], lane))
            else:
                heappush(free, lane)
        place = bisect_left(open_lanes, (end, -1)) if nest else len(open_lanes)
        while place < len(open_lanes) and not _takes(stacks[open_lanes[place][1]], start, end):
            place += 1
        if place < len(open_lanes):
            _, lane = open_lanes.pop(place)
        elif free:
            lane = heappop(free)
        else:
            lane = len(stacks)
            stacks.append([])
        stack = stacks[lane]
        barred = start if anchor or (stack and stack[-1][1] == start) else None
        stack.append((end, barred))
        insort(open_lanes, (end, lane))
        lanes.append(lane)
    return lanes


def _takes(stack: list[tuple[int, int | None]], start: int, end: int) -> bool:
    return len(stack) < DEEPEST and (stack[-1][1] != start or end == start)
