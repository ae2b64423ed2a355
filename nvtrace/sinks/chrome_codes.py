"""Numbers for combinations of values, so that what rows share is made once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from nvtrace.model.arrays import I32, I64
from nvtrace.sinks import chrome_native
from nvtrace.sinks.chrome_parts import Array, Source, values_of

_FEWEST_PLACES_LOG2, _MOST_PLACES_LOG2 = 12, 20
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Coder(Protocol):
    """Knows the combinations of values seen so far by number, from 0, as they come."""

    def of(self, columns: Sequence[Source], rows: I64) -> tuple[I32, list[int]]:
        """Return the code of each row, and the places in ``rows`` of the codes that are new.

        Args:
            columns: integers, one column or more.
            rows: chosen rows of them.
        """
        ...


def coder() -> Coder:
    """Return what numbers combinations, in C where that was built."""
    return chrome_native.Codes() if chrome_native.library() else Codes()


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

    def of(self, columns: Sequence[Source], rows: I64) -> tuple[I32, list[int]]:
        """Return what ``Coder.of`` does."""
        return self._of([values_of(column, rows) for column in columns])

    def _of(self, columns: Sequence[Array]) -> tuple[I32, list[int]]:
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
        code_of_leader, fresh = np.empty(len(leaders), np.int32), []
        keys = zip(*(column[leaders].tolist() for column in columns), strict=True)
        by_row = sorted(zip(leaders.tolist(), keys, range(len(leaders)), strict=True))
        for row, key, place in by_row:
            code = self._known.get(key)
            if code is None:
                code = self._known[key] = len(self._known)
                fresh.append(row)
            code_of_leader[place] = code
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
