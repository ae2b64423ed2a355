"""Parts added one by one, against numpy's concatenation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvtrace.model.arrays import constant, is_constant
from nvtrace.model.growing import GrowingTable
from nvtrace.model.schema import ColumnSpec
from nvtrace.model.table import Table

SPEC = {name: ColumnSpec(np.int64, "", "") for name in ("time", "value")}

part = st.one_of(
    st.lists(st.sampled_from([-5, -1, 0, 3, 70, 90, 20_000, 2**40]), max_size=6).map(
        lambda rows: np.array(rows, np.int64)
    ),
    st.tuples(st.integers(-1, 1), st.integers(0, 6)).map(lambda two: constant(*two, np.int64)),
)


@given(
    st.lists(part, min_size=1, max_size=6),
    st.sampled_from([1e-12, 0.05, 0.3, 0.7, 1]),  # the least: a table that others' files lack
    st.sampled_from([(), ("value",)]),
)
def test_columns_are_those_of_all_parts(parts, share, narrow):
    table = GrowingTable(SPEC, narrow)
    for values in parts:
        rows = Table(SPEC, {"time": values, "value": values})
        table.add(rows, {"value": lambda column: column * 3}, share)
    offsets = list(range(len(parts)))
    assert table.rows == sum(map(len, parts))
    table.shift(["time", "absent"], offsets)
    found = table.finished()
    moved = [values + offset for values, offset in zip(parts, offsets, strict=True)]
    assert found["time"].tolist() == np.concatenate(moved).tolist()
    assert found["value"].tolist() == np.concatenate([values * 3 for values in parts]).tolist()


@pytest.mark.parametrize(
    ("parts", "alike"),
    [
        ([constant(3, 4, np.int64), constant(3, 2, np.int64)], True),
        ([np.empty(0, np.int64), constant(3, 2, np.int64)], True),
        ([constant(3, 4, np.int64), np.empty(0, np.int64)], True),
        ([constant(3, 4, np.int64), constant(4, 2, np.int64)], False),
        ([constant(3, 4, np.int64), np.array([3, 3])], False),
    ],
)
def test_what_is_constant_stays_so(parts, alike):
    table = GrowingTable(SPEC)
    for values in parts:
        table.add(Table(SPEC, {"time": values, "value": values}), {}, 1.0)
    table.shift(["time"], [0] * len(parts))
    assert [is_constant(column) for column in table.finished().values()] == [alike, alike]


def test_narrow_columns_take_the_bytes_that_they_need():
    table = GrowingTable(SPEC, ["value"])
    widths = []
    for values in ([1, 200], [3], [-1], [40_000], [2**40]):
        rows = Table(SPEC, {"time": values, "value": values})
        table.add(rows, {}, 0.5)
        widths.append(table._columns["value"]._column.itemsize)
    assert widths == [1, 1, 2, 4, 8]
    found = table.finished()
    assert found["value"].tolist() == found["time"].tolist() == [1, 200, 3, -1, 40_000, 2**40]


@given(st.lists(part, min_size=1, max_size=6), st.sampled_from([0.05, 0.5, 1]))
def test_what_was_there_so_far_stays_as_it_was(parts, share):
    table, seen = GrowingTable(SPEC), []
    for values in parts:
        table.add(Table(SPEC, {"time": values, "value": values}), {}, share)
        seen.append(table.so_far())
    table.shift(["time"], [7] * len(parts))
    table.finished()
    for count, rows in enumerate(seen, 1):
        expected = np.concatenate(parts[:count]).tolist()
        assert rows["time"].tolist() == rows["value"].tolist() == expected
