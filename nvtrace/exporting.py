"""Ready-made handlers for ``on_trace_ready``, and the way back in."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from nvtrace.errors import OutputError, UsageError
from nvtrace.trace import Trace

if TYPE_CHECKING:
    from nvtrace.profiler import Profiler


def export_chrome_tracing(
    dir_name: str | os.PathLike[str], worker_name: str | None = None
) -> Callable[[Profiler], None]:
    """Return a handler that writes each window's timeline into a folder.

    Args:
        dir_name: the folder, made if it is missing.
        worker_name: what file names begin with; the host's name by default.
    """
    return _handler(dir_name, worker_name, ".json.gz", "json")


def export_nsys(
    dir_name: str | os.PathLike[str], worker_name: str | None = None
) -> Callable[[Profiler], None]:
    """Return a handler that writes each window into a folder as a file that nsys reads.

    Args:
        dir_name: the folder, made if it is missing.
        worker_name: what file names begin with; the host's name by default.
    """
    return _handler(dir_name, worker_name, ".sqlite", "sqlite")


def export_protobuf(
    dir_name: str | os.PathLike[str], worker_name: str | None = None
) -> Callable[[Profiler], None]:
    """Stand for Paddle's function of this name: nvtrace writes no protobuf.

    Raises:
        UsageError: always; it says what to call instead.
    """
    raise UsageError(
        "nvtrace writes no protobuf: use export_nsys(dir_name), whose files nvtrace and nsys read"
    )


def load_profiler_result(filename: str | os.PathLike[str]) -> Trace:
    """Return the trace in a file that ``export_nsys`` or ``Profiler.export`` wrote."""
    from nvtrace.loading import load

    return load(filename)


def _handler(
    dir_name: str | os.PathLike[str], worker_name: str | None, extension: str, form: str
) -> Callable[[Profiler], None]:
    folder = _folder(dir_name)

    def handle(profiler: Profiler) -> None:
        profiler.export(_new_file(folder, profiler, worker_name, extension), form)

    return handle


def _folder(dir_name: str | os.PathLike[str]) -> Path:
    folder = Path(dir_name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot make this folder: {error.strerror}") from error
    return folder


def _new_file(folder: Path, profiler: Profiler, worker_name: str | None, suffix: str) -> Path:
    """Return host, rank, pid and cycle, and a number where an earlier run left such a file."""
    from nvtrace.capture import rank_of_process

    rank = rank_of_process()
    parts = [
        re.sub(r"[^\w.-]", "_", worker_name or socket.gethostname()),
        *([] if rank is None else [f"rank{rank}"]),
        f"pid{os.getpid()}",
        f"cycle{profiler.cycle}",
    ]
    stem = ".".join(parts)
    path = folder / (stem + suffix)
    for number in count(2):
        if not path.exists():
            break
        path = folder / f"{stem}.{number}{suffix}"
    return path
