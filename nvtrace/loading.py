"""Finds the reports that a user's paths mean and reads them into one Trace."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nvtrace.analysis.module_backward import with_backward_modules
from nvtrace.errors import NotAReport, SourceError
from nvtrace.model.merging import merge
from nvtrace.model.trace import TraceData
from nvtrace.sources import REPORT_SUFFIXES, STREAM_SUFFIX, nsys_export
from nvtrace.trace import Trace

Progress = Callable[[str], None]
PathLike = str | os.PathLike[str]

_EXPORTED = (".sqlite", ".sqlite3", ".db")
# what nsys puts behind the report's name, and what people do
_FOLDER_ENDINGS = ("_pqtdir", "_arwdir", ".parquetdir", ".arrowdir")


def load(
    path: PathLike | Sequence[PathLike],
    *,
    details: bool = True,
    progress: Progress | None = None,
) -> Trace:
    """Return the trace in one report or several.

    Args:
        path: an export of Nsight Systems, in SQLite or as the folder of Parquet or Arrow files that
            ``nsys export -t parquetdir`` or ``arrowdir`` makes (read with pyarrow); a ``.nsys-rep``
            or ``.qdrep`` report (exported by nsys, which must be installed); a folder or a glob of
            them; or several of all these. Several files become one trace, on one clock where they
            say when they began.
        details: also read what only timelines show, such as launch shapes of kernels, and put the
            rows of several files in the order of time.
        progress: called with a line of text while long work goes on.

    Raises:
        SourceError: a path is nothing that can be read; the message says what it is.
        ToolNotFound: a report needs nsys, and there is none or none new enough.
        MissingDependency: pyarrow is needed, and not installed.
    """
    files = reports(path)
    sizes = [sum(one.st_size for one in _stats(file)) for file in files]
    return Trace.of(merge(each(files, details, progress), by_time=details, sizes=sizes))


def reports(path: PathLike | Sequence[PathLike]) -> list[Path]:
    """Return the files, or folders of tables, that paths mean; arguments and errors as ``load``."""
    given = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not given:
        raise NotAReport("no file given; name a report")
    named: dict[str, Path] = {}
    for one in given:
        with _readable(one):
            for file in _files(one):
                named.setdefault(os.path.realpath(file), file)
    return _each_run_once(list(named.values()))


def each(files: Sequence[Path], details: bool, progress: Progress | None) -> Iterator[TraceData]:
    """Read one file after the other; arguments and errors as ``load``."""
    for number, file in enumerate(files, 1):
        if progress and len(files) > 1:
            progress(f"{file.name} ({number} of {len(files)})")
        yield _read(file, details, progress)


def _files(path: PathLike) -> list[Path]:
    """Return the reports that a path means, in the order of their names."""
    text = os.fspath(path)
    file = Path(text)
    if file.is_dir():
        return _in_folder(file)
    if not file.exists() and glob.has_magic(text):
        matches = sorted(Path(match) for match in glob.glob(text, recursive=True))
        found = [p for p in matches if p.is_file()] or list(filter(_is_table_folder, matches))
        if not found:
            raise NotAReport(f"{text}: no file matches")
        return found
    if not file.exists():
        raise NotAReport(f"{text}: no such file")
    return [file]


def _in_folder(folder: Path) -> list[Path]:
    """Return the reports in a folder; else the folder itself, or those in it, that are exports."""
    entries = sorted(folder.iterdir())
    found = [p for p in entries if p.is_file() and p.suffix in (*_EXPORTED, *REPORT_SUFFIXES)]
    if _is_table_folder(folder):
        if found:
            raise NotAReport(
                f"{folder}: holds the tables of an export and reports ({found[0].name}) side by "
                "side; name a report, or move the tables to a folder of their own"
            )
        return [folder if folder.name else folder.absolute()]  # "." has no name
    found = found or list(filter(_is_table_folder, entries))
    if not found:
        raise NotAReport(
            f"{folder}: a folder with no .sqlite, .nsys-rep or .qdrep file in it, "
            "and no Parquet export of nsys"
        )
    return found


def _is_table_folder(path: Path) -> bool:
    return path.is_dir() and nsys_export.is_folder_of_tables(path)


def _each_run_once(files: list[Path]) -> list[Path]:
    """Leave all but one out of a report and its exports: they hold the same events.

    An export is read where it is as new as the report, one in SQLite before a folder.
    """
    folders = {_run_of(path): path for path in files if path.is_dir()}
    exports = folders | {_run_of(path): path for path in files if path.suffix in _EXPORTED}
    dropped = {folder for run, folder in folders.items() if exports[run] != folder}
    for report in files:
        export = exports.get(_run_of(report))
        if report.suffix in REPORT_SUFFIXES and export is not None:
            stale = _written(export) < _written(report)
            dropped.add(export if stale else report)
    return [file for file in files if file not in dropped]


def _run_of(path: Path) -> Path:
    """Return the path without what tells a report from its exports."""
    if not path.is_dir():
        return path.with_suffix("")
    ending = next((one for one in _FOLDER_ENDINGS if path.name.endswith(one)), "")
    return path.with_name(path.name.removesuffix(ending))


def _written(path: Path) -> float:
    return max(one.st_mtime for one in _stats(path))


def _stats(path: Path) -> list[os.stat_result]:
    """Return what the system says of a file, or of each in a folder."""
    return [one.stat() for one in (path.iterdir() if path.is_dir() else [path])]


def _read(path: Path, details: bool, progress: Progress | None) -> TraceData:
    with _readable(path):
        if path.suffix in (*REPORT_SUFFIXES, STREAM_SUFFIX):
            from nvtrace.sources import nsys_cli  # here: an export needs no program to be run

            database = nsys_cli.export(path, progress=progress)
        else:
            database = path
        data = nsys_export.read(database, name=path.name, details=details, progress=progress)
        return with_backward_modules(data)


@contextmanager
def _readable(path: PathLike) -> Iterator[None]:
    """Say in one line what the system refuses."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError(f"{os.fspath(path)}: cannot be read: {reason}") from error
