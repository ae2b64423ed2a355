"""Where a timeline goes: a file that appears when whole, gzipped by its name, or an open file."""

from __future__ import annotations

import os
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

_GZIP_BITS = 31
_PIECES_AHEAD = 4
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
    """Compresses in a second thread, if there is one: zlib lets go of Python's lock meanwhile."""

    def __init__(self, file: BinaryIO, pool: ThreadPoolExecutor | None) -> None:
        super().__init__(file)
        self._pool = pool
        self._compressor = _fastest_zlib().compressobj(level=1, wbits=_GZIP_BITS)
        self._pending: deque[Future[None]] = deque()

    def write(self, piece: Bytes) -> None:
        if self._pool is None:
            self._compress(piece)
            return
        try:
            self._pending.append(self._pool.submit(self._compress, piece))
        except RuntimeError:
            # the interpreter is ending and starts no threads; then none is running either
            self._compress(piece)
        while len(self._pending) > _PIECES_AHEAD:
            self._pending.popleft().result()

    def finish(self) -> None:
        """Write what is held back."""
        while self._pending:
            self._pending.popleft().result()
        super().write(self._compressor.flush())

    def _compress(self, piece: Bytes) -> None:
        super().write(self._compressor.compress(piece))


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
            pool = _pool()
            output = _Gzipped(file, pool and stack.enter_context(pool))
            yield output
            output.finish()
    else:
        with atomic_output(path) as file:
            yield Output(file)


def _pool() -> ThreadPoolExecutor | None:
    """Return a pool of one thread, None while the interpreter ends: it cannot even be imported."""
    try:
        from concurrent.futures import ThreadPoolExecutor
    except RuntimeError:
        return None
    return ThreadPoolExecutor(1)


def _fastest_zlib() -> Any:
    """Return isal's zlib, four times as fast at the same size, where it is installed."""
    try:
        return import_module("isal.isal_zlib")
    except ImportError:
        return zlib
