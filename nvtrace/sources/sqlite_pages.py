"""An SQLite file as pages, and which of them hold the rows of a table.

SQLite's file format is public and frozen (https://www.sqlite.org/fileformat2.html). Whatever is
unusual, or damaged, raises Unusual, and the caller asks SQLite itself.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]

LEAF = 0x0D
_INTERIOR = 0x05


class Unusual(Exception):
    """The table is not stored the plain way; nothing is wrong with it."""


class PageFile:
    """One SQLite file, mapped.

    Attributes:
        data: its bytes, of shape (n,).
        page_size: bytes of a page.
        pages: how many pages there are; they count from 1.

    Raises:
        Unusual: it is not plain: a journal is pending, reserved bytes, another text encoding.
    """

    def __init__(self, path: Path) -> None:
        if any(path.with_name(path.name + end).exists() for end in ("-wal", "-journal")):
            raise Unusual("a journal is pending")
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.data: U8 = np.frombuffer(self._map, np.uint8)
        header = bytes(self.data[:100])
        size = int.from_bytes(header[16:18], "big")
        self.page_size = 65536 if size == 1 else size
        encoding = int.from_bytes(header[56:60], "big")
        if header[20] or encoding not in (0, 1) or self.page_size < 512:
            raise Unusual("reserved bytes or another text encoding")
        self.pages = len(self.data) // self.page_size

    def close(self) -> None:
        """Let go of the file."""
        del self.data
        self._map.close()

    def leaves(self, root: int) -> U32:
        """Return the pages that hold the rows of a table, in the order of its rowids.

        All leaves lie equally deep, so that one tells what its siblings are; who reads them looks
        at each.

        Args:
            root: number of the table's root page.

        Raises:
            Unusual: the table is not stored the plain way.
        """
        found: list[U32] = []
        waiting = [np.array([root], np.uint32)]
        seen = 0
        while waiting:
            siblings = waiting.pop()
            seen += len(siblings)
            if int(siblings.min()) < 2 or int(siblings.max()) > self.pages or seen > self.pages:
                raise Unusual("a page that is not there")
            if self._kind(siblings[0]) == LEAF:
                found.append(siblings)
            else:
                waiting += [self._children(page) for page in siblings[::-1].tolist()]
        return np.concatenate(found)

    def _kind(self, page: int) -> int:
        return int(self.data[(int(page) - 1) * self.page_size])

    def _children(self, number: int) -> U32:
        if self._kind(number) != _INTERIOR:
            raise Unusual("a page of another kind")
        page = self.data[(number - 1) * self.page_size : number * self.page_size]
        cells = int(page[3:5].view(">u2")[0])
        pointers = page[12 : 12 + 2 * cells].view(">u2").astype(np.int64)
        if len(pointers) != cells or int(pointers.max(initial=0)) + 4 > self.page_size:
            raise Unusual("a pointer out of its page")
        children = np.empty(cells + 1, np.uint32)
        children[:-1] = page[pointers[:, None] + np.arange(4)].view(">u4")[:, 0]
        children[-1] = page[8:12].view(">u4")[0]
        return children

    def batches(self, leaves: U32, size: int) -> Iterator[U32]:
        """Split pages into batches of ``size`` bytes, and drop from memory what was read."""
        step = max(size // self.page_size, 1)
        for first in range(0, len(leaves), step):
            batch = leaves[first : first + step]
            yield batch
            self._drop(batch)

    def _drop(self, pages: U32) -> None:
        """Give mapped pages back to the system, which counts them as the process's otherwise."""
        if hasattr(self._map, "madvise") and hasattr(mmap, "MADV_DONTNEED"):
            first = (int(pages.min()) - 1) * self.page_size // mmap.PAGESIZE * mmap.PAGESIZE
            self._map.madvise(mmap.MADV_DONTNEED, first, int(pages.max()) * self.page_size - first)
