"""Lanes: what crosses is told apart, what nests is left alone; held to comparing every pair."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nvtrace.sinks.chrome_lanes import DEEPEST, spread

times = st.integers(0, 30)
slices = st.lists(
    st.tuples(st.integers(0, 2), times, st.integers(0, 12), st.booleans()), max_size=40
)


def lanes_of(rows, *, nest=True, with_anchors=False):
    """Sort (group, start, length, anchor) as asked for; return them and the lane of each."""
    rows = sorted(rows, key=lambda row: (row[0], row[1], -row[2]))
    group, start, length, anchor = np.array(rows, np.int64).reshape(-1, 4).T
    anchors = anchor.astype(bool) if with_anchors else None
    return rows, spread(group, start, start + length, nest=nest, anchors=anchors).tolist()


def together(rows, lanes):
    """The pairs on one lane, the earlier first: (start, end, start, end, first is an anchor)."""
    placed = zip(rows, lanes, strict=True)
    for (a, lane), (b, other) in combinations(placed, 2):
        if (a[0], lane) == (b[0], other):
            yield a[1], a[1] + a[2], b[1], b[1] + b[2], a[3]


def cross(a_start, a_end, b_start, b_end):
    return a_start <= b_start < a_end < b_end


@given(slices)
def test_no_two_slices_of_a_lane_cross(rows):
    for a_start, a_end, b_start, b_end, _ in together(*lanes_of(rows)):
        assert not cross(a_start, a_end, b_start, b_end)


@given(slices)
def test_slices_that_nest_stay_on_the_first_lane(rows):
    rows, lanes = lanes_of(rows)
    pairs = list(together(rows, [0] * len(rows)))
    if not any(cross(*pair[:4]) for pair in pairs):
        assert lanes == [0] * len(rows)


@given(slices)
def test_where_nothing_may_nest_slices_of_a_lane_are_apart(rows):
    for a_start, a_end, b_start, _, _ in together(*lanes_of(rows, nest=False)):
        assert b_start >= a_end or a_start == a_end


@given(slices)
def test_nothing_that_lasts_starts_with_an_anchor_inside_it(rows):
    for a_start, a_end, b_start, b_end, anchor in together(*lanes_of(rows, with_anchors=True)):
        assert not cross(a_start, a_end, b_start, b_end)
        assert not (anchor and a_start == b_start and b_end > b_start)


def test_a_slice_goes_inside_the_one_it_belongs_to():
    # B crosses A and moves; what starts in both and fits in both goes into the shorter, B.
    rows, lanes = lanes_of([(0, 0, 10, 0), (0, 5, 10, 0), (0, 11, 2, 0), (0, 20, 5, 0)])
    assert [row[1] for row in rows] == [0, 5, 11, 20]
    assert lanes == [0, 1, 1, 0]


def test_a_nest_deeper_than_a_viewer_follows_goes_on_beside():
    depth = 1007
    _, lanes = lanes_of([(0, level, 2 * (depth - level), 0) for level in range(depth)])
    assert max(np.bincount(lanes)) == DEEPEST
    assert lanes == sorted(lanes)


def test_many_that_cross_take_as_many_lanes_as_are_open_at_once():
    # Each starts one after the other and lasts 1000: at any moment 1000 are open.
    _, lanes = lanes_of([(0, start, 1000, 0) for start in range(5000)])
    assert max(lanes) == 999
