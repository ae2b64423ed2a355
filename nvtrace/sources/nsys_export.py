"""Reads an export of Nsight Systems into a TraceData."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nvtrace.errors import NotAReport
from nvtrace.model import schema
from nvtrace.model.arrays import choose, in_order, joined, stable_order, time_order
from nvtrace.model.schema import DeviceKind, RangeFlag, RangeStyle
from nvtrace.model.strings import Strings
from nvtrace.model.table import Table
from nvtrace.model.trace import Note, Source, TraceData
from nvtrace.sources import nsys_facts, nsys_samples, nsys_saved, nsys_times
from nvtrace.sources.nsys_events import OPEN, Columns, EventReader, unfinished_flags
from nvtrace.sources.nsys_identity import Identities, rank_of
from nvtrace.sources.nsys_names import Names
from nvtrace.sources.sqlite_reader import SqliteReader
from nvtrace.sources.table_reader import TableReader

I64 = npt.NDArray[np.int64]
Progress = Callable[[str], None]


def read(
    path: Path, *, name: str | None = None, details: bool = True, progress: Progress | None = None
) -> TraceData:
    """Return the trace in an export.

    Args:
        path: the export: an SQLite file, or a folder for which ``is_folder_of_tables`` holds.
        name: what to call the source in outputs; the file's name by default.
        details: also read launch shapes and resources of kernels.
        progress: told what is being read.

    Raises:
        NotAReport: the file is something else.
        CorruptReport: the file is empty, truncated or damaged.
        SourceError: another version of nvtrace saved the file.
        MissingDependency: the export is a folder, and pyarrow is not installed.
    """
    reader = _opened(path)
    try:
        if not nsys_facts.is_export(reader.tables):
            raise NotAReport(
                f"{path}: an SQLite database, but not an Nsight Systems export (none of its tables "
                "is there); export the report with: nsys export --type sqlite REPORT.nsys-rep"
            )
        if isinstance(reader, SqliteReader) and nsys_saved.is_saved(reader):
            return nsys_saved.read(reader, details=details, progress=progress or (lambda _: None))
        return _Import(reader, name or path.name, progress or (lambda _: None)).run(details)
    finally:
        reader.close()


def is_folder_of_tables(folder: Path) -> bool:
    """Return whether nsys wrote the folder, as ``parquetdir`` or ``arrowdir``, a file a table."""
    from nvtrace.sources import arrow_reader  # here: most exports are in SQLite

    return nsys_facts.is_export(arrow_reader.files(folder))


def _opened(path: Path) -> TableReader:
    if not path.is_dir():
        return SqliteReader(path)
    from nvtrace.sources.arrow_reader import ArrowReader

    return ArrowReader(path)


class _Import:
    """One export on its way into the model: read, put on one clock, sort, note."""

    def __init__(self, reader: TableReader, name: str, progress: Progress) -> None:
        self._reader = reader
        self._name = name
        self._progress = progress
        self._strings = Strings()
        names = Names(reader, self._strings)
        self._identities = Identities(reader, names, self._strings)
        self._events = EventReader(reader, self._strings, names, self._identities)
        self._notes: list[Note] = []

    def run(self, details: bool) -> TraceData:
        product, schema_version = nsys_facts.versions(self._reader)
        self._notes += nsys_facts.notes(self._reader, schema_version)
        self._progress("ranges")
        ranges = self._events.ranges()
        self._progress("CUDA calls")
        calls = self._events.calls()
        self._progress("kernels and copies")
        parts = [
            self._events.kernels(),
            self._events.memory(DeviceKind.MEMCPY),
            self._events.memory(DeviceKind.MEMSET),
            self._events.graphs(),
        ]
        kernels = len(parts[0].get("start", ()))
        device = _joined([part for part in parts if part], schema.DEVICE)
        nodes = self._events.graph_nodes()
        sampled, counters = nsys_samples.samples(self._reader, self._identities)
        added = nsys_facts.added_to_times(self._reader)
        for columns in (ranges, calls, device, nodes):
            nsys_times.subtract(columns, added)
        self._notes += nsys_times.discard_impossible((ranges, calls, nodes), device)
        untimed = self._without_time(device)
        shift, end = self._bounds(ranges, calls, device, untimed)
        self._close(ranges, end)
        for columns in (ranges, calls, device, nodes):
            self._repair(columns)
        self._place(device, untimed, shift)
        self._note_outside(device)
        order = time_order(device)
        detail = self._events.kernel_details() if details and kernels else {}
        origin = nsys_facts.origin(self._reader)
        threads = self._identities.thread_table()
        return TraceData(
            ranges=_table(schema.RANGES, ranges, shift),
            calls=_table(schema.CALLS, calls, shift),
            device=_table(schema.DEVICE, device, shift, order),
            kernel_details=_details(detail, order, kernels),
            graph_nodes=_table(schema.GRAPH_NODES, nodes, shift),
            samples=_samples(sampled, shift + added),
            streams=self._identities.stream_table(),
            threads=threads,
            strings=self._strings,
            domains=self._events.domain_table(),
            categories=tuple(self._events.categories),
            processes=self._identities.process_table(self._name, rank_of(self._name)),
            devices=self._identities.device_table(),
            counters=tuple(counters),
            sources=(Source(self._name, product, schema_version),),
            notes=tuple(self._notes),
            recorded=nsys_facts.recorded(self._reader),
            origin_unix_ns=None if origin is None else origin + shift,
            shift_ns=shift + added,
            capture_start=max(-shift, 0),
        )

    def _without_time(self, device: Columns) -> npt.NDArray[np.bool_]:
        """Return which device rows carry no timestamp at all: start and end are both 0."""
        if not device:
            return np.zeros(0, np.bool_)
        untimed: npt.NDArray[np.bool_] = (device["start"] == 0) & (device["end"] == 0)
        if count := int(untimed.sum()):
            self._notes.append(
                Note(
                    "no_timestamp",
                    f"{count:,} kernels or copies carry no timestamp: they are counted, their time "
                    "is not known",
                )
            )
        return untimed

    def _bounds(
        self, ranges: Columns, calls: Columns, device: Columns, untimed: npt.NDArray[np.bool_]
    ) -> tuple[int, int]:
        """Return the first start, and the capture's end, in the file's own ns."""
        timed = [(columns["start"], columns["end"]) for columns in (ranges, calls) if columns]
        if device:
            start, end = device["start"], device["end"]
            some = untimed.any()
            timed.append((start[~untimed], end[~untimed]) if some else (start, end))
        timed = [pair for pair in timed if len(pair[0])]
        first = min((int(start.min()) for start, _ in timed), default=0)
        last = max((max(int(end.max()), int(start.max())) for start, end in timed), default=0)
        stated = nsys_facts.capture_end(self._reader)
        return first, last if stated is None else max(stated, last)

    def _close(self, ranges: Columns, end: int) -> None:
        """Close ranges that never ended at the capture's end, as newer exporters do themselves."""
        if not ranges:
            return
        is_range = ranges["style"] != RangeStyle.MARK
        stated = nsys_facts.capture_end(self._reader)
        unfinished = ranges["end"] == OPEN
        if stated is not None and is_range.any():
            # a capture can go on for a little after the end that it states
            last = max(stated, int(ranges["end"][is_range].max()))
            unfinished |= is_range & (ranges["end"] == last)
        ranges["flags"] = unfinished_flags(unfinished)
        ranges["end"][ranges["end"] == OPEN] = end
        if count := int(unfinished.sum()):
            self._notes.append(
                Note(
                    "unfinished_ranges",
                    f"{count:,} ranges were never closed: they count as ending with the capture",
                )
            )

    def _repair(self, columns: Columns) -> None:
        """Give rows that end before they start a duration of 0, and say so."""
        if not columns:
            return
        reversed_rows = columns["end"] < columns["start"]
        if count := int(reversed_rows.sum()):
            columns["end"] = np.maximum(columns["end"], columns["start"])
            if "flags" in columns:
                columns["flags"] = columns["flags"] | np.where(
                    reversed_rows, RangeFlag.REVERSED, 0
                ).astype(np.uint8)
            self._notes.append(
                Note("reversed_times", f"{count:,} rows end before they start: they count as 0 ns")
            )

    def _place(self, device: Columns, untimed: npt.NDArray[np.bool_], shift: int) -> None:
        """Put rows without a timestamp where the capture starts, so that they widen nothing."""
        if untimed.any():
            for column in ("start", "end"):
                device[column] = np.where(untimed, max(shift, 0), device[column])

    def _note_outside(self, device: Columns) -> None:
        if device and (count := int((device["start"] < 0).sum())):
            self._notes.append(
                Note(
                    "outside_capture",
                    f"{count:,} kernels or copies are stamped before the capture began: they are "
                    "counted, and widen no window",
                )
            )


def _joined(parts: list[Columns], spec: dict[str, schema.ColumnSpec]) -> Columns:
    """Return the rows of all parts, which are used up."""
    if len(parts) <= 1:
        return parts[0] if parts else {}
    return {name: joined([part.pop(name) for part in parts]) for name in spec}


def _table(
    spec: dict[str, schema.ColumnSpec], columns: Columns, shift: int, order: I64 | None = None
) -> Table:
    """Return columns, which are used up, in the order of time."""
    if not columns:
        return Table.empty(spec)
    for name in ("start", "end"):
        columns[name] -= shift
    rows = time_order(columns) if order is None else order
    if not in_order(rows):  # most files are in order already
        choose(columns, rows)
    return Table(spec, columns)


def _samples(columns: Columns, shift: int) -> Table:
    if not columns:
        return Table.empty(schema.SAMPLES)
    order = stable_order(columns["time"])
    taken = {name: values[order] for name, values in columns.items()}
    return Table(schema.SAMPLES, taken | {"time": taken["time"] - shift})


def _details(columns: Columns, order: I64, kernels: int) -> Table:
    """Return kernel details by row of the sorted device table; kernels came first in it."""
    if not columns:
        return Table.empty(schema.KERNEL_DETAILS)
    rows = np.flatnonzero(order < kernels)
    source = order[rows]
    if not in_order(source):
        choose(columns, source)
    return Table(schema.KERNEL_DETAILS, {"row": rows, **columns})
