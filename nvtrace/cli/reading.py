"""The FILE arguments: reports, with standard input spooled to a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nvtrace.errors import NotAReport, UsageError

if TYPE_CHECKING:
    from nvtrace.trace import Trace

STDIN = "-"


@contextmanager
def loaded(
    paths: Sequence[str], progress: Callable[[str], None], *, details: bool = True
) -> Iterator[Trace]:
    """Load ``paths`` into one trace; ``-`` is standard input.

    Args:
        paths: files, folders, globs.
        progress: told what is being done.
        details: read what only the timeline needs, too.
    """
    with files_of(paths) as files:
        import nvtrace

        yield nvtrace.load(files, details=details, progress=progress)


@contextmanager
def files_of(paths: Sequence[str]) -> Iterator[list[str]]:
    """Put a file in the place of standard input, there as long as the block.

    The process is set up for reading them; numpy is to be imported in the block.
    """
    from nvtrace.cli.allocator import keep_freed_memory

    if paths.count(STDIN) > 1:
        raise UsageError("standard input (-) can be read once only")
    keep_freed_memory()
    # numpy starts a thread for each core, to compute what nvtrace does not: a fifth of its import
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with ExitStack() as stack:
        yield [stack.enter_context(_spooled()) if path == STDIN else path for path in paths]


@contextmanager
def _spooled() -> Iterator[str]:
    """Copy standard input to a file that is named by what it holds, for as long as it is read."""
    import shutil
    import tempfile

    if sys.stdin.isatty():
        raise UsageError("standard input (-) is the terminal; redirect a report to it")
    source = sys.stdin.buffer
    head = source.read(16)
    if not head:
        raise NotAReport("standard input is empty; redirect a report to it")
    suffix = ".sqlite" if head.startswith(b"SQLite format 3\0") else ".nsys-rep"
    with tempfile.TemporaryDirectory(prefix="nvtrace-") as folder:
        path = Path(folder, f"stdin{suffix}")
        with open(path, "wb") as file:
            file.write(head)
            shutil.copyfileobj(source, file)
        yield str(path)
