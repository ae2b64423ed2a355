"""The native part that hands memory to CUPTI and takes it back, called through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace import _native

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]

LIBRARY = _native.path("buffers")


@dataclass(frozen=True)
class Counts:
    """The account of the buffers, since ``begin``; times are Unix ns.

    Attributes:
        buffers: buffers that exist.
        held: of them, those that CUPTI holds.
        queued: of them, those that wait to be read, with ``queued_bytes`` of records.
        completed: buffers that CUPTI gave back with records.
        lost_buffers: full buffers that gave way to new ones, unread.
        lost_bytes: the records they held, in bytes.
        lost_records: the records they held.
        lost_from: when CUPTI asked for the first of them.
        lost_until: when CUPTI gave the last of them back.
        over_limit: buffers beyond the budget, because CUPTI held all within it.
        foreign: completions of memory that another client of CUPTI had handed out.
    """

    buffers: int
    held: int
    queued: int
    queued_bytes: int
    completed: int
    lost_buffers: int
    lost_bytes: int
    lost_records: int
    lost_from: int
    lost_until: int
    over_limit: int
    foreign: int

    @property
    def lost_span(self) -> tuple[int, int] | None:
        """Between which times the lost buffers were filled; None when none was lost."""
        return (self.lost_from, self.lost_until) if self.lost_buffers else None


class _Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in Counts.__dataclass_fields__]


class _Memory:
    """Bytes at an address, for numpy: ctypes would make a type of every length."""

    def __init__(self, address: int, length: int) -> None:
        interface = {"data": (address, True), "shape": (length,), "typestr": "|u1", "version": 3}
        self.__array_interface__ = interface


class Shim:
    """The buffers of this process. CUPTI knows one set of callbacks a process, so this is one too.

    Args:
        path: the library, by default the one that was built with nvtrace.

    Raises:
        OSError: it was not built, or cannot be loaded.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._library = library = ctypes.CDLL(str(path or LIBRARY))
        size, pointer = ctypes.c_size_t, ctypes.c_void_p
        library.nvt_limit.argtypes = [size, size]
        library.nvt_begin.argtypes = [pointer, ctypes.c_uint32]
        library.nvt_pop.argtypes = [ctypes.POINTER(size)]
        library.nvt_pop.restype = pointer
        library.nvt_recycle.argtypes = [pointer]
        library.nvt_counts.argtypes = [ctypes.POINTER(_Counts)]
        library.nvt_walk.argtypes = [pointer, size, pointer, ctypes.c_uint32]
        library.nvt_walk.argtypes += [pointer, pointer, size, ctypes.POINTER(size)]
        library.nvt_walk.restype = size
        self.requested = _address(library.nvt_requested)
        self.completed = _address(library.nvt_completed)

    def begin(self, sizes: U32, buffer_bytes: int, buffers: int) -> None:
        """Open a new account; what waits from before is thrown away, it belongs to nobody."""
        self.limit(buffer_bytes, buffers)
        length = ctypes.c_size_t()
        while memory := self._library.nvt_pop(ctypes.byref(length)):
            self._library.nvt_recycle(memory)
        self._library.nvt_begin(sizes.ctypes.data, len(sizes))

    def limit(self, buffer_bytes: int, buffers: int) -> None:
        """Set the size of new buffers and how many there may be."""
        self._library.nvt_limit(buffer_bytes, buffers)

    @contextmanager
    def _popped(self) -> Iterator[U8 | None]:
        length = ctypes.c_size_t()
        memory = self._library.nvt_pop(ctypes.byref(length))
        try:
            yield np.asarray(_Memory(memory, length.value)) if memory else None
        finally:
            if memory:
                self._library.nvt_recycle(memory)

    def drain(self) -> Generator[U8, None, None]:
        """Yield the records of each full buffer, oldest first; each is valid until the next."""
        while True:
            with self._popped() as records:
                if records is None:
                    return
                yield records

    def walk(self, records: U8, sizes: U32) -> tuple[U32, U32, int]:
        """Return where records begin and their kinds, and where reading stopped.

        Args:
            records: bytes of shape (n,), contiguous.
            sizes: record sizes by kind, 0 for kinds that cannot be read.

        Returns:
            Offsets and kinds, uint32 of shape (records,), and the end in bytes: n, or where a
            record of unknown size begins.
        """
        capacity = len(records) // int(min(sizes[sizes > 0], default=1))
        offsets, kinds = np.empty(capacity, np.uint32), np.empty(capacity, np.uint32)
        end = ctypes.c_size_t()
        count = self._library.nvt_walk(
            records.ctypes.data,
            len(records),
            sizes.ctypes.data,
            len(sizes),
            offsets.ctypes.data,
            kinds.ctypes.data,
            capacity,
            ctypes.byref(end),
        )
        return offsets[:count].copy(), kinds[:count].copy(), end.value

    def trim(self) -> None:
        """Give memory that nobody uses back to the system; what CUPTI holds stays."""
        self._library.nvt_trim()

    def counts(self) -> Counts:
        """Return the account."""
        counts = _Counts()
        self._library.nvt_counts(ctypes.byref(counts))
        return Counts(**{name: getattr(counts, name) for name in Counts.__dataclass_fields__})


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
