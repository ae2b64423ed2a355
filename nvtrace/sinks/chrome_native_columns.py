"""Columns of integers, as ``native/timeline.c`` reads them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence

import numpy as np

from nvtrace.model.arrays import I64
from nvtrace.sinks.chrome_parts import Array, Derived, Source, values_of


class _Integers(ctypes.Structure):
    _fields_ = (
        ("values", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("width", ctypes.c_int64),
    )


class Column(ctypes.Structure):
    """What C reads about a column."""

    _fields_ = (
        ("own", _Integers),
        ("by_row", ctypes.c_int32),
        ("plain", ctypes.c_int32),
        ("has_sign", ctypes.c_int64),
        ("table", _Integers),
        ("less", _Integers),
        ("plus", ctypes.c_int64),
    )


class Columns:
    """Integers for C: arrays as they are, by row, and what must be computed for chosen rows.

    Args:
        described: what C reads about each column, to be filled in.
        sources: the columns.
    """

    def __init__(self, described: Iterable[Column], sources: Sequence[Source]) -> None:
        self._kept = sources
        self._computed: dict[int, tuple[Source, list[Column]]] = {}
        self._of_rows: list[Array] = []
        for column, source in zip(described, sources, strict=True):
            derived = Derived(source) if isinstance(source, np.ndarray) else source
            if isinstance(derived, Derived) and all(map(_is_whole, _arrays(derived))):
                _describe(derived, [column], by_row=True)
            else:
                self._computed.setdefault(id(source), (source, []))[1].append(column)

    def compute(self, rows: I64) -> None:
        """Compute what is not there by row; it stays as it is until the next call."""
        self._of_rows = []
        for source, columns in self._computed.values():
            values = np.ascontiguousarray(values_of(source, rows))
            self._of_rows.append(values)
            _describe(Derived(values), columns, by_row=False)


def _arrays(derived: Derived) -> list[Array]:
    return [one for one in (derived.values, derived.table, derived.less) if one is not None]


def _is_whole(values: Array) -> bool:
    return values.flags.c_contiguous


def _describe(derived: Derived, columns: Iterable[Column], *, by_row: bool) -> None:
    table, less = derived.table, derived.less
    stands = derived.values if table is None else table
    for column in columns:
        column.own = _integers(derived.values)
        column.by_row = by_row
        column.plain = table is None and less is None and not derived.plus
        column.has_sign = stands.dtype.kind == "i" or less is not None
        column.table, column.less, column.plus = _integers(table), _integers(less), derived.plus


def _integers(values: Array | None) -> _Integers:
    if values is None:
        return _Integers()
    width = values.itemsize
    signed = values.dtype.kind == "i"
    return _Integers(values.ctypes.data, len(values), -width if signed else width)
