"""Columns out of leaf pages, in numpy: what is unusual raises Unusual.

A row is a cell of a leaf page: varints for its size, its rowid and its header's size, one serial
type a column, then the values. Here the cells of a batch of pages are decoded together, column by
column. ``native/pages.c`` does the same faster, where it was built.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.sources.columns import Column, Interner, Kind, Rows, Wanted, formed
from nvtrace.sources.sqlite_pages import LEAF, PageFile, Unusual

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]

_BATCH_BYTES = 1 << 20  # more falls out of the processor's cache
_PADDING = 16


def read(
    file: PageFile, leaves: U32, wanted: Mapping[int, Wanted], tested: tuple[int, Rows] | None
) -> dict[int, Column]:
    """Return columns of a table.

    Args:
        file: the file.
        leaves: the table's leaf pages.
        wanted: place of a column in the table's declaration -> its form.
        tested: the place of the column that decides which rows are wanted, and which.

    Raises:
        Unusual: the table is not stored the plain way.
    """
    interners = {place: Interner() for place, one in wanted.items() if one.kind is Kind.TEXTS}
    decoders = {place: _decoder(one, interners.get(place)) for place, one in wanted.items()}
    parts: dict[int, list[npt.NDArray[Any]]] = {place: [] for place in wanted}
    places = {*wanted, *([] if tested is None else [tested[0]])}
    for batch in file.batches(leaves, _BATCH_BYTES):
        try:
            cells = _batch(file, batch, places)
            if tested is not None:
                kept = np.flatnonzero(tested[1].mask(cells[tested[0]].integers(-1)))
                cells = {place: column.take(kept) for place, column in cells.items()}
            for place, decode in decoders.items():
                parts[place].append(decode(cells[place]))
        except IndexError:
            raise Unusual("a row that points out of its pages") from None
    return {
        place: formed(one, np.concatenate(parts.pop(place)), interners.get(place))
        for place, one in wanted.items()
    }


def _decoder(wanted: Wanted, interner: Interner | None) -> Callable[[Cells], npt.NDArray[Any]]:
    if interner is not None:
        return partial(Cells.codes, interner=interner)
    if wanted.kind is Kind.REALS:
        return Cells.reals
    return partial(Cells.integers, default=wanted.missing)


# bytes of each fixed serial type, and by how far its first 8 bytes are to be shifted right
_LENGTH = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0], np.int64)
_SHIFT = np.array([0, 56, 48, 40, 32, 16, 0, 0, 0, 0, 0, 0], np.int64)


class Cells(NamedTuple):
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
            real = np.flatnonzero(serial == 7)
            values[real] = _cut(words[real].view(np.float64), default)
        return values

    def reals(self) -> npt.NDArray[np.float64]:
        """Return the values as float64, NaN for NULL.

        Raises:
            Unusual: there is text or a blob among them.
        """
        real = self.serial == 7
        values = self._replace(serial=np.where(real, 0, self.serial)).integers(0).astype(float)
        values[self.null] = np.nan
        found = _words(self.buffer, self.offset[real]).view(np.float64)
        values[real] = np.where(np.isnan(found), np.nan, found)
        return values

    def codes(self, interner: Interner) -> npt.NDArray[np.int32]:
        """Return the codes of the texts.

        Raises:
            Unusual: there is anything but text among them.
        """
        if self.null.all():
            return np.full(
                len(self.serial), interner.code(None) if len(self.serial) else 0, np.int32
            )
        return np.fromiter(map(interner.code, self.texts()), np.int32, len(self.serial))

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


def _batch(file: PageFile, leaves: U32, wanted: Collection[int]) -> dict[int, Cells]:
    size = file.page_size
    if int(leaves.min()) < 2 or int(leaves.max()) > file.pages:
        raise Unusual("a page that is not there")
    buffer = np.zeros(len(leaves) * size + _PADDING, np.uint8)
    pages = file.data[: file.pages * size].reshape(-1, size)
    buffer[:-_PADDING].reshape(-1, size)[:] = pages[leaves - 1]
    starts = np.arange(len(leaves)) * size
    if (buffer[starts] != LEAF).any():
        raise Unusual("a page of another kind")
    counts = (buffer[starts + 3].astype(np.int64) << 8) | buffer[starts + 4]
    total = int(counts.sum())
    page = np.repeat(starts, counts)
    place = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    pointer = page + 8 + 2 * place
    cell = page + ((buffer[pointer].astype(np.int64) << 8) | buffer[pointer + 1])
    payload, at = _varint(buffer, cell)
    if int(payload.max(initial=0)) > size - 35:
        raise Unusual("a row that goes on in overflow pages")
    begin = _skip_varint(buffer, at)
    end = begin + payload
    header, at = _varint(buffer, begin)
    if (end > page + size).any() or (header > payload).any():
        raise Unusual("a row that does not fit its page")
    return _decode(buffer, at, begin + header, end, wanted)


def _decode(
    buffer: U8, at: I64, values: I64, end: I64, wanted: Collection[int]
) -> dict[int, Cells]:
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
    if (at > values).any() or (value > end).any():
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


def _cut(reals: npt.NDArray[np.float64], default: int) -> I64:
    """Return reals cut to integers; NaN is NULL to SQLite, and becomes ``default``."""
    missing = np.isnan(reals)
    reals = np.where(missing, 0, reals)
    if ((reals < -(2.0**63)) | (reals >= 2.0**63)).any():
        raise Unusual("a real beyond the integers")
    return np.where(missing, default, reals.astype(np.int64))
