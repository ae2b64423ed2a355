"""SQLite exports of ``.nsys-rep`` and ``.qdrep`` reports, made by Nsight Systems' own nsys."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from threading import Timer
from typing import NoReturn

from nvtrace.errors import CorruptReport, OutputError, SourceError, ToolNotFound
from nvtrace.sources import STREAM_SUFFIX
from nvtrace.sources.nsys_install import (
    ENV_NSYS,
    Nsys,
    Version,
    find_all,
    first_version,
    version_text,
)

EXPORT_TIMEOUT_S = 3600.0

Progress = Callable[[str], None]

_PERCENT = re.compile(rb"\[[= ]*(\d+)% *\]")
_BAR = re.compile(rb"[^\r\n]*?\[[= ]*\d+% *\]")
_DAMAGED = re.compile("magic number|read from stream|version tag|version prefix|section", re.I)
_DISK_FULL = re.compile("disk is full|no space left|file too large|disk I/O error", re.I)
_SIGXFSZ = 25  # the file size limit


def export(
    report: Path, *, progress: Progress | None = None, timeout_s: float = EXPORT_TIMEOUT_S
) -> Path:
    """Return a SQLite export of ``report``, made by nsys unless a current one exists.

    It is written beside the report as ``NAME.sqlite``, or under the user's cache folder where the
    folder cannot be written or a file of that name is no export of nsys. It appears under its name
    only when it is whole.

    Args:
        report: a ``.nsys-rep`` or ``.qdrep`` file.
        progress: called with a line of text while nsys works.
        timeout_s: seconds after which nsys is stopped.

    Raises:
        ToolNotFound: there is no nsys, or none new enough for the report.
        CorruptReport: the report is damaged, incomplete or a raw stream.
        SourceError: nsys failed otherwise.
        OutputError: there was no room to write the export.
    """
    if report.suffix == STREAM_SUFFIX:
        raise CorruptReport(_stream_message(report))
    if report.stat().st_size == 0:
        raise CorruptReport(f"{report}: empty file; the recording did not finish, record it again")
    for place in (_beside(report), _cached(report)):
        if _is_current(place, report):
            return place
    nsys = _choose(report)
    target = _target(report)
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".nvtrace-", dir=target.parent) as folder:
            scratch = Path(folder, target.name)
            _run(nsys, report, scratch, progress, timeout_s)
            os.replace(scratch, target)
    except OSError as error:
        raise OutputError(f"{target}: cannot write the SQLite export: {error.strerror}") from error
    return target


def report_version(report: Path) -> Version | None:
    """Return the version of the nsys that recorded ``report``, from its first bytes."""
    with open(report, "rb") as file:
        head = file.read(256)
    known = head.startswith((b"NVIDIA ", b"U3w[END]NVIDIA "))
    return first_version(head.decode("latin-1")) if known else None


def _choose(report: Path) -> Nsys:
    """Return the first nsys that can open ``report``: nsys opens older reports, not newer ones."""
    needed = report_version(report)
    found = find_all()
    for nsys in found:
        if needed is None or nsys.version >= needed:
            return nsys
    raise _too_old(report, needed, found)


def _too_old(report: Path, needed: Version | None, found: list[Nsys]) -> ToolNotFound:
    wanted = f"nsys {version_text(needed)} or newer" if needed else "an nsys"
    newest = max(found, key=lambda nsys: nsys.version, default=None)
    have = f"the newest here is {newest}" if newest else "there is none here"
    return ToolNotFound(
        f"{report}: needs {wanted}, {have}; install Nsight Systems, set {ENV_NSYS} to its nsys, "
        f"or run `nsys export --type sqlite {report.name}` where it was recorded and read "
        f"{report.stem}.sqlite"
    )


def _stream_message(report: Path) -> str:
    version = report_version(report)
    which = f"Nsight Systems {version_text(version)}" if version else "the version that recorded it"
    importers = [nsys.importer for nsys in find_all() if nsys.version == version]
    program = next((str(path) for path in importers if path), "QdstrmImporter")
    return (
        f"{report}: a raw stream, not yet imported; run `{program} -i {report.name}` of {which} "
        f"and read the {report.stem}.nsys-rep that it makes"
    )


def _beside(report: Path) -> Path:
    return report.with_suffix(".sqlite")


def _cached(report: Path) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    key = hashlib.sha256(os.fsencode(report.resolve())).hexdigest()[:12]
    return Path(base, "nvtrace", "exports", key, f"{report.stem}.sqlite")


def _target(report: Path) -> Path:
    beside = _beside(report)
    if _is_ours(beside):
        with suppress(OSError), tempfile.TemporaryDirectory(prefix=".nvtrace-", dir=beside.parent):
            return beside
    return _cached(report)


def _is_ours(target: Path) -> bool:
    """Whether ``target`` is free, or holds an export that is stale or was interrupted."""
    if not target.exists():
        return True
    if not target.is_file():
        return False
    with open(target, "rb") as file:
        interrupted = not file.read(100).strip(b"\0")
    tables = _tables(target)
    return interrupted or ("StringIds" in tables and not _is_partial(target, tables))


def _is_current(export: Path, report: Path) -> bool:
    """Whether ``export`` is a whole export of all tables, made after ``report`` was written."""
    if not export.is_file() or export.stat().st_mtime_ns < report.stat().st_mtime_ns:
        return False
    tables = _tables(export) if _is_whole(export) else set()
    return "StringIds" in tables and not _is_partial(export, tables)


def _is_whole(export: Path) -> bool:
    """Whether all pages are there: nsys writes the first one last, zero until then."""
    with open(export, "rb") as file:
        head = file.read(100)
    if len(head) < 100 or not head.startswith(b"SQLite format 3\0"):
        return False
    page = int.from_bytes(head[16:18], "big")
    pages = int.from_bytes(head[28:32], "big")
    return export.stat().st_size >= (65536 if page == 1 else page) * pages


def _is_partial(export: Path, tables: set[str]) -> bool:
    """Whether someone exported only some tables or times."""
    names = ("EXPORT_PARAM_TABLES_TO_EXPORT", "EXPORT_PARAM_TIMES_TO_EXPORT")
    for table in tables & {"EXPORT_META_DATA", "META_DATA_EXPORT"}:
        query = f"SELECT 1 FROM {table} WHERE name IN (?, ?) AND value != ''"
        if _rows(export, query, names):
            return True
    return False


def _tables(export: Path) -> set[str]:
    return {str(row[0]) for row in _rows(export, "SELECT name FROM sqlite_master")}


def _rows(export: Path, query: str, values: tuple[str, ...] = ()) -> list[tuple[object, ...]]:
    """Return the rows of ``query``, none where the file is no readable database."""
    uri = f"{export.resolve().as_uri()}?mode=ro"
    with suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True)) as db:
        return db.execute(query, values).fetchall()
    return []


def _run(
    nsys: Nsys, report: Path, scratch: Path, progress: Progress | None, timeout_s: float
) -> None:
    arguments = ["export", "--type", "sqlite", "--output", str(scratch), os.path.abspath(report)]
    expired: list[bool] = []
    process = subprocess.Popen(
        [str(nsys.path), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )

    def expire() -> None:
        expired.append(True)
        process.kill()

    timer = Timer(timeout_s, expire)
    timer.start()
    try:
        said = _listen(process, report.name, progress)
        status = process.wait()
    finally:
        timer.cancel()
        process.kill()
        process.wait()
    if expired:
        raise SourceError(f"{report}: {nsys} did not finish the export within {timeout_s:g} s")
    if status or not (scratch.exists() and _is_whole(scratch)):
        _fail(nsys, report, scratch.parent.parent, said, status)


def _listen(process: subprocess.Popen[bytes], name: str, progress: Progress | None) -> list[str]:
    """Pass on each percentage that nsys prints, as it comes; return the lines that are none."""
    assert process.stdout is not None
    tail, last = b"", b""
    with process.stdout as stream:
        while chunk := os.read(stream.fileno(), 4096):
            tail = (tail + chunk)[-65536:]
            found = _PERCENT.findall(tail)
            if progress and found and found[-1] != last:
                last = found[-1]
                progress(f"nsys export {name}: {int(last)} %")
    lines = _BAR.sub(b"\n", tail).decode("utf-8", "replace").splitlines()
    return [line.strip() for line in lines if line.strip()]


def _fail(nsys: Nsys, report: Path, folder: Path, said: list[str], status: int) -> NoReturn:
    text = " ".join(said)
    if "newer than your current version" in text:
        raise _too_old(report, first_version(text), [nsys])
    last = said[-1] if said else f"exit status {status}"
    reason = next((line for line in reversed(said) if "error:" in line.lower()), last)
    reason = re.sub(r"^.*?error:\s*", "", reason, flags=re.I).strip()
    if _DISK_FULL.search(text) or status == -_SIGXFSZ:
        raise OutputError(
            f"{folder}: no room for the SQLite export of {report.name} ({reason}); "
            "free some space, or move the report"
        )
    if _DAMAGED.search(reason):
        raise CorruptReport(f"{report}: damaged, or not a report ({nsys} says: {reason})")
    raise SourceError(f"{report}: cannot be exported ({nsys} says: {reason})")
