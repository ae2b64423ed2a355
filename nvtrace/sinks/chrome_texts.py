"""Texts that many rows share: each is made once, for all rows with the same values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from nvtrace.model.arrays import I32, I64
from nvtrace.sinks import chrome_native
from nvtrace.sinks.chrome_codes import coder, grown
from nvtrace.sinks.chrome_parts import FILLER, Array, Source

_KEPT_BYTES = 16 << 20


class Store(Protocol):
    """Texts by code: those of the codes 0, 1, 2, ... are added in that order."""

    def add(self, text: bytes) -> None:
        """Keep a text."""
        ...


class Texts:
    """The texts of the rows of a table.

    Args:
        columns: what decides the text of a row: integers, by row.
        encode: makes the text of all rows with the values that the given row has.

    Attributes:
        kept_bytes: length of all texts that are kept for rows to come.
        store: the texts that are kept.
    """

    def __init__(self, columns: Sequence[Source], encode: Callable[[int], bytes]) -> None:
        varied = [column for column in columns if callable(column) or _varies(column)]
        self._columns = varied or list(columns[:1])
        self._encode = encode
        self._clear()

    def _clear(self) -> None:
        self._codes = coder()
        self.store: Store = chrome_native.Joined() if chrome_native.library() else ByLength()
        self.kept_bytes = 0

    def forget(self) -> None:
        """Let texts go where they became many; codes that were found before are void."""
        if self.kept_bytes > _KEPT_BYTES:
            self._clear()

    def find(self, rows: I64) -> I32:
        """Return the code of the text of each row."""
        codes, fresh = self._codes.of(self._columns, rows)
        for row in rows[fresh].tolist():
            text = self._encode(row)
            self.store.add(text)
            self.kept_bytes += rounded(len(text))
        return codes


class ByLength:
    """Texts, filled up to few different lengths, by length."""

    def __init__(self) -> None:
        self._total = 0
        self._length: I64 = np.zeros(64, np.int64)
        self._place: I64 = np.zeros(64, np.int64)
        self._count: dict[int, int] = {}
        self._stored: dict[int, Array] = {}

    def add(self, text: bytes) -> None:
        """Keep a text."""
        length, code = rounded(len(text)), self._total
        self._length = grown(self._length, code + 1)
        self._place = grown(self._place, code + 1)
        place = self._count.get(length, 0)
        stored = grown(self._stored.get(length, np.empty(0, f"V{length}")), place + 1)
        self._stored[length] = stored
        stored[place] = np.void(text.ljust(length, FILLER))
        self._length[code], self._place[code] = length, place
        self._count[length] = place + 1
        self._total += 1

    def find(self, codes: I32) -> tuple[I64, I64]:
        """Return the length of the text of each code, and its place among those of that length."""
        return self._length.take(codes), self._place.take(codes)

    def of_length(self, length: int, places: I64) -> tuple[Array, I64]:
        """Return texts of a length, each as one value, and for each place which of them it has."""
        stored, count = self._stored[length], self._count[length]
        if count <= len(places):
            return stored[:count], places
        return stored.take(places), np.arange(len(places))


def rounded(length: int) -> int:
    """Return the length to which a text is filled up: few lengths make long runs of rows."""
    unit = 8 if length < 128 else 16 if length < 256 else 32
    return max(-(-length // unit), 1) * unit


def _varies(column: Array) -> bool:
    return len(column) > 0 and bool(column.min() != column.max())
