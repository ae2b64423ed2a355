"""Columns as codes: what is made of distinct numbers comes out row by row."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nvtrace.sources import columns
from nvtrace.sources.columns import Coded, mapped

ROWS = st.lists(
    st.tuples(st.integers(-3, 3), st.sampled_from([0, 2**60]), st.integers(0, 40)), max_size=40
)


def coded(values: list[int]) -> Coded:
    """As a reader of pages gives it: distinct values in the order in which they are met."""
    known: dict[int, int] = {}
    codes = [known.setdefault(value, len(known)) for value in values]
    return Coded(np.array(list(known), np.int64), np.array(codes, np.uint8))


@given(ROWS)
def test_distinct_numbers_are_handed_over_in_ascending_order(rows):
    values = [row[2] for row in rows]
    seen = []

    def doubled(distinct):
        seen.extend(distinct.tolist())
        return 2 * distinct

    assert coded(values).map(doubled).tolist() == [2 * value for value in values]
    assert seen == sorted(set(values))


def check_combinations(rows: list[tuple[int, int, int]]) -> None:
    columns = [coded([row[place] for row in rows]) for place in range(3)]
    seen: list[tuple[int, ...]] = []

    def numbered(*key: int) -> tuple[int, int]:
        seen.append(key)
        return len(seen), key[2]

    first, second = mapped(columns, numbered, 2)
    assert seen == sorted(set(rows))
    assert first.tolist() == [seen.index(row) + 1 for row in rows]
    assert second.tolist() == [row[2] for row in rows]


@given(ROWS)
def test_combinations_that_occur_are_met_once_in_order(rows):
    check_combinations(rows)


def test_combinations_are_many(monkeypatch):
    monkeypatch.setattr(columns, "_MOST_COMBINATIONS", 50)
    check_combinations([(row % 7, 2**60 * (row % 2), row % 41) for row in range(400)])


def test_columns_longer_than_are_spread_at_once(monkeypatch):
    monkeypatch.setattr(columns, "_AT_ONCE", 8)
    values = [row % 5 for row in range(30)]
    assert coded(values).astype(np.int32).tolist() == values
