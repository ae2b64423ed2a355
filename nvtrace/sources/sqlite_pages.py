"""Reads whole integer columns straight from the leaf pages of an SQLite table, in numpy.

SQLite's file format is public and frozen (https://www.sqlite.org/fileformat2.html). A row is a
cell of a leaf page: varints for its size, its rowid and its header's size, one serial type a
column, then the values. Here the cells of a batch of pages are decoded together, column by column.
Whatever is unusual, or damaged, raises Unusual, and the caller asks SQLite itself.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

_INTERIOR, _LEAF = 0x05, 0x0D
# about 1 MB: more falls out of the processor's cache
_PAGES_AT_ONCE = 256
_PADDING = 16


class Unusual(Exception):
    """The table is not stored the plain way; nothing is wrong with it."""


@dataclass(frozen=True)
class Cells:
    """A stretch of one column: what its values are and where their bytes lie.

    Attributes:
        buffer: bytes, with padding behind.
        serial: serial type of each value.
        offset: where each value begins in ``buffer``.
    """

    buffer: U8
    serial: I64
    offset: I64

    @property
    def null(self) -> npt.NDArray[np.bool_]:
        """Which values are NULL."""
        missing: npt.NDArray[np.bool_] = self.serial == 0
        return missing

    def take(self, rows: I64) -> Cells:
        """Return the chosen values."""
        return Cells(self.buffer, self.serial[rows], self.offset[rows])

    def integers(self, default: int) -> I64:
        """Return the values, ``default`` for NULL; reals are cut to integers.

        Raises:
            Unusual: there is text or a blob among them.
        """
        serial = self.serial
        highest = int(serial.max(initial=0))
        if highest == 0:
            return np.full(len(serial), default, np.int64)
        if highest >= 10:
            raise Unusual("text in a column of numbers")
        words = _words(self.buffer, self.offset)
        values: I64 = words >> _SHIFT[serial]
        constant = serial >= 7
        if constant.any() or (serial == 0).any():
            values = np.where(serial == 0, default, np.where(serial == 8, 0, values))
            values = np.where(serial == 9, 1, values)
            real = serial == 7
            if real.any():
                with np.errstate(invalid="ignore"):
                    values[real] = words[real].view(np.float64).astype(np.int64)
        return values

    def reals(self) -> npt.NDArray[np.float64]:
        """Return the values as float64, 0 for NULL.

        Raises:
            Unusual: there is text or a blob among them.
        """
        real = self.serial == 7
        values = replace(self, serial=np.where(real, 0, self.serial)).integers(0).astype(float)
        values[real] = _words(self.buffer, self.offset[real]).view(np.float64)
        return values

    def texts(self) -> Iterator[bytes | None]:
        """Return the values as bytes, None for NULL.

        Raises:
            Unusual: there is anything but text among them.
        """
        serial = self.serial
        if ((serial != 0) & ((serial < 13) | (serial % 2 == 0))).any():
            raise Unusual("numbers or blobs in a column of text")
        data = self.buffer.tobytes()
        ends = self.offset + (serial - 13) // 2
        for missing, start, end in zip(
            (serial == 0).tolist(), self.offset.tolist(), ends.tolist(), strict=True
        ):
            yield None if missing else data[start:end]


# bytes of each fixed serial type, and by how far its first 8 bytes are to be shifted right
_LENGTH = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0], np.int64)
_SHIFT = np.array([0, 56, 48, 40, 32, 16, 0, 0, 0, 0, 0, 0], np.int64)


class PageReader:
    """One SQLite file as pages.

    Raises:
        Unusual: it is not plain: a journal is pending, reserved bytes, another text encoding.
    """

    def __init__(self, path: Path) -> None:
        if any(path.with_name(path.name + end).exists() for end in ("-wal", "-journal")):
            raise Unusual("a journal is pending")
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._data = np.frombuffer(self._map, np.uint8)
        header = bytes(self._data[:100])
        size = int.from_bytes(header[16:18], "big")
        self._page_size = 65536 if size == 1 else size
        encoding = int.from_bytes(header[56:60], "big")
        if header[20] or encoding not in (0, 1) or self._page_size < 512:
            raise Unusual("reserved bytes or another text encoding")
        self._pages = len(self._data) // self._page_size
        if hasattr(self._map, "madvise") and hasattr(mmap, "MADV_SEQUENTIAL"):
            self._map.madvise(mmap.MADV_SEQUENTIAL)

    def close(self) -> None:
        """Let go of the file."""
        del self._data
        self._map.close()

    def columns(self, root: int, wanted: Sequence[int]) -> Iterator[dict[int, Cells]]:
        """Read the chosen columns of a table, in the order of its rowids.

        Args:
            root: number of the table's root page.
            wanted: places of columns in the table's declaration.

        Returns:
            One dict a batch of pages: place of the column -> its cells.

        Raises:
            Unusual: the table is not stored the plain way.
        """
        leaves = np.array(self._leaves(root), np.int64)
        for first in range(0, len(leaves), _PAGES_AT_ONCE):
            try:
                yield self._batch(leaves[first : first + _PAGES_AT_ONCE], wanted)
            except IndexError:
                raise Unusual("a row that points out of its pages") from None

    def _leaves(self, root: int) -> list[int]:
        found: list[int] = []
        waiting = [root]
        seen = 0
        while waiting:
            page = waiting.pop()
            seen += 1
            if not 1 < page <= self._pages or seen > self._pages:
                raise Unusual("a page that is not there")
            start = (page - 1) * self._page_size
            kind = int(self._data[start])
            if kind == _LEAF:
                found.append(page)
            elif kind == _INTERIOR:
                waiting += reversed(self._children(start))
            else:
                raise Unusual("a page of another kind")
        return found

    def _children(self, start: int) -> list[int]:
        page = self._data[start : start + self._page_size]
        cells = int(page[3:5].view(">u2")[0])
        pointers = page[12 : 12 + 2 * cells].view(">u2").astype(np.int64)
        if cells and int(pointers.max()) + 4 > self._page_size:
            raise Unusual("a pointer out of its page")
        children = page[pointers[:, None] + np.arange(4)].copy().view(">u4")[:, 0]
        return [*children.tolist(), int(page[8:12].view(">u4")[0])]

    def _batch(self, leaves: I64, wanted: Sequence[int]) -> dict[int, Cells]:
        buffer = np.zeros(len(leaves) * self._page_size + _PADDING, np.uint8)
        pages = self._data[: self._pages * self._page_size].reshape(-1, self._page_size)
        buffer[:-_PADDING].reshape(-1, self._page_size)[:] = pages[leaves - 1]
        starts = np.arange(len(leaves)) * self._page_size
        counts = (buffer[starts + 3].astype(np.int64) << 8) | buffer[starts + 4]
        total = int(counts.sum())
        page = np.repeat(starts, counts)
        place = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        pointer = page + 8 + 2 * place
        cell = page + ((buffer[pointer].astype(np.int64) << 8) | buffer[pointer + 1])
        payload, at = _varint(buffer, cell)
        if int(payload.max(initial=0)) > self._page_size - 35:
            raise Unusual("a row that goes on in overflow pages")
        begin = _skip_varint(buffer, at)
        end = begin + payload
        header, at = _varint(buffer, begin)
        if (end > page + self._page_size).any() or (header > payload).any():
            raise Unusual("a row that does not fit its page")
        return _decode(buffer, at, begin + header, end, wanted)


def _decode(buffer: U8, at: I64, values: I64, end: I64, wanted: Sequence[int]) -> dict[int, Cells]:
    """Walk the serial types of all rows of a batch, one column after the other.

    Args:
        buffer: the pages.
        at: where each row's serial types begin.
        values: where they end and each row's values begin.
        end: where each row ends.
        wanted: places of columns.
    """
    value = values
    found: dict[int, Cells] = {}
    for column in range(max(wanted) + 1):
        if (at >= values).any():
            raise Unusual("rows older than a column that was added")
        serial = buffer[at].astype(np.int64)
        if int(serial.max(initial=0)) >= 0x80:
            serial, at = _varint(buffer, at)
            long = serial >= 12
            length = np.where(long, (serial - 12) // 2, _LENGTH[np.minimum(serial, 11)])
        else:
            at = at + 1
            length = _SHORT_LENGTH[serial]
        if column in wanted:
            found[column] = Cells(buffer, serial, value)
        value = value + length
    if (value > end).any():
        raise Unusual("values longer than their row")
    return found


_SHORT_LENGTH = np.concatenate([_LENGTH, (np.arange(12, 128) - 12) // 2])


def _varint(buffer: U8, at: I64) -> tuple[I64, I64]:
    """Return varints of up to three bytes, and where they end.

    Raises:
        Unusual: one is longer.
    """
    value = buffer[at].astype(np.int64)
    more = np.flatnonzero(value >= 0x80)
    after = at + 1
    if len(more):
        value[more] &= 0x7F
        for _ in range(2):
            byte = buffer[after[more]].astype(np.int64)
            after[more] += 1
            value[more] = (value[more] << 7) | (byte & 0x7F)
            more = more[byte >= 0x80]
            if not len(more):
                return value, after
        raise Unusual("a row longer than two megabytes")
    return value, after


def _skip_varint(buffer: U8, at: I64) -> I64:
    """Return where varints of any length end."""
    after = at + 1
    more = np.flatnonzero(buffer[at] >= 0x80)
    for _ in range(8):
        if not len(more):
            break
        byte = buffer[after[more]]
        after[more] += 1
        more = more[byte >= 0x80]
    return after


def _words(buffer: U8, offset: I64) -> npt.NDArray[np.int64]:
    """Return the eight bytes at each offset as big-endian signed integers."""
    everywhere = np.ndarray((len(buffer) - 7,), ">i8", buffer=buffer.data, strides=(1,))
    words: Any = everywhere[offset]
    return words.astype(np.int64)  # type: ignore[no-any-return]
