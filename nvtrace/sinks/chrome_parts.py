"""What rows of bytes are made of: numbers, texts, and what only some rows have.

How each is written is defined here with numpy, for all rows in fixed columns of bytes; where a
number or a text is shorter, the rest is a filler, which is taken out of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I64

FILLER = b"\0"  # stands in no JSON, which has control characters escaped

Array = npt.NDArray[Any]
Source = Array | Callable[[I64], Array]


class Derived:
    """A column that is made of another one, row by row: here or, so that it is never held, in C.

    Attributes:
        values: the other column, by row.
        table: if any, what is taken for each value, which is a place in it, or -1, which stays.
        less: if any, what is taken away, by row.
        plus: what is added.
    """

    def __init__(
        self, values: Array, table: Array | None = None, less: Array | None = None, plus: int = 0
    ) -> None:
        self.values, self.table, self.less, self.plus = values, table, less, plus

    def __call__(self, rows: I64) -> Array:
        """Return the values of the chosen rows."""
        found = self.values[rows]
        if self.table is not None:
            known = found >= 0
            if known.all():
                found = self.table[found]
            else:
                places, found = found[known], np.full(len(found), -1, self.table.dtype)
                found[known] = self.table[places]
        if self.less is not None:
            found = found - self.less[rows]
        return found + self.plus if self.plus else found


def plus(source: Source, constant: int) -> Source:
    """Return a column whose values are larger by a constant."""
    if not constant:
        return source
    if isinstance(source, Derived):
        return Derived(source.values, source.table, source.less, source.plus + constant)
    if callable(source):
        return lambda rows: source(rows) + constant
    return Derived(source, plus=constant)


class Kind(IntEnum):
    """How ``native/timeline.c`` calls the kinds of parts."""

    NOTHING = 0
    TEXT = 1
    NUMBER = 2
    THOUSANDTHS = 3
    WHEN = 4
    VARINT = 5
    FIXED = 6


class Values(Protocol):
    """What differs from row to row."""

    @property
    def kind(self) -> Kind:
        """How it is written."""
        ...

    @property
    def values(self) -> Source:
        """What is written, by row."""
        ...

    def columns(self, rows: I64) -> list[Array]:
        """Return the bytes of the chosen rows, as columns of words, one behind the other."""
        ...


class Number:
    """A column of integers, by row; negative ones are taken for 0."""

    kind = Kind.NUMBER

    def __init__(self, values: Source) -> None:
        self.values = values

    def columns(self, rows: I64) -> list[Array]:
        """Return the digits of the chosen rows, right-aligned, as columns of four bytes."""
        from nvtrace.sinks.chrome_digits import integers

        return integers(values_of(self.values, rows))


class Thousandths:
    """The same, written as decimals of three digits: 1234 as 1.234."""

    kind = Kind.THOUSANDTHS

    def __init__(self, values: Source) -> None:
        self.values = values

    def columns(self, rows: I64) -> list[Array]:
        """Return the digits of the chosen rows, right-aligned, as columns of four bytes."""
        from nvtrace.sinks.chrome_digits import thousandths

        return thousandths(values_of(self.values, rows))


class Choice:
    """One of a few texts: row ``i`` has ``texts[values[i]]``."""

    kind = Kind.TEXT

    def __init__(self, texts: Sequence[bytes], values: Source) -> None:
        self.texts = texts
        self.values = values

    def columns(self, rows: I64) -> list[Array]:
        """Return the texts of the chosen rows, each as one value."""
        return [self._table.take(values_of(self.values, rows))]

    @cached_property
    def _table(self) -> Array:
        width = max(map(len, self.texts), default=1)
        return np.array([text.ljust(width, FILLER) for text in self.texts], f"V{width}")


class When(NamedTuple):
    """Parts of the rows in which a value is no less than ``least``."""

    values: Source
    parts: tuple[bytes | Values, ...]
    least: int = 1


Part = bytes | Values | When


def values_of(source: Source, rows: I64) -> Array:
    """Return the values of the chosen rows."""
    return source(rows) if callable(source) else source[rows]
