"""Texts that many rows share: each is made once, for all rows with the same values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I32, I64

Array = npt.NDArray[Any]
Source = Array | Callable[[I64], Array]

_FEWEST_PLACES_LOG2, _MOST_PLACES_LOG2 = 12, 20
_MIX = np.uint64(0x9E3779B97F4A7C15)
_KEPT_BYTES = 16 << 20


def values_of(source: Source, rows: I64) -> Array:
    """Return the values of the chosen rows."""
    return source(rows) if callable(source) else source[rows]


class Codes:
    """Numbers, from 0, for the combinations of values seen so far.

    Most combinations come again at once, so each has a place, by a hash of its values, in a table.
    What is found there is compared in all values; what is not is looked up in a dictionary.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], int] = {}
        self._log2 = _FEWEST_PLACES_LOG2
        self._code_at: I32 = np.zeros(1 << self._log2, np.int32)  # one more than the code
        self._values: list[Array] = []

    def of(self, columns: Sequence[Array]) -> tuple[I32, list[int]]:
        """Return the code of each row, and a row for each code that is new, in their order.

        Args:
            columns: integers, one array or more, of shape (n,).
        """
        if not self._values:
            self._values = [np.zeros(64, column.dtype) for column in columns]
        mixed = _mixed(columns)
        codes: I32 = self._code_at.take(self._places(mixed))
        codes -= 1
        index = codes.astype(np.intp)
        hit = index >= 0
        for column, values in zip(columns, self._values, strict=True):
            hit &= values.take(index, mode="wrap") == column
        if hit.all():
            return codes, []
        missed = np.flatnonzero(~hit)
        order = np.argsort(mixed[missed], kind="stable")
        codes[missed[order]], fresh = self._look_up(columns, mixed, missed[order])
        return codes, fresh

    def _places(self, mixed: Array) -> Array:
        return (mixed >> np.uint64(64 - self._log2)).astype(np.intp)

    def _look_up(self, columns: Sequence[Array], mixed: Array, rows: I64) -> tuple[I32, list[int]]:
        """Return the codes of some rows, equal ones mostly side by side, and rows of new codes."""
        first = np.ones(len(rows), np.bool_)
        first[1:] = False
        for column in columns:
            first[1:] |= column[rows[1:]] != column[rows[:-1]]
        leaders = rows[first]
        found, fresh = [], []
        keys = zip(*(column[leaders].tolist() for column in columns), strict=True)
        for row, key in zip(leaders.tolist(), keys, strict=True):
            code = self._known.get(key)
            if code is None:
                code = self._known[key] = len(self._known)
                fresh.append(row)
            found.append(code)
        code_of_leader = np.array(found, np.int32)
        for number, column in enumerate(columns):
            values = grown(self._values[number], len(self._known))
            values[code_of_leader] = column[leaders]
            self._values[number] = values
        self._put(mixed[leaders], code_of_leader)
        return code_of_leader[np.cumsum(first) - 1], fresh

    def _put(self, mixed: Array, codes: I32) -> None:
        """Give codes their places, among at least four times as many as there are codes."""
        count = len(self._known)
        log2 = min(max((4 * count).bit_length(), self._log2), _MOST_PLACES_LOG2)
        if log2 > self._log2:
            self._log2, self._code_at = log2, np.zeros(1 << log2, np.int32)
            mixed = _mixed([values[:count] for values in self._values])
            codes = np.arange(count, dtype=np.int32)
        self._code_at[self._places(mixed)] = codes + 1


def _mixed(columns: Sequence[Array]) -> Array:
    """Return a hash of the values of each row."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed = (mixed ^ column.astype(np.uint64)) * _MIX
    return mixed


def grown(values: Array, count: int) -> Array:
    """Return the values, with room for twice as many where ``count`` do not fit."""
    if count <= len(values):
        return values
    larger = np.zeros(2 * count, values.dtype)
    larger[: len(values)] = values
    return larger


class Texts:
    """The texts of the rows of a table, in which other bytes, filled up with blanks, follow them.

    Args:
        columns: what decides the text of a row: integers, by row.
        encode: makes the text of all rows with the values that the given row has.

    Attributes:
        kept_bytes: length of all texts that are kept for rows to come.
    """

    def __init__(self, columns: Sequence[Source], encode: Callable[[int], bytes]) -> None:
        varied = [column for column in columns if callable(column) or _varies(column)]
        self._columns = varied or list(columns[:1])
        self._encode = encode
        self._clear()

    def _clear(self) -> None:
        self._codes = Codes()
        self.kept_bytes = 0
        self._length: I64 = np.zeros(64, np.int64)
        self._place: I64 = np.zeros(64, np.int64)
        self._count: dict[int, int] = {}
        self._stored: dict[int, Array] = {}

    def find(self, rows: I64) -> tuple[I64, I64]:
        """Return the length of the text of each row, and its place among those of that length."""
        if self.kept_bytes > _KEPT_BYTES:
            self._clear()
        codes, fresh = self._codes.of([values_of(column, rows) for column in self._columns])
        first = sum(self._count.values())
        for code, row in enumerate(rows[fresh].tolist(), first):
            self._add(code, self._encode(row))
        return self._length.take(codes), self._place.take(codes)

    def of_length(self, length: int, places: I64) -> tuple[Array, I64]:
        """Return texts of a length, each as one value, and for each place which of them it has."""
        stored, count = self._stored[length], self._count[length]
        if count <= len(places):
            return stored[:count], places
        return stored.take(places), np.arange(len(places))

    def _add(self, code: int, text: bytes) -> None:
        length = rounded(len(text))
        self._length = grown(self._length, code + 1)
        self._place = grown(self._place, code + 1)
        place = self._count.get(length, 0)
        stored = grown(self._stored.get(length, np.empty(0, f"V{length}")), place + 1)
        self._stored[length] = stored
        stored[place] = np.void(text.ljust(length))
        self._length[code], self._place[code] = length, place
        self._count[length] = place + 1
        self.kept_bytes += length


def rounded(length: int) -> int:
    """Return the length to which a text is filled up: few lengths make long runs of rows."""
    unit = 8 if length < 128 else 16 if length < 256 else 32
    return max(-(-length // unit), 1) * unit


def _varies(column: Array) -> bool:
    return len(column) > 0 and bool(column.min() != column.max())
