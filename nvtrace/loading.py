"""Finds the reports that a user's paths mean and reads them into one Trace."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from nvtrace.analysis.module_backward import with_backward_modules
from nvtrace.errors import NotAReport, SourceError
from nvtrace.model.merging import merge
from nvtrace.model.trace import TraceData
from nvtrace.sources import REPORT_SUFFIXES, STREAM_SUFFIX, nsys_sqlite
from nvtrace.trace import Trace

Progress = Callable[[str], None]
PathLike = str | os.PathLike[str]

_EXPORTED = (".sqlite", ".sqlite3", ".db")


def load(
    path: PathLike | Sequence[PathLike],
    *,
    details: bool = True,
    progress: Progress | None = None,
) -> Trace:
    """Return the trace in one report or several.

    Args:
        path: a SQLite export of Nsight Systems, or a ``.nsys-rep`` or ``.qdrep`` report (exported
            by nsys, which must be installed); a folder or a glob of them; or several of all these.
            Several files become one trace, on one clock where they say when they began.
        details: also read what only timelines show, such as launch shapes of kernels, and put the
            rows of several files in the order of time.
        progress: called with a line of text while long work goes on.

    Raises:
        SourceError: a path is nothing that can be read; the message says what it is.
        ToolNotFound: a report needs nsys, and there is none or none new enough.
    """
    given = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not given:
        raise NotAReport("no file given; name a report")
    named: dict[str, Path] = {}
    for one in given:
        for file in _files(one):
            named.setdefault(os.path.realpath(file), file)
    files = _each_run_once(list(named.values()))
    if len(files) == 1:
        return Trace.of(_read(files[0], details, progress))
    sizes = [file.stat().st_size for file in files]
    return Trace.of(merge(_each(files, details, progress), by_time=details, sizes=sizes))


def _each(files: Sequence[Path], details: bool, progress: Progress | None) -> Iterator[TraceData]:
    for number, file in enumerate(files, 1):
        if progress:
            progress(f"{file.name} ({number} of {len(files)})")
        yield _read(file, details, progress)


def _files(path: PathLike) -> list[Path]:
    """Return the reports that a path means, in the order of their names."""
    text = os.fspath(path)
    file = Path(text)
    if file.is_dir():
        found = sorted(p for p in file.iterdir() if _is_report(p))
        if not found:
            raise NotAReport(f"{text}: a folder with no .sqlite, .nsys-rep or .qdrep file in it")
        return found
    if not file.exists() and glob.has_magic(text):
        matches = sorted(Path(match) for match in glob.glob(text, recursive=True))
        found = [p for p in matches if p.is_file()]
        if not found:
            raise NotAReport(f"{text}: no file matches")
        return found
    if not file.exists():
        raise NotAReport(f"{text}: no such file")
    return [file]


def _is_report(path: Path) -> bool:
    return path.is_file() and path.suffix in (*_EXPORTED, *REPORT_SUFFIXES)


def _each_run_once(files: list[Path]) -> list[Path]:
    """Leave out one of a report and its export: both hold the same events.

    The export is read where it is as new as the report.
    """
    exports = {file.with_suffix(""): file for file in files if file.suffix in _EXPORTED}
    dropped: set[Path] = set()
    for report in files:
        export = exports.get(report.with_suffix(""))
        if report.suffix in REPORT_SUFFIXES and export is not None:
            stale = export.stat().st_mtime < report.stat().st_mtime
            dropped.add(export if stale else report)
    return [file for file in files if file not in dropped]


def _read(path: Path, details: bool, progress: Progress | None) -> TraceData:
    try:
        if path.suffix in (*REPORT_SUFFIXES, STREAM_SUFFIX):
            from nvtrace.sources import nsys_cli  # here: an export needs no program to be run

            database = nsys_cli.export(path, progress=progress)
        else:
            database = path
        data = nsys_sqlite.read(database, name=path.name, details=details, progress=progress)
        return with_backward_modules(data)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError(f"{path}: cannot be read: {reason}") from error
