from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nvtrace.model.arrays import contained, distinct, factorize, stable_order

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
