"""Where a timeline goes: a file that appears when whole, gzipped by its name, or an open file."""

from __future__ import annotations

import os
import struct
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO

from nvtrace.sinks.files import atomic_output

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Bytes = bytes | memoryview

_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # deflate, no name, no time
_NO_MORE = b"\x03\x00"  # a last block with nothing in it
_WINDOW = 32 << 10  # how far back deflate looks
_MOST_THREADS = 4
# Linux keeps larger writes in larger blocks of memory, and to find those may cost it far more.
_BYTES_AT_ONCE = 512 << 10


class Output:
    """Takes pieces of bytes, and counts what reaches the file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.bytes = 0

    def write(self, piece: Bytes) -> None:
        """Write ``piece``."""
        piece = memoryview(piece)
        for first in range(0, len(piece), _BYTES_AT_ONCE):
            self._file.write(piece[first : first + _BYTES_AT_ONCE])
        self.bytes += len(piece)


class _Gzipped(Output):
    """Compresses pieces beside one another, in threads if there are any.

    zlib lets go of Python's lock meanwhile. What comes out is one stream: each piece ends where a
    byte does, and knows what came before it as a dictionary, the way pigz does it.
    """

    def __init__(self, file: BinaryIO, pool: ThreadPoolExecutor | None, threads: int) -> None:
        super().__init__(file)
        self._pool, self._ahead = pool, 2 * threads
        self._zlib = _fastest_zlib()
        self._pending: deque[Future[bytes]] = deque()
        self._before: Bytes = b""
        self._sum = self._size = 0
        super().write(_GZIP_HEADER)

    def write(self, piece: Bytes) -> None:
        piece = memoryview(piece)
        self._sum = self._zlib.crc32(piece, self._sum)
        self._size += len(piece)
        before, self._before = self._before, bytes(piece[-_WINDOW:])
        if self._submitted(piece, before):
            self._write_but(self._ahead)
        else:
            self._write_but(0)
            super().write(self._compressed(piece, before))

    def finish(self) -> None:
        """Write what is held back, and the end of the stream."""
        self._write_but(0)
        super().write(_NO_MORE + struct.pack("<II", self._sum, self._size & 0xFFFFFFFF))

    def _submitted(self, piece: Bytes, before: Bytes) -> bool:
        """Have a thread compress a piece, and return whether there is one."""
        if self._pool is None:
            return False
        try:
            self._pending.append(self._pool.submit(self._compressed, piece, before))
        except RuntimeError:  # the interpreter is ending, and starts none
            return False
        return True

    def _write_but(self, most: int) -> None:
        """Write what was compressed, and wait for it while more than ``most`` pieces are held."""
        while len(self._pending) > most:
            super().write(self._pending.popleft().result())

    def _compressed(self, piece: Bytes, before: Bytes) -> bytes:
        compressor = self._zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=before)
        ends: bytes = compressor.compress(piece) + compressor.flush(zlib.Z_SYNC_FLUSH)
        return ends


@contextmanager
def opened(path: str | os.PathLike[str] | BinaryIO) -> Iterator[Output]:
    """Open where a timeline goes.

    Raises:
        OutputError: the file cannot be written; nothing is left under its name.
    """
    if not isinstance(path, str | os.PathLike):
        yield Output(path)
    elif os.fspath(path).endswith(".gz"):
        with atomic_output(path) as file, ExitStack() as stack:
            threads = min(_cores(), _MOST_THREADS)
            pool = _pool(threads)
            output = _Gzipped(file, pool and stack.enter_context(pool), threads)
            yield output
            output.finish()
    else:
        with atomic_output(path) as file:
            yield Output(file)


def _pool(threads: int) -> ThreadPoolExecutor | None:
    """Return a pool of threads, None while the interpreter ends: it cannot even be imported."""
    try:
        from concurrent.futures import ThreadPoolExecutor
    except RuntimeError:
        return None
    return ThreadPoolExecutor(threads)


def _cores() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _fastest_zlib() -> Any:
    """Return isal's zlib, four times as fast at the same size, where it is installed."""
    try:
        return import_module("isal.isal_zlib")
    except ImportError:
        return zlib
