"""Algebra of closed-open time intervals, integer ns, vectorised over groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import stable_order

I64 = npt.NDArray[np.int64]
Codes = npt.NDArray[Any]

_ROOM = 2**62


def sum_by(codes: Codes, values: npt.NDArray[Any], groups: int) -> I64:
    """Return the sum of integer ``values`` of each group, int64 of shape (groups,).

    Exact below 2**53 a group: in ns, 104 days of summed time.
    """
    return np.rint(np.bincount(codes, weights=values, minlength=groups)).astype(np.int64)


def count_by(codes: Codes, groups: int) -> I64:
    """Return the number of rows of each group, int64 of shape (groups,)."""
    return np.bincount(codes, minlength=groups).astype(np.int64)


def grouped_keys(codes: Codes, *times: I64) -> list[I64]:
    """Return keys that compare first by group and then by time, across all of ``times``.

    Args:
        codes: group of each row, small non-negative integers, for the first of ``times``; pass
            pairs through ``grouped_keys_of`` when the arrays belong to different rows.
        times: arrays of the same length as ``codes``.
    """
    return grouped_keys_of(*((codes, time) for time in times))


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
    distinct = np.unique(np.concatenate([times for _, times in filled]))
    return [
        codes.astype(np.int64) * len(distinct) + np.searchsorted(distinct, times)
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


def union_length(starts: I64, ends: I64) -> int:
    """Return the length of the union of intervals."""
    if not len(starts):
        return 0
    return int(union_by(np.zeros(len(starts), np.int8), starts, ends, 1)[0])


def merged(starts: I64, ends: I64) -> tuple[I64, I64]:
    """Return the union as disjoint intervals in ascending order; touching ones are joined."""
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    opens = np.ones(len(starts), np.bool_)
    opens[1:] = starts[1:] > ends[:-1]
    closes = np.append(opens[1:], True)
    return starts[opens], ends[closes]


def intersection_length(a: tuple[I64, I64], b: tuple[I64, I64]) -> int:
    """Return the length of the intersection of two unions of intervals."""
    together = union_length(np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]]))
    return union_length(*a) + union_length(*b) - together


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
    pieces = np.maximum(last - first, 0)
    owner = np.repeat(np.arange(len(starts)), pieces)
    offset = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    part = first[owner] + offset
    return np.maximum(starts[owner], window[0][part]), np.minimum(ends[owner], window[1][part])
