from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nvtrace.model.arrays import factorize, stable_order

near = st.lists(st.integers(-20, 20), max_size=30)
far = st.lists(st.integers(-(2**62), 2**62), max_size=30)
unsigned = st.lists(st.integers(2**63, 2**64 - 1), max_size=10)


@given(st.one_of(near, far))
def test_distinct_values_and_their_rows(values):
    distinct, codes = factorize(np.array(values, np.int64))
    assert distinct.tolist() == sorted(set(values))
    assert [distinct[code] for code in codes] == values


@given(unsigned)
def test_values_beyond_int64(values):
    distinct, codes = factorize(np.array(values, np.uint64))
    assert distinct.tolist() == sorted(set(values))
    assert [int(distinct[code]) for code in codes] == values


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-3, 3)), max_size=30))
def test_order_by_several_keys_keeps_ties(rows):
    first, second = np.array(rows, np.int64).reshape(-1, 2).T
    expected = sorted(range(len(rows)), key=lambda row: rows[row])
    assert stable_order(first, second).tolist() == expected
