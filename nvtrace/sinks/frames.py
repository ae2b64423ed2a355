"""Report tables as data frames; the packages are imported when asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nvtrace.errors import MissingDependency
from nvtrace.report import Column, ReportTable, Unit
from nvtrace.sinks.names import valid_utf8

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


_DTYPES = {
    **dict.fromkeys((Unit.PERCENT, Unit.NUMBER, Unit.BYTES_PER_S), np.float64),
    Unit.BOOL: np.bool_,
}


def to_arrow(table: ReportTable) -> pyarrow.Table:
    """Return ``table`` as a ``pyarrow.Table``; each field's metadata names its unit."""
    pa = _require("pyarrow", "Arrow tables")
    fields, arrays = [], []
    for column in table.columns:
        if column.unit is Unit.TEXT:
            array = pa.array(_texts(column), pa.string())
        else:
            array = pa.array(_numbers(column), mask=~column.recorded())
        fields.append(pa.field(column.key, array.type, metadata={"unit": column.unit.value}))
        arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def to_pandas(table: ReportTable) -> pandas.DataFrame:
    """Return ``table`` as a pandas frame; dtypes are nullable and do not depend on the data."""
    pd = _require("pandas", "pandas frames")
    kinds = {
        "i": pd.arrays.IntegerArray,
        "f": pd.arrays.FloatingArray,
        "b": pd.arrays.BooleanArray,
    }

    def series(column: Column) -> Any:
        if column.unit is Unit.TEXT:
            return pd.array(_texts(column), dtype="string")
        numbers = _numbers(column)
        return kinds[numbers.dtype.kind](numbers, ~column.recorded())

    frame: pandas.DataFrame = pd.DataFrame({c.key: series(c) for c in table.columns})
    return frame


def to_polars(table: ReportTable) -> polars.DataFrame:
    """Return ``table`` as a polars frame."""
    pl = _require("polars", "polars frames")

    def series(column: Column) -> Any:
        if column.unit is Unit.TEXT:
            return pl.Series(column.key, _texts(column), dtype=pl.String)
        return pl.Series(column.key, _numbers(column)).set(pl.Series(~column.recorded()), None)

    frame: polars.DataFrame = pl.DataFrame([series(column) for column in table.columns])
    return frame


def _numbers(column: Column) -> npt.NDArray[Any]:
    """Return a copy of the values, int64, float64 or bool by their unit alone."""
    return column.values.astype(_DTYPES.get(column.unit, np.int64))


def _texts(column: Column) -> list[str | None]:
    return [None if value is None else valid_utf8(value) for value in column.to_list()]


def _require(package: str, what: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingDependency(
            f"{what} need {package}, which is not installed: pip install {package}"
        ) from error
