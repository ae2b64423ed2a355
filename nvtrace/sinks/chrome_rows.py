"""Rows of bytes at some hundred nanoseconds each: one text, then numbers in fixed columns.

JSON allows blanks before a number, so numbers of any size fit one template; what a row lacks is
overwritten with blanks. Rows whose texts have one length are one array of bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from json.encoder import encode_basestring
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I64
from nvtrace.sinks.chrome_digits import integers, thousandths
from nvtrace.sinks.chrome_texts import Source, Texts, values_of
from nvtrace.sinks.names import valid_utf8

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Buffer = npt.NDArray[np.uint8]

_PIECE_ROWS = 4096  # few enough to stay in the cache while one column after the other is written
_PIECE_BYTES = 32 << 20
_BLANK = ord(" ")


class Values(Protocol):
    """What differs from row to row, in a fixed number of bytes."""

    def columns(self, rows: I64) -> list[Array]:
        """Return the bytes of the chosen rows, as columns of words, one behind the other."""
        ...


class Number(NamedTuple):
    """A column of integers from 0, by row."""

    values: Source

    def columns(self, rows: I64) -> list[Array]:
        """Return the digits of the chosen rows, right-aligned, as columns of four bytes."""
        return integers(values_of(self.values, rows))


class Thousandths(NamedTuple):
    """A column of integers from 0, written as decimals of three digits: 1234 as 1.234."""

    values: Source

    def columns(self, rows: I64) -> list[Array]:
        """Return the digits of the chosen rows, right-aligned, as columns of four bytes."""
        return thousandths(values_of(self.values, rows))


class Choice(NamedTuple):
    """One of a few constants of equal length: row ``i`` has ``table[place[i]]``."""

    table: Array
    place: Source

    def columns(self, rows: I64) -> list[Array]:
        """Return the constants of the chosen rows, each as one value."""
        return [self.table.take(values_of(self.place, rows))]


class When(NamedTuple):
    """Parts of the rows where ``present`` is true; blanks in the others."""

    present: Source
    parts: tuple[bytes | Values, ...]


Part = bytes | Values | When


class Rows:
    """The rows of one shape: a text, and the same parts with each row's own values."""

    def __init__(self, text: Texts, *parts: Part) -> None:
        self._text = text
        self._parts = parts

    def pieces(self, rows: I64) -> Iterator[tuple[I64, Buffer]]:
        """Yield the chosen rows, in any order, in pieces of bounded size.

        Yields:
            Which of ``rows`` a piece holds, and their bytes, of shape (rows, length).
        """
        lengths, places = self._text.find(rows)
        order = np.argsort(_shortened(lengths), kind="stable")
        lengths, places = lengths[order], places[order]
        columns = Columns(self._parts, rows[order])
        for run in runs(lengths):
            length = int(lengths[run.start])
            step = max(1, min(_PIECE_ROWS, _PIECE_BYTES // (length + columns.width)))
            for first in range(run.start, run.stop, step):
                part = slice(first, min(first + step, run.stop))
                texts, index = self._text.of_length(length, places[part])
                piece = _beside(texts, columns.template, index)
                columns.write(piece, length, part)
                yield order[part], piece


def _beside(texts: Array, template: bytes, index: I64) -> Buffer:
    """Return rows of one of the texts each, as ``index`` says, and the template."""
    length, width = texts.itemsize, texts.itemsize + len(template)
    whole = np.empty((len(texts), width), np.uint8)
    fields(whole, 0, length)[:] = texts
    whole[:, length:] = np.frombuffer(template, np.uint8)
    return fields(whole, 0, width).take(index).view(np.uint8).reshape(len(index), width)


class Columns:
    """The bytes of some parts for the chosen rows, all of one width.

    Args:
        parts: what stands in every row, in order.
        rows: rows of the table that the parts are about.
    """

    def __init__(self, parts: Sequence[Part], rows: I64) -> None:
        self._rows = rows
        self._template = bytearray()
        self._columns: list[tuple[int, Array]] = []
        self._absent: list[tuple[int, int, Bools]] = []
        self._made: dict[int, list[Array]] = {}  # by part: a row may show the same twice
        for part in parts:
            self._add(part)

    @property
    def width(self) -> int:
        """Bytes of a row."""
        return len(self._template)

    @property
    def template(self) -> bytes:
        """What all rows have, with zeros where each has its own."""
        return bytes(self._template)

    def write(self, piece: Buffer, offset: int, part: slice) -> None:
        """Write what some of the rows have of their own over the template in ``piece``."""
        for place, column in self._columns:
            fields(piece, offset + place, column.itemsize, column.dtype)[:] = column[part]
        for start, stop, absent in self._absent:
            piece[absent[part], offset + start : offset + stop] = _BLANK

    def _add(self, part: Part) -> None:
        if isinstance(part, bytes):
            self._template.extend(part)
        elif isinstance(part, When):
            present = values_of(part.present, self._rows)
            if present.any():
                start = self.width
                for inner in part.parts:
                    self._add(inner)
                if not present.all():
                    self._absent.append((start, self.width, ~present))
        else:
            for column in self._values(part):
                self._columns.append((self.width, column))
                self._template.extend(bytes(column.itemsize))

    def _values(self, part: Values) -> list[Array]:
        made = self._made.get(id(part))
        if made is None:
            made = self._made[id(part)] = part.columns(self._rows)
        return made


def render(
    shapes: Sequence[Rows], shape: npt.NDArray[np.integer], row: I64, late: Bools
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
            yield from (piece.reshape(-1).data for _, piece in rows.pieces(chosen))
    if late.any():
        yield _in_order(shapes, shape[late], row[late])


def _in_order(shapes: Sequence[Rows], shape: npt.NDArray[np.integer], row: I64) -> bytes:
    lines = np.empty(len(shape), dtype=object)
    for index, rows in enumerate(shapes):
        places = np.flatnonzero(shape == index)
        if len(places):
            for which, piece in rows.pieces(row[places]):
                lines[places[which]] = fields(piece, 0, piece.shape[1]).astype(object)
    return b"".join(lines.tolist())


def quoted(text: str) -> bytes:
    """Return ``text`` as a JSON string in UTF-8, whatever it holds."""
    encoded: str = encode_basestring(valid_utf8(text))
    return encoded.encode()


def _shortened(lengths: I64) -> Array:
    """Return the lengths in 16 bits where they fit: those are sorted in linear time."""
    return lengths.astype(np.uint16) if int(lengths.max(initial=0)) < 1 << 16 else lengths


def runs(values: Array) -> Iterable[slice]:
    """Return the stretches of equal values, in order."""
    if not len(values):
        return
    edges = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist(), len(values)]
    yield from map(slice, edges[:-1], edges[1:])


def fields(rows: Buffer, offset: int, width: int, dtype: Any = None) -> Array:
    """Return ``width`` bytes of each row as one value, to read or to set; no copy."""
    return np.ndarray((len(rows),), dtype or f"V{width}", rows.data, offset, rows.strides[:1])
