"""Texts that many rows share: each is made once, for all rows with the same values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I32, I64

Array = npt.NDArray[Any]
Source = Array | Callable[[I64], Array]

_SLOTS_LOG2 = 16
_MIX = np.uint64(0x9E3779B97F4A7C15)
_UNIT = 8  # texts are filled up with blanks to a multiple of this: fewer lengths to tell apart
_KEPT_BYTES = 16 << 20


def values_of(source: Source, rows: I64) -> Array:
    """Return the values of the chosen rows."""
    return source(rows) if callable(source) else source[rows]


class Codes:
    """Numbers, from 0, for the combinations of values seen so far.

    Most combinations come again at once, so each has a place in a small table, where all of its
    values are compared; what is not there is looked up in a dictionary.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], int] = {}
        self._code: I32 = np.full(1 << _SLOTS_LOG2, -1, np.int32)
        self._seen: list[Array] = []

    def of(self, columns: Sequence[Array]) -> tuple[I32, list[int]]:
        """Return the code of each row, and a row for each code that is new, in their order.

        Args:
            columns: integers, one array or more, of shape (n,).
        """
        if not self._seen:
            self._seen = [np.zeros(len(self._code), column.dtype) for column in columns]
        mixed = np.zeros(len(columns[0]), np.uint64)
        for column in columns:
            mixed = (mixed ^ column.astype(np.uint64)) * _MIX
        slot = (mixed >> np.uint64(64 - _SLOTS_LOG2)).astype(np.intp)
        codes: I32 = self._code.take(slot)
        hit = codes >= 0
        for column, seen in zip(columns, self._seen, strict=True):
            hit &= seen.take(slot) == column
        if hit.all():
            return codes, []
        missed = np.flatnonzero(~hit)
        codes[missed], fresh = self._look_up(columns, mixed, slot, missed)
        return codes, fresh

    def _look_up(
        self, columns: Sequence[Array], mixed: Array, slot: Array, missed: I64
    ) -> tuple[I32, list[int]]:
        """Return the codes of the rows that were missed, and the rows of new codes."""
        order = np.argsort(mixed[missed], kind="stable")
        rows = missed[order]
        first = np.zeros(len(rows), np.bool_)
        first[0] = True
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
        self._code[slot[leaders]] = code_of_leader
        for column, seen in zip(columns, self._seen, strict=True):
            seen[slot[leaders]] = column[leaders]
        codes = np.empty(len(rows), np.int32)
        codes[order] = code_of_leader[np.cumsum(first) - 1]
        return codes, fresh


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

    def take(self, length: int, places: I64) -> Array:
        """Return the texts of a length at some places, each as one value of that many bytes."""
        return self._stored[length].take(places)

    def _add(self, code: int, text: bytes) -> None:
        length = -(-len(text) // _UNIT) * _UNIT
        if code >= len(self._length):
            self._length = np.concatenate([self._length, np.zeros_like(self._length)])
            self._place = np.concatenate([self._place, np.zeros_like(self._place)])
        place = self._count.get(length, 0)
        stored = self._stored.get(length)
        if stored is None or place == len(stored):
            larger = np.empty(max(2 * place, 1), f"V{length}")
            larger[:place] = stored if stored is not None else larger[:0]
            self._stored[length] = stored = larger
        stored[place] = np.void(text.ljust(length))
        self._length[code], self._place[code] = length, place
        self._count[length] = place + 1
        self.kept_bytes += length


def _varies(column: Array) -> bool:
    return len(column) > 0 and bool(column.min() != column.max())
