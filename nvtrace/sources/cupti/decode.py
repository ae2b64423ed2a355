"""Records of CUPTI's activity buffers as columns."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import factorize
from nvtrace.model.strings import Strings
from nvtrace.sources.cupti.layout import FIELDS, RecordKind

Columns = dict[str, npt.NDArray[Any]]
U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
Walk = Callable[[U8, U32], tuple[U32, U32, int]]

_WIDTHS = (1, 2, 4, 8)  # of fields; each lies at a multiple of its width
_NAMED = (RecordKind.KERNEL, RecordKind.CONCURRENT_KERNEL)


def walk(records: U8, sizes: U32) -> tuple[U32, U32, int]:
    """Return where records begin, their kinds, and where reading stopped, as ``Shim.walk`` does."""
    words = records[: len(records) // 4 * 4].view(np.uint32).tolist()
    table = sizes.tolist()
    offsets: list[int] = []
    kinds: list[int] = []
    position, length = 0, len(records)
    while position + 8 <= length:
        kind = words[position >> 2]
        size = table[kind] if kind < len(table) else 0
        if not size or position + size > length:
            break
        offsets.append(position)
        kinds.append(kind)
        position += size
    return np.array(offsets, np.uint32), np.array(kinds, np.uint32), position


def gather(records: U8, offsets: U32, kind: int) -> Columns:
    """Return the fields of the records of one kind, one array a field.

    Args:
        records: bytes that hold them, aligned to 8.
        offsets: where they begin, multiples of 8.
        kind: the RecordKind of them all.
    """
    whole = records[: len(records) // 8 * 8]
    rows = {width: offsets.astype(np.intp) // width for width in _WIDTHS}
    columns = {}
    for name, (offset, code) in FIELDS[kind].items():
        width = int(code[1])
        columns[name] = whole.view(code)[offset // width :].take(rows[width])
    return columns


class Decoder:
    """Collects the columns of many buffers.

    Args:
        sizes: record sizes by kind.
        walk: finds the records of a buffer.
        text: reads the name that a kernel record points to.

    Attributes:
        names: the kernel names met so far, mangled; ``name`` columns are rows of it.
        bytes: what the collected columns weigh.
        unread_bytes: bytes behind a record of unknown kind, which cannot be stepped over.
        unknown: how often which unknown kind was met.
    """

    def __init__(
        self,
        sizes: U32,
        walk: Walk = walk,
        text: Callable[[int], bytes | None] = ctypes.string_at,
    ) -> None:
        self._sizes = sizes
        self._walk = walk
        self._text = text
        self._parts: dict[int, list[Columns]] = {}
        self.names = Strings()
        self.bytes = 0
        self.unread_bytes = 0
        self.unknown: Counter[int] = Counter()

    def add(self, records: U8) -> None:
        """Copy the columns of one buffer's records."""
        offsets, kinds, end = self._walk(records, self._sizes)
        if len(records) - end >= 8:
            self.unread_bytes += len(records) - end
            self.unknown[int(records[end : end + 4].view(np.uint32)[0])] += 1
        for kind in np.flatnonzero(np.bincount(kinds)).tolist():
            if kind not in FIELDS:
                continue  # another client's kind: whole records, nothing of ours
            columns = gather(records, offsets[kinds == kind], kind)
            if kind in _NAMED:
                columns["name"] = self._names(columns["name"])
            self._parts.setdefault(kind, []).append(columns)
            self.bytes += sum(column.nbytes for column in columns.values())

    def columns(self, kind: int) -> Columns:
        """Return all fields of one kind, in the order in which they came."""
        parts = self._parts.get(kind, [])
        if not parts:
            empty = {name: np.empty(0, code) for name, (_, code) in FIELDS[kind].items()}
            return empty | {"name": np.empty(0, np.int32)} if kind in _NAMED else empty
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _names(self, pointers: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
        # Read now: the text lives in a module that may be unloaded, and its address reused, later.
        distinct, codes = factorize(pointers)
        texts = [self._text(pointer) if pointer else None for pointer in distinct.tolist()]
        rows = self.names.intern_all((text or b"").decode("utf-8", "replace") for text in texts)
        return rows[codes]
