"""Where ``nvtrace run`` writes: never a half file, never over what another process wrote."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import click

from nvtrace.cli.output import check_free
from nvtrace.errors import OutputError

DATABASES = (".sqlite", ".sqlite3", ".db")
TIMELINES = (".json", ".json.gz", ".pftrace", ".pftrace.gz")

_SIZES = (
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "SLURM_NTASKS",
    "PADDLE_TRAINERS_NUM",
)


class Destination:
    """The file to write.

    A file is written under a name that no other process has (host, rank, process id), and then
    renamed to the one that was asked for, unless that was taken in the meantime.

    Args:
        output: what the user asked for, None for a name of our own in the current folder.
        program: the name of the program.
        force: replace a file that is there when the run starts.

    Raises:
        click.UsageError: the name tells no format.
        OutputError: the file exists, or its folder does not.
    """

    def __init__(self, output: str | None, program: str, force: bool) -> None:
        self.force = force
        self.suffix = DATABASES[0] if output is None else _suffix(output)
        rank = _rank()
        whose = [_plain(socket.gethostname()), *([] if rank is None else [f"rank{rank}"])]
        self._wanted: Path | None = None
        if output is None:
            stem = Path(_plain(program))
        else:
            stem = Path(output.removesuffix(self.suffix))
            # ranks that one launcher starts have one command line
            several = rank is not None and f"rank{rank}" not in stem.name and _ranks() > 1
            self._wanted = Path(f"{stem}.rank{rank}{self.suffix}" if several else output)
            check_free(str(self._wanted), force)
        self.own = _unused(".".join([str(stem), *whose, str(os.getpid())]), self.suffix)
        if not self.own.parent.is_dir():
            raise OutputError(f"{self.own.parent}: no such folder; create it first")
        self._replaced = _identity(self._wanted) if force and self._wanted else None

    @property
    def is_timeline(self) -> bool:
        """Whether the file is a timeline."""
        return self.suffix in TIMELINES

    def publish(self) -> Path:
        """Give what was written as ``own`` its final name, and return that."""
        source = self.own
        if self._wanted is None:
            return source
        if self._replaced is not None and _identity(self._wanted) == self._replaced:
            os.replace(source, self._wanted)
            return self._wanted
        try:
            os.link(source, self._wanted)
        except FileExistsError:
            return source
        except OSError:  # a file system without links
            if self._wanted.exists():
                return source
            os.rename(source, self._wanted)
        else:
            os.unlink(source)
        return self._wanted


def _suffix(output: str) -> str:
    for suffix in (*DATABASES, *reversed(TIMELINES)):
        if output.endswith(suffix) and Path(output).name != suffix:
            return suffix
    known = ", ".join((DATABASES[0], *TIMELINES))
    raise click.UsageError(f"the name {output} tells no format: end it with one of {known}")


def _rank() -> int | None:
    from nvtrace.capture import rank_of_process

    return rank_of_process()


def _ranks() -> int:
    return max((int(os.environ[name]) for name in _SIZES if os.environ.get(name, "").isdigit()),
               default=1)  # fmt: skip


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name) or "program"


def _unused(stem: str, suffix: str) -> Path:
    """Return a name that is free; process ids come round."""
    path, number = Path(f"{stem}{suffix}"), 1
    while path.exists():
        number += 1
        path = Path(f"{stem}-{number}{suffix}")
    return path


def _identity(path: Path | None) -> tuple[int, int, int] | None:
    if path is None or not path.exists():
        return None
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_mtime_ns
