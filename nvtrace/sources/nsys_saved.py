"""Reads back what nvtrace saved: the nsys schema, and NVTRACE tables for what it leaves open.

The rows of every table come back in the order in which they were saved. Nothing is repaired or
guessed: that was done when the trace was first read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar, get_type_hints

import numpy as np
import numpy.typing as npt

from nvtrace.errors import CorruptReport, SourceError
from nvtrace.model import schema
from nvtrace.model.arrays import stable_order
from nvtrace.model.nsys_ddl import OWN_COLUMNS, OWN_RECORDS, SAVED_FORMAT
from nvtrace.model.schema import DeviceKind
from nvtrace.model.strings import Strings
from nvtrace.model.table import Table
from nvtrace.model.trace import (
    Counter,
    CpuUsage,
    Device,
    Domain,
    Note,
    Process,
    Source,
    TraceData,
)
from nvtrace.sources import nsys_facts
from nvtrace.sources.columns import REALS, Coded, values
from nvtrace.sources.nsys_events import Columns, EventReader
from nvtrace.sources.nsys_identity import Identities
from nvtrace.sources.nsys_names import Names
from nvtrace.sources.sqlite_reader import SqliteReader

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Record = TypeVar("Record")


def is_saved(reader: SqliteReader) -> bool:
    """Return whether nvtrace wrote the file."""
    return "NVTRACE_TRACE" in reader.tables


def read(reader: SqliteReader, *, details: bool, progress: Callable[[str], None]) -> TraceData:
    """Return the trace that was saved.

    Args:
        reader: the file.
        details: also read launch shapes and resources of kernels.
        progress: told what is being read.

    Raises:
        SourceError: a newer version of nvtrace wrote the file.
        CorruptReport: the file is damaged.
    """
    facts = dict(reader.query("SELECT name, value FROM NVTRACE_TRACE"))
    if facts.get("format") != SAVED_FORMAT:
        raise SourceError(
            f"{reader.path}: saved by another version of nvtrace (format {facts.get('format')}, "
            f"this one reads {SAVED_FORMAT}); update nvtrace"
        )
    try:
        trace = _Saved(reader, facts).trace(details, progress)
        _check_references(trace)
    except (LookupError, TypeError, ValueError) as error:
        raise CorruptReport(
            f"{reader.path}: damaged, its tables do not fit together ({error}); save it again"
        ) from error
    return trace


class _Saved:
    """One saved trace on its way back."""

    def __init__(self, reader: SqliteReader, facts: dict[str, int]) -> None:
        self._reader = reader
        self._facts = facts
        _, texts = reader.string_ids
        strings = Strings(islice(texts, facts["strings"]))
        names = Names(reader, strings)
        identities = Identities(reader, names, strings)
        self._identities = identities
        self._threads = self._rows("NVTRACE_THREADS")
        self._devices = self._records(Device)
        identities.hand_out(
            [key for (key,) in reader.query("SELECT globalPid FROM PROCESSES ORDER BY rowid")],
            [row[0] for row in self._threads],
            self._devices,
            self._rows("NVTRACE_STREAMS"),
        )
        self._domains = self._records(Domain)
        self._events = _SavedEvents(
            reader, strings, names, identities, abi_versions=False, saved_domains=self._domains
        )
        self._strings = strings

    def _rows(self, table: str) -> list[tuple[Any, ...]]:
        """Return the rows of one of nvtrace's own tables, in order."""
        columns = (column.split()[0] for column in OWN_COLUMNS[table].split(","))
        return self._reader.query(f"SELECT {', '.join(columns)} FROM {table} ORDER BY rowid")

    def _records(self, kind: type[Record]) -> list[Record]:
        """Return the records of a kind, in order; none where their table is absent."""
        table = next(table for table, one in OWN_RECORDS.items() if one is kind)
        known = get_type_hints(kind)
        names = [name for name in self._reader.columns(table) if name in known]
        if not names:
            return []
        listed = ", ".join(f'"{name}"' for name in names)
        read = [bool if known[name] is bool else _as_it_is for name in names]
        return [
            kind(**{name: to(value) for name, to, value in zip(names, read, row, strict=True)})
            for row in self._reader.query(f"SELECT {listed} FROM {table} ORDER BY rowid")
        ]

    def trace(self, details: bool, progress: Callable[[str], None]) -> TraceData:
        progress("ranges")
        ranges = self._ranges()
        progress("CUDA calls")
        calls = _table(schema.CALLS, self._events.calls())
        progress("kernels and copies")
        device, order, kernels = self._device()
        return TraceData(
            ranges=ranges,
            calls=calls,
            device=device,
            kernel_details=self._details(order, kernels) if details else _no_details(),
            graph_nodes=_table(schema.GRAPH_NODES, self._events.graph_nodes()),
            samples=self._samples(),
            streams=self._identities.stream_table(),
            threads=self._thread_table(),
            strings=Strings(islice(self._strings, self._facts["strings"])),
            domains=tuple(self._domains),
            categories=tuple(name for (name,) in self._rows("NVTRACE_CATEGORIES")),
            processes=tuple(self._records(Process)),
            devices=tuple(self._devices),
            cpu=tuple(self._records(CpuUsage)),
            counters=tuple(self._records(Counter)),
            sources=tuple(self._records(Source)),
            notes=tuple(self._records(Note)),
            recorded=nsys_facts.recorded(self._reader),
            origin_unix_ns=nsys_facts.origin(self._reader),
            shift_ns=self._facts["shift_ns"],
            capture_start=self._facts["capture_start"],
        )

    def _ranges(self) -> Table:
        ranges = self._events.ranges()
        if ranges:
            special = {"row": 0, "flags": 0, "payloadType": 0, "payload": 0}
            rows = self._reader.integers("NVTRACE_RANGES", special)
            for name in ("flags", "payload_type", "payload"):
                ranges[name] = ranges[name].copy()
            ranges["flags"][rows["row"]] = rows["flags"]
            ranges["payload_type"][rows["row"]] = rows["payloadType"]
            ranges["payload"][rows["row"]] = rows["payload"]
        return _table(schema.RANGES, ranges)

    def _device(self) -> tuple[Table, I64, int]:
        """Return GPU work, its order among the rows of all kinds, and how many are kernels."""
        kernels = self._events.kernels()
        parts = [
            kernels,
            self._events.memory(DeviceKind.MEMCPY),
            self._events.memory(DeviceKind.MEMSET),
            self._events.graphs(),
        ]
        names = {"kind": 0, "row": 0, "nameId": 0, "shortNameId": 0}
        other = self._reader.integers("NVTRACE_NAMES", names)
        for kind, part in zip(DeviceKind, parts, strict=True):
            rows = other["row"][here := other["kind"] == kind]
            if part and len(rows):
                for name, own in (("name", "nameId"), ("short_name", "shortNameId")):
                    part[name] = part[name].copy()  # the names of memory work are one array
                    part[name][rows] = other[own][here]
        device = Table.concatenate(schema.DEVICE, [part for part in parts if part])
        order = stable_order(device["start"], -device["end"])
        return device.take(order), order, len(kernels.get("start", ()))

    def _details(self, order: I64, kernels: int) -> Table:
        details = self._events.kernel_details()
        rows = np.flatnonzero(order < kernels)
        rows = rows[details["grid_x"][order[rows]] >= 0]  # negative: not recorded
        return Table(
            schema.KERNEL_DETAILS,
            {"row": rows, **{name: values[order[rows]] for name, values in details.items()}},
        )

    def _thread_table(self) -> Table:
        tids = np.array([row[1] for row in self._threads], np.int64)
        return Table(schema.THREADS, {**self._identities.thread_table(), "tid": tids})

    def _samples(self) -> Table:
        wanted = {"time": values(), "counter": values(), "value": REALS}
        rows = self._reader.read("NVTRACE_SAMPLES", wanted)
        return Table(schema.SAMPLES, rows | {"value": rows["value"].astype(np.float64)})


@dataclass
class _SavedEvents(EventReader):
    """The events of a saved trace, whose numbers of domains and categories are rows."""

    saved_domains: list[Domain] = field(default_factory=list)

    def _scopes(self, global_tids: Coded, domains: Coded, categories: Coded) -> tuple[I32, I32]:
        process = self.identities.processes(global_tids)
        default = np.zeros(int(process.max(initial=-1)) + 1, np.int32)
        for row, domain in enumerate(self.saved_domains):
            if not domain.name and domain.process < len(default):
                default[domain.process] = row
        stated = domains.spread((domains.values - 1).astype(np.int32))
        return (
            np.where(stated < 0, default[process], stated),
            categories.spread((categories.values - 1).astype(np.int32)),
        )


def _check_references(trace: TraceData) -> None:
    """Refuse rows that refer to rows which are not there."""
    counts = {
        "name": len(trace.strings),
        "short_name": len(trace.strings),
        "text": len(trace.strings),
        "domain": len(trace.domains),
        "category": len(trace.categories),
        "thread": trace.threads.rows,
        "end_thread": trace.threads.rows,
        "process": len(trace.processes),
        "stream": trace.streams.rows,
        "counter": len(trace.counters),
    }
    for table in (trace.ranges, trace.calls, trace.device, trace.threads, trace.samples):
        for name in counts.keys() & table.keys():
            if int(table[name].max(initial=-1)) >= counts[name]:
                raise ValueError(f"a {name} is missing")


def _as_it_is(value: Any) -> Any:
    return value


def _table(spec: dict[str, schema.ColumnSpec], columns: Columns) -> Table:
    return Table(spec, columns) if columns else Table.empty(spec)


def _no_details() -> Table:
    return Table.empty(schema.KERNEL_DETAILS)
