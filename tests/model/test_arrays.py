from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvtrace.model.arrays import (
    among,
    choose,
    code_order,
    constant,
    contained,
    distinct,
    factorize,
    first_rows,
    is_constant,
    joined,
    picked,
    renumbered,
    smallest_type,
    stable_order,
    taken,
    time_order,
)

near = st.lists(st.integers(-20, 20), max_size=30)
far = st.lists(st.integers(-(2**62), 2**62), max_size=30)
unsigned = st.lists(st.integers(2**63, 2**64 - 1), max_size=10)


@given(st.one_of(near, far))
def test_distinct_values_and_their_rows(values):
    found, codes = factorize(np.array(values, np.int64))
    assert found.tolist() == distinct(np.array(values, np.int64)).tolist() == sorted(set(values))
    assert [found[code] for code in codes] == values


@given(unsigned)
def test_values_beyond_int64(values):
    found, codes = factorize(np.array(values, np.uint64))
    assert found.tolist() == distinct(np.array(values, np.uint64)).tolist() == sorted(set(values))
    assert [int(found[code]) for code in codes] == values


@given(st.lists(st.integers(-128, 127), max_size=30))
def test_values_farther_apart_than_their_type_reaches(values):
    found, codes = factorize(np.array(values, np.int8))
    assert found.tolist() == distinct(np.array(values, np.int8)).tolist() == sorted(set(values))
    assert [int(found[code]) for code in codes] == values


@given(st.one_of(near, far), st.one_of(near, far))
def test_which_values_are_among_others(values, wanted):
    found = contained(np.array(values, np.int64), np.array(wanted, np.int64))
    assert found.tolist() == [value in wanted for value in values]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-3, 3)), max_size=30))
def test_order_by_several_keys_keeps_ties(rows):
    first, second = np.array(rows, np.int64).reshape(-1, 2).T
    expected = sorted(range(len(rows)), key=lambda row: rows[row])
    assert stable_order(first, second).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 1)), max_size=30))
def test_time_order_is_by_start_then_the_longer_then_kind(rows):
    start, length, kind = np.array(rows, np.int64).reshape(-1, 3).T
    columns = {"start": start, "end": start + length}
    places = range(len(rows))
    plain = sorted(places, key=lambda row: (rows[row][0], -sum(rows[row][:2])))
    assert time_order(columns).tolist() == plain
    by_kind = sorted(places, key=lambda row: (rows[row][0], -sum(rows[row][:2]), rows[row][2]))
    assert time_order({**columns, "kind": kind}).tolist() == by_kind


def test_a_constant_stays_in_the_memory_of_one_value():
    column = constant(7, 1_000, np.int32)
    assert (column.sum(), column.dtype, column.strides) == (7_000, np.int32, (0,))
    rows = np.array([5, 1, 5])
    for some, length in ((picked(column, rows), 3), (picked(column, np.arange(1_000) < 9), 9)):
        assert is_constant(some)
        assert some.tolist() == [7] * length
    assert is_constant(joined([column, column]))
    assert not is_constant(np.full(3, 7))
    found, codes = factorize(column)
    assert (found.tolist(), codes.tolist()) == ([7], [0] * 1_000)


def test_columns_are_joined_as_numpy_joins_them():
    ones, twos, none = constant(1, 2, np.int64), constant(2, 2, np.int64), np.empty(0, np.int64)
    assert joined([ones, twos]).tolist() == [1, 1, 2, 2]
    assert joined([ones, np.array([3])]).tolist() == [1, 1, 3]
    assert joined([none, ones, none]).tolist() == [1, 1]
    assert joined([none]).tolist() == []


def test_columns_in_one_memory_stay_in_one():
    thread = np.array([3, 4, 5])
    columns = {"thread": thread, "end_thread": thread.view(), "half": thread[:3].copy()}
    choose(columns, np.array([2, 0]))
    assert [column.tolist() for column in columns.values()] == [[5, 3]] * 3
    assert np.shares_memory(columns["thread"], columns["end_thread"])
    assert not np.shares_memory(columns["thread"], columns["half"])


@given(st.lists(st.integers(0, 300), max_size=30))
def test_order_by_code_keeps_ties(codes):
    expected = sorted(range(len(codes)), key=lambda row: codes[row])
    assert code_order(np.array(codes, np.int32)).tolist() == expected


def test_values_taken_by_row_and_none_of_row_minus_one():
    rows = np.array([1, -1, 0], np.int32)
    found = taken(np.array([7, 8], np.uint8), rows, none=3)
    assert (found.tolist(), found.dtype) == ([8, 3, 7], np.uint8)
    assert taken(np.empty(0, np.int32), np.array([-1], np.int32)).tolist() == [-1]


def test_codes_among_others():
    assert among(np.array([0, 7, 255], np.uint8), (7, 255)).tolist() == [False, True, True]


@given(st.one_of(near, far, st.lists(st.integers(-40_000, 70_000), min_size=1, max_size=4)))
def test_the_smallest_type_holds_all(values):
    column = np.array(values, np.int64)
    found = smallest_type(column)
    assert column.astype(found).tolist() == values
    smaller = [
        np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4) if size < found.itemsize
    ]
    assert not values or not any(
        all(np.iinfo(one).min <= value <= np.iinfo(one).max for value in values) for one in smaller
    )


@given(st.lists(st.integers(-1, 9), max_size=9), st.integers(0, 5))
def test_rows_behind_others(rows, before):
    expected = [row + before if row >= 0 else -1 for row in rows]
    assert renumbered(np.int32(before), np.array(rows, np.int32)).tolist() == expected
    for row in rows:
        same = renumbered(np.int32(before), constant(row, 3, np.int32))
        assert is_constant(same)
        assert same.tolist() == [row + before if row >= 0 else -1] * 3


@given(st.lists(st.integers(0, 4), max_size=12), st.sampled_from([1, 3, 100]))
def test_the_first_row_of_each_group(codes, at_once):
    expected = [codes.index(group) if group in codes else 0 for group in range(5)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nvtrace.model.arrays._AT_ONCE", at_once)
        assert first_rows(np.array(codes, np.int32), 5).tolist() == expected
        values = np.array([7, 8, 9, 10, 11])
        found = taken(values, np.array(codes, np.int32) - 1, none=-3)
        assert found.tolist() == [-3 if code == 0 else code + 6 for code in codes]
