"""Rows of bytes at some hundred nanoseconds each: one text, then constant bytes and numbers.

``native/timeline.c`` writes them where it was built. Here is what it does, with numpy: rows whose
texts have one length are one array of bytes, in which numbers have fixed columns; what is shorter,
and what a row lacks, is a filler there, which is taken out in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from json.encoder import encode_basestring
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I64
from nvtrace.sinks import chrome_native
from nvtrace.sinks.chrome_parts import FILLER, Array, Part, Values, When, values_of
from nvtrace.sinks.chrome_texts import ByLength, Texts
from nvtrace.sinks.names import valid_utf8

Bools = npt.NDArray[np.bool_]
Buffer = npt.NDArray[np.uint8]

_PIECE_ROWS = 4096  # few enough to stay in the cache while one column after the other is written
_PIECE_BYTES = 24 << 20
_PARTS_BYTES = 128  # of a row, as a rule


class Rows:
    """The rows of one shape: a text, and the same parts with each row's own values."""

    def __init__(self, text: Texts, *parts: Part) -> None:
        self.text = text
        self.parts = parts

    @cached_property
    def template(self) -> chrome_native.Template:
        """The same for C."""
        return chrome_native.Template(self.text, self.parts)


class Chosen:
    """Chosen rows of one shape, as arrays of bytes."""

    def __init__(self, shape: Rows, rows: I64) -> None:
        texts = shape.text.store
        assert isinstance(texts, ByLength)
        lengths, places = texts.find(shape.text.find(rows))
        self._texts = texts
        self._order = np.argsort(_shortened(lengths), kind="stable")
        self._lengths, self._places = lengths[self._order], places[self._order]
        self._parts, self._rows = shape.parts, rows

    @property
    def size(self) -> int:
        """How many bytes the rows are, roughly."""
        return int(self._lengths.sum()) + len(self._lengths) * _PARTS_BYTES

    def pieces(self) -> Iterator[tuple[I64, Buffer]]:
        """Yield rows in pieces of bounded size.

        Yields:
            Which of the chosen rows a piece holds, and their bytes, of shape (rows, length).
        """
        columns = Columns(self._parts, self._rows[self._order])
        for run in runs(self._lengths):
            length = int(self._lengths[run.start])
            for first in range(run.start, run.stop, _PIECE_ROWS):
                part = slice(first, min(first + _PIECE_ROWS, run.stop))
                texts, index = self._texts.of_length(length, self._places[part])
                piece = _beside(texts, columns.template, index)
                columns.write(piece, length, part)
                yield self._order[part], piece


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
            piece[absent[part], offset + start : offset + stop] = ord(FILLER)

    def _add(self, part: Part) -> None:
        if isinstance(part, bytes):
            self._template.extend(part)
        elif isinstance(part, When):
            present = values_of(part.values, self._rows) >= part.least
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
    shapes: Sequence[Rows], shape: npt.NDArray[np.integer], row: I64, *, filled: bool = True
) -> Iterator[memoryview | bytes]:
    """Yield rows, in order, in pieces of bounded size.

    Args:
        shapes: the shapes of rows.
        shape: which shape each row of the output has, of shape (n,).
        row: which row of that shape it is, of shape (n,).
        filled: whether numbers or texts may be of several lengths, and no row has a zero byte.
    """
    for rows in shapes:
        rows.text.forget()
    if chrome_native.library():
        templates = [rows.template for rows in shapes]
        yield from chrome_native.written(templates, shape.astype(np.int32), row)
    else:
        for piece in _by_columns(shapes, shape, row):
            yield piece.translate(None, FILLER) if filled else piece


def _by_columns(
    shapes: Sequence[Rows], shape: npt.NDArray[np.integer], row: I64
) -> Iterator[bytes]:
    found: list[tuple[I64, Chosen]] = []
    for index, rows in enumerate(shapes):
        places = np.flatnonzero(shape == index)
        if len(places):
            found.append((places, Chosen(rows, row[places])))
    if len(row) > 1 and sum(chosen.size for _, chosen in found) > _PIECE_BYTES:
        for half in np.array_split(np.arange(len(row)), 2):
            yield from _by_columns(shapes, shape[half], row[half])
        return
    lines = np.empty(len(row), dtype=object)
    for places, chosen in found:
        for which, piece in chosen.pieces():
            lines[places[which]] = fields(piece, 0, piece.shape[1]).astype(object)
    yield b"".join(lines.tolist())


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
