"""Rows of bytes at some hundred nanoseconds each: one text, then numbers in fixed columns.

JSON allows blanks before a number, so numbers of any size fit one template; what a row lacks is
overwritten with blanks. Rows whose texts have one length are one array of bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I64
from nvtrace.sinks.chrome_digits import Words, integers, thousandths
from nvtrace.sinks.chrome_texts import Source, Texts, values_of
from nvtrace.sinks.names import valid_utf8

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Buffer = npt.NDArray[np.uint8]

_PIECE_BYTES = 32 << 20
_BLANK = ord(" ")


@dataclass(frozen=True, eq=False)
class Number:
    """A column of integers from 0, by row."""

    values: Source

    def words(self, rows: I64) -> list[Words]:
        """Return the digits of the chosen rows, right-aligned, as columns of four bytes."""
        return integers(values_of(self.values, rows))


@dataclass(frozen=True, eq=False)
class Thousandths:
    """A column of integers from 0, written as decimals of three digits: 1234 as 1.234."""

    values: Source

    def words(self, rows: I64) -> list[Words]:
        """Return the digits of the chosen rows, right-aligned, as columns of four bytes."""
        return thousandths(values_of(self.values, rows))


@dataclass(frozen=True, eq=False)
class Choice:
    """One of a few constants of equal length: row ``i`` has ``table[index[i]]``."""

    table: Array
    index: Source

    def values(self, rows: I64) -> Array:
        """Return the constants of the chosen rows, each as one value."""
        return self.table.take(values_of(self.index, rows))


@dataclass(frozen=True, eq=False)
class When:
    """Parts of the rows where ``present`` is true; blanks in the others."""

    present: Source
    parts: tuple[bytes | Number | Thousandths | Choice, ...]


Part = bytes | Number | Thousandths | Choice | When


class Rows:
    """The rows of one shape: a text, and the same parts with each row's own values."""

    def __init__(self, text: Texts | None, *parts: Part) -> None:
        self._text = text
        self._parts = parts

    def pieces(self, rows: I64) -> Iterator[tuple[Buffer, list[tuple[I64, Buffer]]]]:
        """Yield the chosen rows, in any order, in pieces of bounded size.

        Yields:
            The bytes of a piece, and the same by length: which of ``rows`` they are, and the bytes
            of each, of shape (rows, length).
        """
        if self._text is None:
            lengths = places = np.zeros(len(rows), np.int64)
        else:
            lengths, places = self._text.find(rows)
        short = lengths.astype(np.uint16) if int(lengths.max(initial=0)) < 1 << 16 else lengths
        order = np.argsort(short, kind="stable")
        lengths, places = lengths[order], places[order]
        block = block_of(self._parts, rows[order])
        ends: I64 = np.cumsum(lengths + block.shape[1])
        first = 0
        while first < len(rows):
            before = int(ends[first - 1]) if first else 0
            last = int(np.searchsorted(ends, before + _PIECE_BYTES, side="right"))
            part = slice(first, max(last, first + 1))
            first = part.stop
            yield self._piece(order[part], lengths[part], places[part], block[part])

    def _piece(
        self, order: I64, lengths: I64, places: I64, block: Buffer
    ) -> tuple[Buffer, list[tuple[I64, Buffer]]]:
        width = block.shape[1]
        piece = np.empty(int(lengths.sum()) + block.size, np.uint8)
        cut, offset = [], 0
        for part in runs(lengths):
            length, count = int(lengths[part.start]), part.stop - part.start
            stop = offset + count * (length + width)
            rows = piece[offset:stop].reshape(count, length + width)
            if self._text is not None and length:
                fields(rows, 0, length)[:] = self._text.take(length, places[part])
            if width:
                fields(rows, length, width)[:] = fields(block[part], 0, width)
            cut.append((order[part], rows))
            offset = stop
        return piece, cut


def render(
    shapes: Sequence[Rows], shape: npt.NDArray[np.uint8], row: I64, late: Bools
) -> Iterator[memoryview | bytes]:
    """Yield rows in pieces of bounded size.

    Args:
        shapes: the shapes of rows.
        shape: which shape each row of the output has, of shape (n,).
        row: which row of that shape it is, of shape (n,).
        late: those that come behind all others, in order, of shape (n,); the others come as it is
            quickest.
    """
    for index, rows in enumerate(shapes):
        chosen = row[(shape == index) & ~late]
        if len(chosen):
            yield from (piece.data for piece, _ in rows.pieces(chosen))
    if late.any():
        yield from _in_order(shapes, shape[late], row[late])


def _in_order(shapes: Sequence[Rows], shape: npt.NDArray[np.uint8], row: I64) -> Iterator[bytes]:
    lines = np.empty(len(shape), dtype=object)
    for index, rows in enumerate(shapes):
        places = np.flatnonzero(shape == index)
        if len(places):
            for _, cut in rows.pieces(row[places]):
                for which, of_length in cut:
                    width = of_length.shape[1]
                    lines[places[which]] = fields(of_length, 0, width).astype(object)
    yield b"".join(lines.tolist())


def quoted(text: str) -> bytes:
    """Return ``text`` as a JSON string in UTF-8, whatever it holds."""
    encoded: str = encode_basestring(valid_utf8(text))
    return encoded.encode()


def runs(values: Array) -> Iterable[slice]:
    """Return the stretches of equal values, in order."""
    if not len(values):
        return
    edges = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist(), len(values)]
    yield from map(slice, edges[:-1], edges[1:])


def fields(rows: Buffer, offset: int, width: int) -> Array:
    """Return ``width`` bytes of each row as one value, to read or to set; no copy."""
    return np.ndarray((len(rows),), f"V{width}", rows.data, offset, rows.strides[:1])


def block_of(parts: Sequence[Part], rows: I64) -> Buffer:
    """Return the bytes of ``parts`` for the chosen rows, of shape (rows, width)."""
    template = bytearray()
    columns: list[tuple[int, Array]] = []
    blanks: list[tuple[int, int, I64]] = []
    made: dict[int, list[Any]] = {}

    def add(part: Part) -> None:
        if isinstance(part, bytes):
            template.extend(part)
        elif isinstance(part, When):
            absent = np.flatnonzero(~values_of(part.present, rows))
            if len(absent) < len(rows):
                start = len(template)
                for inner in part.parts:
                    add(inner)
                blanks.append((start, len(template), absent))
        else:
            if id(part) not in made:
                made[id(part)] = (
                    [part.values(rows)] if isinstance(part, Choice) else part.words(rows)
                )
            for column in made[id(part)]:
                columns.append((len(template), column))
                template.extend(bytes(column.itemsize))

    for part in parts:
        add(part)
    block = np.empty((len(rows), len(template)), np.uint8)
    if not template:
        return block
    fields(block, 0, len(template))[:] = np.void(bytes(template))
    for offset, column in columns:
        np.ndarray(column.shape, column.dtype, block.data, offset, block.strides[:1])[:] = column
    for start, stop, absent in blanks:
        block[absent, start:stop] = _BLANK
    return block
