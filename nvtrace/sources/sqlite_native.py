"""Columns out of leaf pages, by ``native/pages.c``: what is unusual raises Unusual.

The plain definition of what it does is ``sqlite_cells``, which stands in where no compiler was.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace import _native
from nvtrace.model.arrays import constant
from nvtrace.sources.columns import Coded, Column, Kind, Rows, Wanted, decoded
from nvtrace.sources.sqlite_pages import PageFile, Unusual

U32 = npt.NDArray[np.uint32]


_BATCH_BYTES = 8 << 20
_MOST_COLUMNS = 64
_TESTED = len(Kind)
_WIDEST = np.dtype(np.uint32)
_NAN_BITS = int(np.array(np.nan).view(np.int64))
# what a row takes of its page at least, besides a byte a column: its pointer and three varints
_ROW_BYTES = 5


class _Dictionary(ctypes.Structure):
    _fields_ = (
        ("keys", ctypes.POINTER(ctypes.c_int64)),
        ("lengths", ctypes.POINTER(ctypes.c_int32)),
        ("hashes", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("last", ctypes.c_int64),
        ("null", ctypes.c_int64),
    )


class _Column(ctypes.Structure):
    _fields_ = (
        ("place", ctypes.c_int32),
        ("kind", ctypes.c_int32),
        ("missing", ctypes.c_int64),
        ("out", ctypes.c_void_p),
        ("width", ctypes.c_int64),
        ("known", _Dictionary),
    )


class _Condition(ctypes.Structure):
    _fields_ = (
        ("which", ctypes.c_int64),
        ("inverse", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("values", ctypes.c_void_p),
    )


class _File(ctypes.Structure):
    _fields_ = (
        ("memory", ctypes.c_void_p),
        ("pages", ctypes.c_uint64),
        ("page_size", ctypes.c_uint64),
    )


def library() -> Any:
    """Return the native part; None where it was not built."""
    return _native.library("pages", "nvt_pages_decode")


def read(
    file: PageFile, leaves: U32, wanted: Mapping[int, Wanted], tested: tuple[int, Rows] | None
) -> dict[int, Column]:
    """Return columns of a table, as ``sqlite_cells.read`` does.

    Raises:
        Unusual: the table is not stored the plain way.
    """
    places = sorted({*wanted, *([] if tested is None else [tested[0]])})
    if len(places) > _MOST_COLUMNS:
        raise Unusual("more columns than are decoded together")
    capacity = len(leaves) * ((file.page_size - 8) // (_ROW_BYTES + places[-1] + 1))
    out = {
        place: np.empty(capacity, np.int64)
        if one.kind is Kind.VALUES
        else np.zeros(capacity, _WIDEST)
        for place, one in wanted.items()
    }
    columns = (_Column * len(places))(
        *(_column(place, wanted.get(place), out.get(place)) for place in places)
    )
    try:
        rows = _decode(file, leaves, columns, _condition(places, tested), capacity)
        return {
            column.place: _result(file, wanted[column.place], column, out.pop(column.place), rows)
            for column in columns
            if column.place in wanted
        }
    finally:
        library().nvt_pages_free(columns, len(columns))


def _column(place: int, wanted: Wanted | None, out: npt.NDArray[Any] | None) -> _Column:
    if wanted is None or out is None:
        return _Column(place, _TESTED)
    missing = _NAN_BITS if wanted.kind is Kind.REALS else wanted.missing
    return _Column(place, wanted.kind, missing, out.ctypes.data, 1, _Dictionary(null=-1))


def _condition(
    places: list[int], tested: tuple[int, Rows] | None
) -> tuple[_Condition, npt.NDArray[np.int64]]:
    """Return the condition and the memory of its values."""
    values = np.array(tested[1].values if tested else (), np.int64)
    which, inverse = (places.index(tested[0]), tested[1].inverse) if tested else (-1, False)
    return _Condition(which, inverse, len(values), values.ctypes.data), values


def _decode(
    file: PageFile,
    leaves: U32,
    columns: ctypes.Array[_Column],
    condition: tuple[_Condition, npt.NDArray[np.int64]],
    capacity: int,
) -> int:
    """Fill the columns and return how many rows there are."""
    source = _File(file.data.ctypes.data, file.pages, file.page_size)
    rows = 0
    for batch in file.batches(leaves, _BATCH_BYTES):
        rows = library().nvt_pages_decode(
            ctypes.byref(source),
            ctypes.c_void_p(batch.ctypes.data),
            ctypes.c_int64(len(batch)),
            columns,
            ctypes.c_int32(len(columns)),
            ctypes.byref(condition[0]),
            ctypes.c_int64(rows),
            ctypes.c_int64(capacity),
        )
        if rows < 0:
            raise Unusual("rows that are not stored the plain way")
    return rows


def _result(
    file: PageFile, wanted: Wanted, column: _Column, out: npt.NDArray[Any], rows: int
) -> Column:
    if wanted.kind is Kind.VALUES:
        out.resize(rows, refcheck=False)
        return out
    known = column.known
    values: npt.NDArray[Any] = np.array(known.keys[: known.count], np.int64)
    if wanted.kind is Kind.REALS:
        values = values.view(np.float64)
    elif wanted.kind is Kind.TEXTS:
        places = zip(values.tolist(), known.lengths[: known.count], strict=True)
        values = decoded(
            [None if size < 0 else file.data[at : at + size].tobytes() for at, size in places]
        )
    if known.count <= 1:
        return Coded(values, constant(0, rows, np.uint8))
    out.resize(-(-rows * column.width // _WIDEST.itemsize), refcheck=False)
    return Coded(values, out.view(f"u{column.width}")[:rows])
