"""Interval algebra against sets of single ns."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvtrace.analysis.intervals import (
    Union,
    clipped,
    count_by,
    grouped_keys_of,
    merged,
    previous_maximum,
    sum_at,
    sum_by,
    union_by,
)

# a time as it is, or so far apart that (group, time) does not fit one int64
SCALES = [1, 2**57]
intervals = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 25), st.integers(0, 9)), max_size=20
)


def arrays(rows):
    group, start, length = np.array(rows, np.int64).reshape(-1, 3).T
    return group, start, start + length


def covered(rows) -> set[int]:
    return {moment for _, start, length in rows for moment in range(start, start + length)}


@given(intervals)
def test_union_of_each_group(rows):
    expected = [len(covered([row for row in rows if row[0] == group])) for group in range(4)]
    assert union_by(*arrays(rows), 4).tolist() == expected


@given(intervals)
def test_union(rows):
    _, start, end = arrays(rows)
    union = Union(start, end)
    for moment in range(-1, 36):
        so_far = [ns for ns in covered(rows) if ns < moment]
        assert union.before(np.array([moment])).tolist() == [len(so_far)]
    starts, ends = merged(start, end)
    assert (ends - starts).sum() == len(covered(rows))
    assert (starts[1:] > ends[:-1]).all()


@given(intervals, intervals)
def test_intersection_and_window(rows, others):
    one, other = arrays(rows)[1:], arrays(others)[1:]
    both = covered(rows) & covered(others)
    assert Union(*one).within(merged(*other)) == len(both)
    starts, ends = clipped(*one, merged(*other))
    assert (ends >= starts).all()
    assert {m for s, e in zip(starts, ends, strict=True) for m in range(s, e)} == both
    assert (ends - starts).sum() == len(both)


@given(intervals, st.sampled_from(SCALES))
def test_keys_order_by_group_then_time(rows, scale):
    group, start, end = arrays(rows)
    keys, ends = grouped_keys_of((group, start * scale), (group, end * scale))
    pairs = [*zip(group, start, strict=True), *zip(group, end, strict=True)]
    order = sorted(range(len(pairs)), key=lambda row: pairs[row])
    together = np.concatenate([keys, ends])[order]
    steps = np.diff(together)
    same = [pairs[a] == pairs[b] for a, b in pairwise(order)]
    assert (steps >= 0).all()
    assert (steps == 0).tolist() == same


@given(intervals, st.sampled_from(SCALES))
def test_largest_earlier_value_of_the_group(rows, scale):
    group, value, _ = arrays(sorted(rows, key=lambda row: row[0]))
    value = value * scale
    previous, follows = previous_maximum(group, value)
    for row in range(len(group)):
        earlier = [value[other] for other in range(row) if group[other] == group[row]]
        assert follows[row] == bool(earlier)
        if earlier:
            assert previous[row] == max(earlier)


@given(intervals)
def test_sums_and_counts(rows):
    group, start, _ = arrays(rows)
    for one in range(4):
        mine = [row[1] for row in rows if row[0] == one]
        assert sum_by(group, start, 4)[one] == sum(mine)
        assert count_by(group, 4)[one] == len(mine)
        if one < 3:
            assert sum_at((group - 1).astype(np.int32), start, 3)[one] == sum(
                row[1] for row in rows if row[0] == one + 1
            )


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ([(0, 5), (5, 9)], [(3, 5), (5, 7)]),
        ([(7, 9)], []),
        ([(0, 3)], []),
        ([(4, 5), (6, 20)], [(4, 5), (6, 7)]),
        ([], []),
    ],
)
def test_an_interval_cut_by_a_window(window, expected):
    begins, ends = (np.array([pair[side] for pair in window], np.int64) for side in (0, 1))
    starts, stops = clipped(np.array([3]), np.array([7]), (begins, ends))
    assert list(zip(starts.tolist(), stops.tolist(), strict=True)) == expected


@given(st.lists(intervals, max_size=4), intervals, st.sampled_from([1, 2, 5, 100]))
def test_union_of_several_files_in_stretches(files, window, size):
    """Each file's rows by start, one file behind the other."""
    rows = [row for file in files for row in sorted(file, key=lambda row: row[1])]
    _, start, end = arrays(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nvtrace.analysis.intervals._STRETCH_ROWS", size)
        found = Union(start, end).within(merged(*arrays(window)[1:]))
    assert found == len(covered(rows) & covered(window))


def test_touching_intervals_are_one():
    starts, ends = merged(np.array([5, 0, 9]), np.array([8, 5, 10]))
    assert (starts.tolist(), ends.tolist()) == ([0, 9], [8, 10])


def test_sums_of_long_times_are_exact():
    # 52 days in ns, and one more: float32, or sums of rounded parts, would lose it.
    assert sum_by(np.array([0, 0, 1]), np.array([2**52, 1, 3]), 2).tolist() == [2**52 + 1, 3]
