"""What is asked of a table, column by column, and what comes back, however it was read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import constant, factorize

Array = npt.NDArray[Any]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_AT_ONCE = 65_536  # numpy makes 64-bit numbers of codes first
_MOST_COMBINATIONS = 65_536  # that are listed before it is known which occur


class Kind(IntEnum):
    """In what form a column is wanted; the numbers are those of ``native/pages.c``."""

    VALUES = 0
    CODES = 1
    REALS = 2
    TEXTS = 3


class Wanted(NamedTuple):
    """One column that is wanted, and the number that stands for NULL and where it is missing."""

    kind: Kind
    missing: int = 0


@dataclass(frozen=True)
class Coded:
    """A column as its distinct values and, for each row, which of them it holds.

    Attributes:
        values: shape (m,): int64, float64 for reals (NaN for NULL), objects for texts (``str``, and
            None for NULL; they come in the order in which they are first met).
        codes: rows of ``values``, integers of any width of shape (n,).
    """

    values: Array
    codes: Array

    @classmethod
    def of(cls, column: Array) -> Coded:
        """Return a column of numbers, coded."""
        return cls(*factorize(column))

    def __len__(self) -> int:
        return len(self.codes)

    def spread(self, each: Array) -> Array:
        """Return for every row what ``each`` holds for its value."""
        return spread(each, self.codes)

    def astype(self, dtype: type[np.generic]) -> Array:
        """Return the column itself."""
        return self.spread(self.values.astype(dtype))

    def map(self, of_distinct: Callable[[I64], Array]) -> Array:
        """Return for every row what a function makes of its number.

        Args:
            of_distinct: given the distinct numbers, ascending, returns one element for each.
        """
        return self.spread(self.each(of_distinct))

    def each(self, of_distinct: Callable[[I64], Array]) -> Array:
        """Return what ``of_distinct`` makes of each of ``values``, asked as in ``map``."""
        order = np.argsort(self.values, kind="stable")
        ascending = of_distinct(self.values[order])
        each = np.empty_like(ascending)
        each[order] = ascending
        return each


Column = I64 | Coded


def spread(each: Array, codes: npt.NDArray[np.integer[Any]]) -> Array:
    """Return for every row what ``each`` holds for its code; a constant takes no memory."""
    if len(each) == 1:
        return constant(each[0], len(codes), each.dtype)
    rows: Array = np.empty(len(codes), each.dtype)
    for first in range(0, len(codes), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        rows[part] = each.take(codes[part])
    return rows


def values(missing: int = 0) -> Wanted:
    """Ask for each row's own number, int64."""
    return Wanted(Kind.VALUES, missing)


def codes(missing: int = 0) -> Wanted:
    """Ask for numbers of which there are few, Coded."""
    return Wanted(Kind.CODES, missing)


REALS = Wanted(Kind.REALS)
TEXTS = Wanted(Kind.TEXTS)


class Rows(NamedTuple):
    """Which rows to read: those whose ``column`` is one of ``values``, or is none of them.

    NULL counts as -1.
    """

    column: str
    values: tuple[int, ...]
    inverse: bool = False

    @property
    def sql(self) -> str:
        """The same as an SQL condition."""
        values = ", ".join(map(str, self.values))
        return f"ifnull({self.column}, -1) {'NOT ' if self.inverse else ''}IN ({values})"

    def mask(self, found: I64) -> npt.NDArray[np.bool_]:
        """Return which rows to read, given the column's values."""
        return np.isin(found, self.values, invert=self.inverse)


class Interner:
    """Gives texts, as bytes, codes in the order in which they are first met."""

    def __init__(self) -> None:
        self._known: dict[bytes | None, int] = {}

    def code(self, data: bytes | None) -> int:
        """Return the code of a text."""
        return self._known.setdefault(data, len(self._known))

    def texts(self) -> npt.NDArray[np.object_]:
        """Return the texts by code."""
        return decoded(list(self._known))


def decoded(texts: list[bytes | None]) -> npt.NDArray[np.object_]:
    r"""Return texts as ``str``; bytes that are not UTF-8 become ``\xNN``."""
    found = np.empty(len(texts), object)
    found[:] = [None if one is None else one.decode("utf-8", "backslashreplace") for one in texts]
    return found


def formed(wanted: Wanted, column: Array, interner: Interner | None = None) -> Column:
    """Return a plain column in the form in which it is wanted.

    Args:
        wanted: the form.
        column: int64; float64 for reals; int32 codes of ``interner`` for texts.
        interner: of texts.
    """
    if interner is not None:
        return Coded(interner.texts(), column)
    if wanted.kind is Kind.VALUES:
        return column
    if wanted.kind is Kind.CODES:
        return Coded.of(column)
    bits = Coded.of(column.view(np.int64))
    return Coded(bits.values.view(np.float64), bits.codes)


def absent(wanted: Wanted, count: int) -> Column:
    """Return ``count`` rows of a column that the table lacks."""
    if wanted.kind is Kind.VALUES:
        return np.full(count, wanted.missing, np.int64)
    of_kind: Mapping[Kind, Array] = {
        Kind.CODES: np.array([wanted.missing], np.int64),
        Kind.REALS: np.array([np.nan]),
        Kind.TEXTS: np.array([None], object),
    }
    return Coded(of_kind[wanted.kind][: min(count, 1)], constant(0, count, np.int32))


def mapped(
    columns: Sequence[Coded], of_each: Callable[..., tuple[int, ...]], outputs: int
) -> list[I32]:
    """Return for every row what a function makes of its numbers in several columns.

    Args:
        columns: of equal length.
        of_each: called with one number a column, once for each combination of values that occurs,
            in ascending order of the numbers; returns ``outputs`` rows.
        outputs: how many columns of rows there are to be.
    """
    keys: list[tuple[int, ...]] = [()]
    found = np.zeros(len(columns[0]), np.intp)
    for column in columns:
        own = column.values.tolist()
        if len(own) > 1:
            found *= len(own)
            found += column.codes
        if len(keys) * len(own) <= _MOST_COMBINATIONS:
            keys = [(*key, value) for key in keys for value in own]
        else:
            distinct, codes = factorize(found)
            found = codes.astype(np.intp)
            pairs = (divmod(pair, len(own)) for pair in distinct.tolist())
            keys = [(*keys[key], own[value]) for key, value in pairs]
    occurs = np.zeros(len(keys), np.bool_)
    occurs[found] = True
    made = np.zeros((outputs, len(keys)), np.int32)
    for place in sorted(np.flatnonzero(occurs).tolist(), key=keys.__getitem__):
        made[:, place] = of_each(*keys[place])
    return [spread(each, found) for each in made]
