"""Lanes that pass the quick check are those on which the thorough one moves nothing."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvtrace.sinks.chrome_lanes import DEEPEST, spread
from nvtrace.sinks.chrome_nesting import ApartCheck, nest_check

pytestmark = pytest.mark.usefixtures("by")

GROUPS = 3
slices = st.lists(
    st.tuples(st.integers(0, GROUPS - 1), st.integers(0, 20), st.integers(0, 9), st.booleans()),
    min_size=1,
    max_size=30,
)


def columns(rows):
    group, start, length, anchor = np.array(rows, np.int64).reshape(-1, 4).T
    return group, start, start + length, anchor.astype(bool)


def in_time(rows):
    return sorted(rows, key=lambda row: (row[1], -row[2]))


def moved(rows, *, nest):
    """Which groups hold slices that the thorough way puts on further lanes."""
    ordered = sorted(rows, key=lambda row: (row[0], row[1], -row[2]))
    group, start, end, anchors = columns(ordered)
    lanes = spread(group, start, end, nest=nest, anchors=anchors if nest else None)
    return [bool(lanes[group == number].any()) for number in range(GROUPS)]


def parts(rows, cuts):
    """The rows in pieces; what starts at once stays together."""
    cuts = {cut for cut in cuts if 0 < cut < len(rows) and rows[cut - 1][1] < rows[cut][1]}
    return [rows[a:b] for a, b in pairwise([0, *sorted(cuts), len(rows)])]


@given(slices, st.lists(st.integers(0, 30), max_size=4))
def test_what_passes_needs_one_lane_and_what_crosses_does_not_pass(rows, cuts):
    check = nest_check(GROUPS)
    for part in parts(in_time(rows), cuts):
        check.add(*columns(part))
    assert check.failed.tolist() == moved(rows, nest=True)
    assert check.used.tolist() == [any(row[0] == g for row in rows) for g in range(GROUPS)]


@given(slices, st.lists(st.integers(0, 30), max_size=4))
def test_slices_that_are_apart_pass(rows, cuts):
    check = ApartCheck(GROUPS)
    for part in parts(in_time(rows), cuts):
        check.add(*columns(part)[:3])
    assert check.failed.tolist() == moved(rows, nest=False)
    assert check.used.tolist() == [any(row[0] == g for row in rows) for g in range(GROUPS)]


def test_a_nest_near_the_limit_is_looked_at_closely():
    depth = DEEPEST
    check = nest_check(1)
    rows = [(0, level, 2 * (depth - level), False) for level in range(depth + 1)]
    for part in parts(rows, range(0, depth, 50)):
        check.add(*columns(part))
    assert check.failed.all()


def test_a_nest_of_common_depth_passes():
    check = nest_check(1)
    rows = [(0, level, 2 * (100 - level), False) for level in range(100)]
    for part in parts(rows, range(0, 100, 7)):
        check.add(*columns(part))
    assert not check.failed.any()
