"""Tables and strings: what the columns of a trace are made of."""

from __future__ import annotations

import numpy as np
import pytest

from nvtrace.model import schema
from nvtrace.model.arrays import constant
from nvtrace.model.schema import ColumnSpec
from nvtrace.model.strings import Strings
from nvtrace.model.table import Table
from nvtrace.model.trace import Recorded, TraceData

SPEC = {"time": ColumnSpec(np.int64, "ns", ""), "name": ColumnSpec(np.int32, "", "")}


def test_columns_have_the_catalogue_s_dtypes_and_cannot_be_written():
    table = Table(SPEC, {"time": [1, 2], "name": np.array([3, 4], np.uint8)})
    assert (table["time"].dtype, table["name"].dtype) == (np.int64, np.int32)
    assert (table.rows, list(table), len(table)) == (2, ["time", "name"], 2)
    with pytest.raises(ValueError, match="read-only"):
        table["time"][0] = 5


def test_the_array_given_stays_writable():
    own = np.array([1, 2], np.int64)
    table = Table(SPEC, {"time": own, "name": [0, 0]})
    own[0] = 7
    assert table["time"].base is own or table["time"][0] == 1


def test_a_narrow_column_is_asked_for_in_its_own_dtype():
    columns = {"time": np.array([5, 6, 7], np.int8), "name": constant(3, 3, np.uint8)}
    table = Table(SPEC, columns, narrow=True)
    for one, expected in (
        (table, [5, 6, 7]),
        (table.take(np.array([2, 0])), [7, 5]),
        (table.part(slice(1, 3)), [6, 7]),
    ):
        assert one["time"].tolist() == expected
        assert one["name"].tolist() == [3] * len(expected)
        assert [column.dtype for column in one.values()] == [np.int64, np.int32]
        with pytest.raises(ValueError, match="read-only"):
            one["time"][0] = 5
    with pytest.raises(ValueError, match="columns"):
        Table(SPEC, {"time": columns["time"]}, narrow=True)


@pytest.mark.parametrize(
    "columns",
    [
        {"time": [1]},
        {"time": [1], "name": [1], "more": [1]},
        {"time": [1, 2], "name": [1]},
        {"time": [[1]], "name": [[2]]},
    ],
)
def test_columns_that_do_not_fit(columns):
    with pytest.raises(ValueError, match="columns"):
        Table(SPEC, columns)


def test_rows_by_mask_and_by_place_and_put_together():
    table = Table(SPEC, {"time": [10, 20, 30], "name": [0, 1, 2]})
    assert table.take(np.array([True, False, True]))["time"].tolist() == [10, 30]
    assert table.take(np.array([2, 0]))["name"].tolist() == [2, 0]
    both = Table.concatenate(SPEC, [table, table.take(np.array([1]))])
    assert both["time"].tolist() == [10, 20, 30, 20]
    assert Table.concatenate(SPEC, []).rows == Table.empty(SPEC).rows == 0


def test_a_constant_column_takes_the_memory_of_one_value():
    table = Table(SPEC, {"time": np.arange(3), "name": constant(4, 3, np.int64)})
    assert table["name"].dtype == np.int32
    for one in (table, table.take(np.array([2, 0, 1])), Table.concatenate(SPEC, [table])):
        assert one["name"].tolist() == [4, 4, 4]
        assert one["name"].strides == (0,)
    with pytest.raises(ValueError, match="read-only"):
        table["name"][0] = 5


def test_strings_are_kept_once():
    strings = Strings(["a", "b", "a"])
    assert (len(strings), list(strings)) == (2, ["a", "b"])
    assert strings.intern_all(["b", "c", "a"]).tolist() == [1, 2, 0]
    assert strings.take(np.array([2, -1, 0])) == ["c", "", "a"]
    assert (strings.find("c"), strings.find("d"), strings[1]) == (2, -1, "b")


def test_every_column_states_its_meaning():
    for spec in (schema.RANGES, schema.CALLS, schema.DEVICE, schema.STREAMS, schema.THREADS):
        assert all(column.meaning for column in spec.values())


@pytest.mark.parametrize(
    ("starts", "capture_start", "span"),
    [
        ([], 0, (0, 0)),
        ([(5, 9), (2, 3)], 0, (2, 9)),
        # stamped before the capture began: widens nothing
        ([(0, 4), (100, 120)], 90, (90, 120)),
        # nothing but what came before
        ([(0, 4)], 90, (0, 4)),
    ],
)
def test_span(starts, capture_start, span):
    rows = np.array(starts, np.int64).reshape(-1, 2)
    columns = {name: np.zeros(len(rows), np.int64) for name in schema.CALLS}
    columns |= {"start": rows[:, 0], "end": rows[:, 1]}
    trace = TraceData(calls=Table(schema.CALLS, columns), capture_start=capture_start)
    assert trace.span == span


def test_any_kind_of_device_rows_is_device_activity():
    assert not Recorded(ranges=True, calls=True).device
    for kind in ("kernels", "memcpy", "memset", "graphs"):
        assert Recorded(**{kind: True}).device
