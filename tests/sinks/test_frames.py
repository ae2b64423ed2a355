"""Data frames: dtypes, nulls, exact integers."""

from __future__ import annotations

import sys

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from nvtrace.errors import MissingDependency

ROWS = [
    {
        "name": "HtoD",
        "gpu_total_ns": 4611686018427387905,
        "bytes": 9007199254740993,
        "bandwidth_bytes_per_s": 2.5e9,
        "ratio": 100.0,
        "pinned": True,
    },
    {
        "name": None,
        "gpu_total_ns": None,
        "bytes": 1536,
        "bandwidth_bytes_per_s": None,
        "ratio": None,
        "pinned": None,
    },
]


@pytest.fixture
def table(reports):
    return reports["huge"]["memory"]


def test_arrow_keeps_types_units_nulls_and_every_digit(table):
    arrow = table.to_arrow()
    assert arrow.to_pylist() == ROWS
    assert arrow.schema.types == [
        pa.string(),
        pa.int64(),
        pa.int64(),
        pa.float64(),
        pa.float64(),
        pa.bool_(),
    ]
    assert arrow.schema.field("gpu_total_ns").metadata == {b"unit": b"ns"}


def test_any_arrow_reader_takes_a_table(table):
    assert pa.table(table).to_pylist() == ROWS
    assert pl.DataFrame(table).to_dicts() == ROWS


def test_polars(table):
    frame = table.to_polars()
    assert frame.to_dicts() == ROWS
    assert frame.dtypes == [pl.String, pl.Int64, pl.Int64, pl.Float64, pl.Float64, pl.Boolean]


def test_pandas(table):
    frame = table.to_pandas()
    dtypes = ["string", "Int64", "Int64", "Float64", "Float64", "boolean"]
    assert [str(dtype) for dtype in frame.dtypes] == dtypes
    assert frame["gpu_total_ns"][0] == 4611686018427387905
    assert frame.isna().sum().tolist() == [1, 1, 0, 1, 1, 1]


def test_dtypes_do_not_depend_on_the_rows(reports):
    full, none = reports["odd"]["kernel"], reports["empty"]["kernel"]
    assert full.to_pandas().dtypes.tolist() == none.to_pandas().dtypes.tolist()
    assert (
        full.to_polars().schema == none.to_polars().schema == {"name": pl.String, "calls": pl.Int64}
    )
    assert full.to_arrow().schema == none.to_arrow().schema
    assert (len(none.to_pandas()), len(none.to_polars()), len(none.to_arrow())) == (0, 0, 0)


@pytest.mark.parametrize("to", ["to_pandas", "to_polars", "to_arrow"])
def test_undecodable_names_arrive_escaped(reports, to):
    names = getattr(reports["unicode"]["kernel"], to)()["name"]
    names = names.to_pylist() if to == "to_arrow" else list(names)
    assert names == ["größe", "训练步骤", "undecodable\\xff", "👩‍🔬"]


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("pandas", lambda table: table.to_pandas()),
        ("polars", lambda table: table.to_polars()),
        ("pyarrow", lambda table: table.to_arrow()),
        ("pyarrow", lambda table: table.__arrow_c_stream__()),
    ],
)
def test_a_missing_package_is_one_line_that_says_what_to_install(table, monkeypatch, package, call):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependency, match=f"not installed: pip install {package}$") as caught:
        call(table)
    assert "\n" not in str(caught.value)


def test_frames_are_copies(table):
    frame = table.to_pandas()
    frame.loc[0, "bytes"] = 1
    assert table["bytes"][0] == 2**53 + 1
    assert isinstance(frame, pd.DataFrame)
