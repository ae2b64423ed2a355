"""Several traces as one: ids namespaced, clocks aligned where both traces know the time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.model import schema
from nvtrace.model.arrays import picked, renumbered, taken, time_order
from nvtrace.model.growing import Change, GrowingTable, changed
from nvtrace.model.strings import Strings
from nvtrace.model.table import Table
from nvtrace.model.trace import (
    Counter,
    Device,
    Domain,
    FileRows,
    Note,
    Process,
    Recorded,
    TraceData,
)

Array = npt.NDArray[Any]

_TABLES: dict[str, Mapping[str, schema.ColumnSpec]] = {
    "ranges": schema.RANGES,
    "calls": schema.CALLS,
    "device": schema.DEVICE,
    "kernel_details": schema.KERNEL_DETAILS,
    "graph_nodes": schema.GRAPH_NODES,
    "samples": schema.SAMPLES,
    "streams": schema.STREAMS,
    "threads": schema.THREADS,
}
_BY_TIME = ("ranges", "calls", "device")
_FEW_ROWS = ("streams", "threads")
_TIMES = ("start", "end", "time")

_ALIGNED = Note(
    "clocks_aligned",
    "the files were put on one clock by the wall time at which each capture began: between "
    "machines it is as good as their clocks agree",
)
_NOT_ALIGNED = Note(
    "clocks_not_aligned",
    "a file does not say when its capture began, so each file starts at 0: do not compare times "
    "between files",
)


def merge(
    traces: Iterable[TraceData], *, by_time: bool = True, sizes: Sequence[int] = ()
) -> TraceData:
    """Return the events of all ``traces`` on one clock.

    Clocks are aligned by the Unix time of each trace's zero. Where one is unknown, every trace
    starts at 0 and a note says so. Devices with one UUID become one. Of traces that come one by one
    none is held while the next is made.

    Args:
        traces: in the order in which their processes are to come.
        by_time: put all rows in the order of time, instead of those of each trace behind those of
            the one before.
        sizes: how large each is beside the others, where that is known: memory is reserved by it.
    """
    coming = iter(traces)
    first, second = next(coming), next(coming, None)
    if second is None:
        return first
    whole = Whole(sizes, by_time)
    whole.add(first)
    del first
    whole.add(second)
    del second
    for trace in coming:
        whole.add(trace)
        del trace  # before the next one is made
    return whole.finished()


class _Part(NamedTuple):
    """What of one trace is kept beside its rows.

    Attributes:
        trace: the trace without its tables and strings.
        base: how many rows of each kind came before it.
        devices: row in the whole of each of its devices.
    """

    trace: TraceData
    base: Mapping[str, int]
    devices: Array

    def processes(self) -> list[Process]:
        recorded = self.trace.recorded.device
        return [one._replace(device_recorded=recorded) for one in self.trace.processes]

    def counters(self) -> list[Counter]:
        return [
            counter._replace(
                device=int(self.devices[counter.device]) if counter.device >= 0 else -1,
                process=counter.process + self.base["processes"] if counter.process >= 0 else -1,
            )
            for counter in self.trace.counters
        ]

    def domains(self) -> list[Domain]:
        before = self.base["processes"]
        return [one._replace(process=one.process + before) for one in self.trace.domains]


class Whole:
    """All traces so far: with their rows, by ``add``, or without, by ``place``.

    Args:
        sizes: as for ``merge``.
        by_time: as for ``merge``.
    """

    def __init__(self, sizes: Sequence[int] = (), by_time: bool = True) -> None:
        self._sizes = sizes
        self._by_time = by_time
        self._strings, self._categories = Strings(), Strings()
        self._devices: list[Device] = []
        self._parts: list[_Part] = []
        narrow = () if by_time else _BY_TIME
        self._tables = {
            name: GrowingTable(spec, spec.keys() - {*_TIMES} if name in narrow else ())
            for name, spec in _TABLES.items()
        }

    def add(self, trace: TraceData) -> None:
        """Add a trace, its times still its own."""
        changes = self._entered(trace)
        for name, table in self._tables.items():
            table.add(getattr(trace, name), changes.get(name, {}), self._share_so_far())

    def place(self, trace: TraceData) -> TraceData:
        """Add a trace without its rows; return these under the numbers of all traces so far.

        Times are still its own.
        """
        changes = self._entered(trace)
        tables: dict[str, Any] = {}
        for name, table in self._tables.items():
            part = changed(getattr(trace, name), changes.get(name, {}))
            table.add(part if name in _FEW_ROWS else Table.empty(table.spec), {}, 1)
            tables[name] = table.so_far() if name in _FEW_ROWS else part
        return replace(
            self._named(), **tables, recorded=trace.recorded, capture_start=trace.capture_start
        )

    def _entered(self, trace: TraceData) -> Mapping[str, Mapping[str, Change]]:
        """Take what there is beside rows, and return what must be done to columns of rows."""
        parts = [part.trace for part in self._parts]
        base = {
            **{name: table.rows for name, table in self._tables.items()},
            **{
                kind: sum(len(getattr(part, kind)) for part in parts)
                for kind in ("processes", "domains", "counters")
            },
        }
        rows = [_device_row(self._devices, one, base["processes"]) for one in trace.devices]
        empty: dict[str, Any] = {name: Table.empty(spec) for name, spec in _TABLES.items()}
        rest = replace(trace, strings=Strings(), **empty)
        self._parts.append(_Part(rest, base, np.array(rows, np.int32)))
        return self._changes(trace, self._parts[-1])

    def _share_so_far(self) -> float:
        """Return how much of everything was added, from 0 to 1, as far as that is known."""
        known = len(self._sizes) >= len(self._parts) and sum(self._sizes) > 0
        return sum(self._sizes[: len(self._parts)]) / sum(self._sizes) if known else 1.0

    def _changes(self, trace: TraceData, part: _Part) -> Mapping[str, Mapping[str, Change]]:
        """Return what must be done to columns of a trace, by table and name."""
        named = partial(taken, self._strings.intern_all(trace.strings))
        category = partial(taken, self._categories.intern_all(trace.categories))
        moved = {kind: partial(renumbered, np.int32(n)) for kind, n in part.base.items()}
        owner = {"thread": moved["threads"], "process": moved["processes"]}
        return {
            "ranges": {
                **dict.fromkeys(("name", "text"), named),
                **dict.fromkeys(("thread", "end_thread"), moved["threads"]),
                "domain": moved["domains"],
                "category": category,
            },
            "calls": {**owner, "name": named},
            "device": {
                **dict.fromkeys(("name", "short_name"), named),
                "stream": moved["streams"],
                "process": moved["processes"],
            },
            "kernel_details": {"row": moved["device"]},
            "graph_nodes": owner,
            "samples": {"counter": moved["counters"]},
            "streams": {"device": partial(taken, part.devices), "process": moved["processes"]},
            "threads": {"process": moved["processes"], "name": named},
        }

    @property
    def origin_unix_ns(self) -> int | None:
        """Unix time of the zero of all traces, None where one does not know its own."""
        known = [part.trace.origin_unix_ns for part in self._parts]
        return None if None in known else min(origin for origin in known if origin is not None)

    @property
    def offsets(self) -> list[int]:
        """What is to be added to the times of each trace."""
        zero = self.origin_unix_ns
        origins = [part.trace.origin_unix_ns for part in self._parts]
        return [0 if zero is None or origin is None else origin - zero for origin in origins]

    def finished(self) -> TraceData:
        """Return the whole, which is used up."""
        traces, offsets = [part.trace for part in self._parts], self.offsets
        for table in self._tables.values():
            table.shift(_TIMES, offsets)
        files = zip(*(self._tables[name].parts for name in FileRows._fields), strict=True)
        return replace(
            self._named(),
            **_tables(self._tables, self._by_time),
            cpu=tuple(usage for trace in traces for usage in trace.cpu),
            sources=tuple(
                source._replace(offset_ns=source.offset_ns + offset)
                for trace, offset in zip(traces, offsets, strict=True)
                for source in trace.sources
            ),
            notes=_notes(traces, self.origin_unix_ns is not None),
            recorded=_recorded(traces),
            origin_unix_ns=self.origin_unix_ns,
            shift_ns=0,
            capture_start=min(
                trace.capture_start + offset for trace, offset in zip(traces, offsets, strict=True)
            ),
            files=() if self._by_time else tuple(FileRows(*parts) for parts in files),
        )

    def _named(self) -> TraceData:
        """Return the names of what all traces share a numbering of."""
        return TraceData(
            strings=self._strings,
            domains=tuple(domain for part in self._parts for domain in part.domains()),
            categories=tuple(self._categories),
            processes=tuple(process for part in self._parts for process in part.processes()),
            devices=tuple(self._devices),
            counters=tuple(counter for part in self._parts for counter in part.counters()),
        )


def _notes(traces: Sequence[TraceData], aligned: bool) -> tuple[Note, ...]:
    notes = [_ALIGNED if aligned else _NOT_ALIGNED]
    unrecorded = [trace.sources[0].name for trace in traces if not trace.recorded.device]
    if unrecorded and len(unrecorded) < len(traces):
        notes.append(
            Note(
                "file_without_gpu_activity",
                f"{', '.join(unrecorded)}: GPU activity was not recorded, so GPU figures leave "
                "these processes out",
            )
        )
    named = [
        one._replace(message=f"{trace.sources[0].name}: {one.message}")
        for trace in traces
        for one in trace.notes
    ]
    return *notes, *named


def _recorded(traces: Sequence[TraceData]) -> Recorded:
    kinds = Recorded._fields
    return Recorded(
        **{kind: any(getattr(trace.recorded, kind) for trace in traces) for kind in kinds}
    )


def _device_row(devices: list[Device], device: Device, processes: int) -> int:
    if device.uuid:
        for row, known in enumerate(devices):
            if known.uuid == device.uuid:
                return row
    moved = device._replace(process=device.process + processes) if device.process >= 0 else device
    devices.append(moved)
    return len(devices) - 1


def _tables(growing: Mapping[str, GrowingTable], by_time: bool) -> dict[str, Any]:
    """Return the tables of the whole; ``growing`` is used up."""
    found = {}
    for name, table in growing.items():
        columns = table.finished()
        if by_time and name in _BY_TIME:
            order = _put_in_order(columns)
            if name == "device":
                place = order
        found[name] = Table(table.spec, columns, narrow=True)
    if by_time:
        found["kernel_details"] = _by_row(found["kernel_details"], place)
    return found


def in_order_of_time(trace: TraceData) -> TraceData:
    """Return the trace with no file's rows apart from those of the others."""
    if not trace.files:
        return trace
    found: dict[str, Any] = {}
    for name in _BY_TIME:
        columns = dict(getattr(trace, name))
        order = _put_in_order(columns)
        found[name] = Table(_TABLES[name], columns)
        if name == "device":
            found["kernel_details"] = _by_row(trace.kernel_details, order)
    return replace(trace, files=(), **found)


def _put_in_order(columns: dict[str, Array]) -> npt.NDArray[np.int64]:
    """Put the rows of a table in the order of time, and return the order."""
    order = time_order(columns)
    for name in columns:
        columns[name] = picked(columns[name], order)
    return order


def _by_row(details: Table, order: npt.NDArray[np.int64]) -> Table:
    """Return details of rows that were put in an order, in that order."""
    if not details.rows:
        return details
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    rows = place[details["row"]]
    return Table(details.spec, {**details, "row": rows}).take(np.argsort(rows, kind="stable"))
