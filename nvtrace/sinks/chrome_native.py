"""Rows of bytes, codes of combinations, paths, and what nests, by ``native/timeline.c``.

The plain definitions of what it does are ``chrome_rows``, ``chrome_codes``, ``chrome_paths`` and
``chrome_nesting``, which stand in where no compiler was. The same bytes come out.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace import _native
from nvtrace.model.arrays import I32, I64
from nvtrace.sinks.chrome_native_columns import Column, Columns
from nvtrace.sinks.chrome_parts import Kind, Part, Source, When

if TYPE_CHECKING:
    from nvtrace.sinks.chrome_texts import Texts

Bools = npt.NDArray[np.bool_]


_DEEPEST = 256  # as in C
_MORE_PATHS = 512
PIECE_BYTES = 512 << 10
_NONE = b"\0"  # an array of no bytes is nowhere
_BLOCK = 16  # bytes of a literal that are copied at a time
_LONGEST = {Kind.NUMBER: 20, Kind.THOUSANDTHS: 22, Kind.FIXED: 8, Kind.WHEN: 0}


class _Part(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int32),
        ("size", ctypes.c_int32),
        ("least", ctypes.c_int64),
        ("of", Column),
        ("literal", ctypes.c_void_p),
        ("literal_size", ctypes.c_int64),
        ("bytes", ctypes.c_void_p),
        ("starts", ctypes.c_void_p),
        ("texts", ctypes.c_int64),
    )


class _Shape(ctypes.Structure):
    _fields_ = (
        ("parts", ctypes.POINTER(_Part)),
        ("count", ctypes.c_int64),
        ("longest", ctypes.c_int64),
        ("written", ctypes.c_int64),
    )


class _Known(ctypes.Structure):
    _fields_ = (
        ("keys", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        ("width", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("log2", ctypes.c_int64),
    )


class _Ranges(ctypes.Structure):
    _fields_ = (
        ("names", ctypes.c_void_p),
        ("parents", ctypes.c_void_p),
        ("paths", ctypes.c_void_p),
        ("count", ctypes.c_int64),
    )


class _Nest(ctypes.Structure):
    _fields_ = (
        ("groups", ctypes.c_int64),
        ("ends", ctypes.c_void_p),
        ("anchor", ctypes.c_void_p),
        ("open", ctypes.c_void_p),
        ("used", ctypes.c_void_p),
        ("failed", ctypes.c_void_p),
    )


def library() -> Any:
    """Return the native part; None where it was not built."""
    functions = ("write", "codes", "paths", "nest")
    return _native.library("timeline", *(f"nvt_timeline_{one}" for one in functions))


class _Dictionary:
    def __init__(self, width: int) -> None:
        self.known = _Known(width=width)
        self._keys: I64 = np.empty(0, np.int64)
        self._slots: I32 = np.empty(0, np.int32)

    def make_room(self, more: int) -> None:
        """See to it that there is room for so many combinations more."""
        known = self.known
        needed = known.count + more
        if needed <= known.capacity:
            return
        keys = np.empty(2 * needed * known.width, np.int64)
        used = known.count * known.width
        keys[:used] = self._keys[:used]
        known.capacity, known.log2 = 2 * needed, (4 * needed).bit_length()
        self._keys, self._slots = keys, np.zeros(1 << known.log2, np.int32)
        known.keys, known.slots = keys.ctypes.data, self._slots.ctypes.data
        library().nvt_timeline_place(ctypes.byref(known))


class Codes:
    """What ``chrome_codes.Codes`` is."""

    def __init__(self) -> None:
        self._sources: Sequence[Source] = ()
        self._dictionary: _Dictionary | None = None

    def of(self, columns: Sequence[Source], rows: I64) -> tuple[I32, list[int]]:
        """Return what ``Coder.of`` does."""
        if columns is not self._sources:
            self._sources = columns
            self._described = (Column * len(columns))()
            self._columns = Columns(self._described, columns)
        known = self._dictionary = self._dictionary or _Dictionary(len(columns))
        rows = _contiguous(rows)
        self._columns.compute(rows)
        known.make_room(len(rows))
        codes, fresh = np.empty(len(rows), np.int32), np.empty(len(rows), np.int64)
        found = library().nvt_timeline_codes(
            ctypes.byref(known.known),
            self._described,
            ctypes.c_void_p(rows.ctypes.data),
            ctypes.c_int64(len(rows)),
            ctypes.c_void_p(codes.ctypes.data),
            ctypes.c_void_p(fresh.ctypes.data),
        )
        if found < 0:
            raise IndexError("a row that a column does not have")
        return codes, fresh[:found].tolist()


class Paths:
    """Finds the paths of ranges: the names of a range and of those around it.

    Args:
        names: of each range.
        parents: the range around each, -1 none.
        paths: one more than the code of the path of each, 0 where it is unknown; it is filled in.
    """

    def __init__(self, names: I32, parents: I32, paths: I32) -> None:
        self._kept = *(np.ascontiguousarray(one, np.int32) for one in (names, parents)), paths
        self._ranges = _Ranges(*(array.ctypes.data for array in self._kept), len(names))
        self._dictionary = _Dictionary(2)

    def learn(self, ranges: I32) -> list[int]:
        """Find the paths of some ranges; return a range for each new one, outer ones first."""
        ranges = np.ascontiguousarray(ranges, np.int32)
        known, fresh = self._dictionary.known, []
        while True:
            self._dictionary.make_room(_MORE_PATHS)
            room = np.empty(known.capacity - known.count, np.int64)
            found = library().nvt_timeline_paths(
                ctypes.byref(known),
                ctypes.byref(self._ranges),
                ctypes.c_void_p(ranges.ctypes.data),
                ctypes.c_int64(len(ranges)),
                ctypes.c_void_p(room.ctypes.data),
            )
            if found < 0:
                raise IndexError("a range that does not exist")
            fresh += room[:found].tolist()
            if known.count < known.capacity:
                return fresh


class Joined:
    """Texts by code, one behind the other."""

    def __init__(self, texts: Iterable[bytes] = ()) -> None:
        self._bytes = bytearray()
        self._starts = array("q", [0])
        for text in texts:
            self.add(text)

    def add(self, text: bytes) -> None:
        """Keep a text."""
        self._bytes += text
        self._starts.append(len(self._bytes))

    def describe(self, part: _Part) -> None:
        """Tell C where the texts are, until one more is added."""
        part.bytes = np.frombuffer(self._bytes or _NONE, np.uint8).ctypes.data
        part.starts, part.texts = self._starts.buffer_info()[0], len(self._starts) - 1


class Template:
    """The rows of one shape, as C reads them.

    Args:
        text: what each row begins with.
        parts: what comes then.
    """

    def __init__(self, text: Texts, parts: Sequence[Part]) -> None:
        self._text = text
        flat = [_Flat(Kind.TEXT, values=text.find), *_flat(parts)]
        self._parts = (_Part * len(flat))()
        self._texts: list[Joined] = []
        self._literals: list[ctypes.Array[ctypes.c_char]] = []
        self._longest = _BLOCK  # bytes are copied in whole blocks
        columns, sources = [], []
        for part, one in zip(self._parts, flat, strict=True):
            part.kind, part.size, part.least = one.kind, one.size, one.least
            part.literal, part.literal_size = self._literal(one.literal), len(one.literal)
            self._longest += len(one.literal) + _LONGEST.get(one.kind, one.size)
            if one.texts is not None:
                joined = Joined(one.texts)
                joined.describe(part)
                self._texts.append(joined)
            if one.values is not None:
                columns.append(part.of)
                sources.append(one.values)
        self._columns = Columns(columns, sources)

    def compute(self, rows: I64) -> None:
        """Compute what the rows that are written next, in this order, have of their own."""
        self._columns.compute(rows)

    def _literal(self, content: bytes) -> int:
        """Return where the bytes are, in whole blocks, for as long as this is kept."""
        padded = ctypes.create_string_buffer(content, -(-len(content) // _BLOCK) * _BLOCK or 1)
        self._literals.append(padded)
        return ctypes.addressof(padded)

    def describe(self, shape: _Shape) -> None:
        """Tell C what to write, until more is computed."""
        assert isinstance(self._text.store, Joined)
        self._text.store.describe(self._parts[0])
        shape.parts, shape.count, shape.longest = self._parts, len(self._parts), self._longest


class _Flat(NamedTuple):
    kind: Kind
    literal: bytes = b""
    values: Source | None = None
    size: int = 0
    least: int = 0
    texts: Sequence[bytes] | None = None


def _flat(parts: Sequence[Part]) -> Iterator[_Flat]:
    """Yield the parts one behind the other, each with the bytes that stand before its value."""
    literal = b""
    for part in parts:
        if isinstance(part, bytes):
            literal += part
            continue
        if isinstance(part, When):
            inner = list(_flat(part.parts))
            yield _Flat(Kind.WHEN, literal, part.values, len(inner), part.least)
            yield from inner
        else:
            size, texts = getattr(part, "width", 0), getattr(part, "texts", None)
            yield _Flat(part.kind, literal, part.values, size, texts=texts)
        literal = b""
    if literal:
        yield _Flat(Kind.NOTHING, literal)


def written(templates: Sequence[Template], shape: I32, row: I64) -> Iterator[memoryview]:
    """Yield rows, in order, in pieces of bounded size.

    Args:
        templates: the shapes that there are.
        shape: which of them each row has, of shape (n,).
        row: which row of that shape's table it is, of shape (n,).
    """
    shapes, row = (_Shape * len(templates))(), _contiguous(row)
    used = np.flatnonzero(np.bincount(shape, minlength=len(templates))).tolist()
    for index in used:
        templates[index].compute(row[shape == index])
    for index in used:
        templates[index].describe(shapes[index])
    done, size, filled = 0, PIECE_BYTES, ctypes.c_int64()
    while done < len(row):
        piece = np.empty(size, np.uint8)
        count = library().nvt_timeline_write(
            shapes,
            ctypes.c_int64(len(shapes)),
            ctypes.c_void_p(shape[done:].ctypes.data),
            ctypes.c_void_p(row[done:].ctypes.data),
            ctypes.c_int64(len(row) - done),
            ctypes.c_void_p(piece.ctypes.data),
            ctypes.c_int64(size),
            ctypes.byref(filled),
        )
        if count < 0:
            raise IndexError("a row that a column does not have")
        size = PIECE_BYTES if count else 2 * size
        done += count
        if count:
            yield piece.data[: filled.value]


def _contiguous(values: npt.NDArray[np.integer]) -> I64:
    return np.ascontiguousarray(values, np.int64)


class NestCheck:
    """What ``chrome_nesting.NestCheck`` is."""

    def __init__(self, groups: int) -> None:
        self.used: Bools = np.zeros(groups, np.bool_)
        self.failed: Bools = np.zeros(groups, np.bool_)
        self._ends = np.empty(groups * _DEEPEST, np.int64)
        self._anchor = np.full(groups, np.iinfo(np.int64).min)
        self._open = np.zeros(groups, np.int32)
        arrays = self._ends, self._anchor, self._open, self.used, self.failed
        self._nest = _Nest(groups, *(array.ctypes.data for array in arrays))

    def add(self, group: I64, start: I64, end: I64, anchors: Bools) -> None:
        """Check slices, as ``chrome_nesting.NestCheck.add`` does."""
        columns = *map(_contiguous, (group, start, end)), np.ascontiguousarray(anchors, np.bool_)
        found = library().nvt_timeline_nest(
            ctypes.byref(self._nest),
            *(ctypes.c_void_p(column.ctypes.data) for column in columns),
            ctypes.c_int64(len(group)),
        )
        if found < 0:
            raise IndexError("a group that does not exist")
