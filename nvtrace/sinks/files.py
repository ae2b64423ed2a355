"""Output files that are whole or absent: written under a temporary name, renamed at the end."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from nvtrace.errors import OutputError

STDOUT = "-"

_ADVICE = {
    errno.ENOENT: "create the folder first",
    errno.ENOTDIR: "a part of the path is a file; name another folder",
    errno.EISDIR: "name a file",
    errno.EACCES: "choose a folder you may write to",
    errno.EPERM: "choose a folder you may write to",
    errno.EROFS: "choose a folder you may write to",
    errno.ENOSPC: "free some space or choose another folder",
    errno.EDQUOT: "free some space or choose another folder",
    errno.ENAMETOOLONG: "choose a shorter name",
}


@contextmanager
def atomic_output(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open ``path`` for binary writing so that a partial file never bears its name.

    The file appears, or replaces the one there, when the block ends without an exception;
    otherwise nothing changes and the temporary file is removed. ``"-"`` is standard output;
    devices and pipes, which cannot be renamed over, are written directly.

    Args:
        path: where to write. A symbolic link is followed, and stays a link.

    Yields:
        A buffered binary file.

    Raises:
        OutputError: the file cannot be created, written or renamed.
    """
    name = os.fspath(path)
    if name == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        target = os.path.realpath(name)
        mode = _mode(target)
        if mode is None or stat.S_ISREG(mode):
            with _renamed(target, mode) as file:
                yield file
        else:
            with open(target, "wb") as file:
                yield file
    except OSError as error:
        raise OutputError(_describe(name, error)) from error


def write(text: str, path: str | os.PathLike[str]) -> None:
    """Write ``text`` to ``path`` as UTF-8, whole or not at all.

    Raises:
        OutputError: the file cannot be written.
    """
    with atomic_output(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


@contextmanager
def _renamed(target: str, mode: int | None) -> Iterator[BinaryIO]:
    folder, name = os.path.split(target)
    # Cut short: the temporary name must fit where the final one does.
    temporary = os.path.join(folder, f".{name[:40]}.{os.urandom(4).hex()}.part")
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    try:
        with open(temporary, "xb") as file:
            if mode is not None:
                os.chmod(temporary, stat.S_IMODE(mode))
            yield file
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _mode(path: str) -> int | None:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _describe(name: str, error: OSError) -> str:
    reason = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
    advice = _ADVICE.get(error.errno or 0, "choose another file")
    return f"cannot write {name}: {reason}; {advice}"
