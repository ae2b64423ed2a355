"""Rows of bytes at a few hundred nanoseconds each: numbers in fixed columns, texts from tables.

JSON allows blanks before a number, so numbers of any size fit one template; what a row lacks is
overwritten with blanks. Texts are encoded once and joined in between, so that their length is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import factorize
from nvtrace.sinks.names import valid_utf8

Array = npt.NDArray[Any]

_CHUNK_ROWS = 8192
_CHUNK_BYTES = 64 << 20
_BLANK = ord(" ")
_GROUP = 10_000


def _words(form: str, count: int) -> npt.NDArray[np.uint32]:
    """Return ``form % n`` for n below ``count``: four bytes each, as one machine word."""
    return np.frombuffer("".join(form % n for n in range(count)).encode(), np.uint32)


# The last four digits: with leading zeros, or from row 10,000 on, where no digits precede, blanks.
_LAST = np.concatenate([_words("%04d", _GROUP), _words("%4d", _GROUP)])
_EARLIER = _LAST.copy()
_EARLIER[_GROUP] = np.frombuffer(b"    ", np.uint32)[0]
_FRACTIONS = _words(".%03d", 1000)


@dataclass(frozen=True)
class Number:
    """A column of integers from 0: row ``i`` has ``values[index[i]]``, or ``values[i]``."""

    values: Array
    index: Array | None = None

    def words(self, rows: Array) -> list[Array]:
        """Return the digits of the chosen rows, right-aligned, as columns of four bytes."""
        return _digits(_narrow(self.values[rows if self.index is None else self.index[rows]]))


@dataclass(frozen=True)
class Thousandths:
    """A column of integers from 0, written as decimals of three digits: 1234 as 1.234."""

    values: Array

    def words(self, rows: Array) -> list[Array]:
        """Return the digits of the chosen rows, right-aligned, as columns of four bytes."""
        whole, rest = _split(_narrow(self.values[rows]), 1000)
        return [*_digits(whole), _FRACTIONS[rest]]


@dataclass(frozen=True)
class When:
    """Constant bytes and numbers of the rows where ``present`` is true; blanks in the others."""

    present: npt.NDArray[np.bool_]
    parts: tuple[bytes | Number | Thousandths, ...]


@dataclass(frozen=True)
class Text:
    """Bytes from a table: row ``i`` has ``table[index[i]]``."""

    table: npt.NDArray[np.object_]
    index: Array


Part = bytes | Number | Thousandths | When | Text


class Rows:
    """The rows of one shape: every row is the same parts with its own values."""

    def __init__(self, *parts: Part) -> None:
        self._columns: list[Text | list[Part]] = []
        for part in parts:
            if isinstance(part, Text):
                if any(part.table):
                    self._columns.append(part)
            elif self._columns and isinstance(self._columns[-1], list):
                self._columns[-1].append(part)
            else:
                self._columns.append([part])

    @property
    def width(self) -> int:
        """The number of columns that ``columns`` returns."""
        return len(self._columns)

    @property
    def longest(self) -> int:
        """The bytes of a row that has the longest text of every table."""
        texts = [column.table for column in self._columns if isinstance(column, Text)]
        return 512 + sum(max(map(len, table), default=0) for table in texts)

    def columns(self, rows: Array) -> list[npt.NDArray[np.object_]]:
        """Return the chosen rows in pieces: arrays of bytes, to be joined row by row."""
        return [
            column.table[column.index[rows]] if isinstance(column, Text) else _block(column, rows)
            for column in self._columns
        ]


def render(
    shapes: Sequence[Rows], shape: npt.NDArray[np.uint8], row: npt.NDArray[np.integer]
) -> Iterator[tuple[int, bytes]]:
    """Yield a sequence of rows in pieces of bounded size: how many, and their bytes.

    Args:
        shapes: the shapes of rows.
        shape: which shape each row of the output has, of shape (n,).
        row: which row of that shape it is, of shape (n,).
    """
    used = [(index, shapes[index]) for index in np.unique(shape).tolist()]
    longest = max((rows.longest for _, rows in used), default=1)
    step = max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // longest))
    for start in range(0, len(shape), step):
        part = slice(start, start + step)
        chosen = [(rows, np.flatnonzero(shape[part] == index)) for index, rows in used]
        width = max(rows.width for rows, places in chosen if len(places))
        out = np.full((len(shape[part]), width), b"", dtype=object)
        for rows, places in chosen:
            if len(places):
                for column, pieces in enumerate(rows.columns(row[part][places])):
                    out[places, column] = pieces
        yield len(out), b"".join(out.ravel().tolist())


def quoted(text: str) -> bytes:
    """Return ``text`` as a JSON string in UTF-8, whatever it holds."""
    encoded: str = encode_basestring(valid_utf8(text))
    return encoded.encode()


def text_by(columns: Sequence[Array], encode: Callable[[int], bytes]) -> Text:
    """Return a ``Text`` whose entries are made once for each combination of the columns' values.

    Args:
        columns: integers of equal length.
        encode: makes the entry from the first row that has the combination.
    """
    codes = np.zeros(len(columns[0]), np.int32)
    for column in columns:
        distinct, own = factorize(column)
        if len(distinct) > 1:
            codes = factorize(codes.astype(np.int64) * len(distinct) + own)[1]
    first = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    table = np.empty(len(first), dtype=object)
    table[:] = [encode(row) for row in first.tolist()]
    return Text(table, codes)


def _narrow(values: Array) -> Array:
    """Return the values unsigned, in 32 bits where they fit: those divide three times as fast.

    Negative ones, which stand for none and end up blank, are taken for 0.
    """
    if values.dtype.kind == "i":
        values = np.maximum(values, 0)
    return values.astype(np.uint32 if int(values.max(initial=0)) < 2**32 else np.uint64)


def _split(values: Array, divisor: int) -> tuple[Array, Array]:
    high = values // values.dtype.type(divisor)
    return high, values - high * values.dtype.type(divisor)


def _digits(values: Array) -> list[Array]:
    columns: list[Array] = []
    table = _LAST
    largest = int(values.max(initial=0))
    while largest >= _GROUP:
        rest, low = _split(values, _GROUP)
        low += (rest == 0).astype(low.dtype) * low.dtype.type(_GROUP)
        columns.insert(0, table[low])
        values, table, largest = rest, _EARLIER, largest // _GROUP
    return [table[values + values.dtype.type(_GROUP)], *columns]


def _block(parts: Sequence[Part], rows: Array) -> npt.NDArray[np.object_]:
    template = bytearray()
    words: list[tuple[int, Array]] = []
    blanks: list[tuple[int, int, Array]] = []

    def add(part: Part) -> None:
        if isinstance(part, bytes):
            template.extend(part)
        elif isinstance(part, When):
            absent = np.flatnonzero(~part.present[rows])
            if len(absent) < len(rows):
                start = len(template)
                for inner in part.parts:
                    add(inner)
                blanks.append((start, len(template), absent))
        elif not isinstance(part, Text):
            for word in part.words(rows):
                words.append((len(template), word))
                template.extend(b"    ")

    for part in parts:
        add(part)
    if not template:
        return np.full(len(rows), b"", dtype=object)
    block = np.empty((len(rows), len(template)), np.uint8)
    block[:] = np.frombuffer(template, np.uint8)
    for offset, word in words:
        np.ndarray((len(rows),), np.uint32, block.data, offset, (len(template),))[:] = word
    for start, stop, absent in blanks:
        block[absent, start:stop] = _BLANK
    return block.view(f"S{len(template)}")[:, 0].astype(object)
