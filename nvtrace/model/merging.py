"""Several traces as one: ids namespaced, clocks aligned where both traces know the time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model import schema
from nvtrace.model.arrays import constant, is_constant, joined, picked, taken, time_order
from nvtrace.model.strings import Strings
from nvtrace.model.table import Table
from nvtrace.model.trace import Device, Note, Process, Recorded, TraceData

Array = npt.NDArray[Any]
Change = Callable[[Array], Array]

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


def merge(traces: Iterable[TraceData]) -> TraceData:
    """Return the events of all ``traces`` on one clock.

    Clocks are aligned by the Unix time of each trace's zero. Where one is unknown, every trace
    starts at 0 and a note says so. Devices with one UUID become one. Columns of traces that nobody
    else holds are let go as they are joined.
    """
    traces = list(traces)
    if len(traces) == 1:
        return traces[0]
    origins = [trace.origin_unix_ns for trace in traces]
    known = [origin for origin in origins if origin is not None]
    aligned = len(known) == len(traces)
    zero = min(known) if aligned else 0
    offsets = [(origin or 0) - zero if aligned else 0 for origin in origins]
    strings = Strings()
    categories = Strings()
    devices: list[Device] = []
    parts = [
        _Part(trace, offset, strings, categories, devices, _before(traces, place))
        for place, (trace, offset) in enumerate(zip(traces, offsets, strict=True))
    ]
    merged = TraceData(
        strings=strings,
        domains=tuple(
            domain._replace(process=domain.process + part.base["processes"])
            for part in parts
            for domain in part.trace.domains
        ),
        categories=tuple(categories),
        processes=tuple(process for part in parts for process in part.processes()),
        devices=tuple(devices),
        cpu=tuple(usage for trace in traces for usage in trace.cpu),
        counters=tuple(counter for part in parts for counter in part.counters()),
        sources=tuple(
            source._replace(offset_ns=source.offset_ns + offset)
            for trace, offset in zip(traces, offsets, strict=True)
            for source in trace.sources
        ),
        notes=_notes(traces, aligned),
        recorded=_recorded(traces),
        origin_unix_ns=zero if aligned else None,
        shift_ns=0,
        capture_start=min(
            trace.capture_start + offset for trace, offset in zip(traces, offsets, strict=True)
        ),
    )
    del traces
    return replace(merged, **_tables(parts))


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


def _before(traces: Sequence[TraceData], place: int) -> dict[str, int]:
    earlier = traces[:place]
    return {
        "processes": sum(len(trace.processes) for trace in earlier),
        "threads": sum(trace.threads.rows for trace in earlier),
        "streams": sum(trace.streams.rows for trace in earlier),
        "domains": sum(len(trace.domains) for trace in earlier),
        "device": sum(trace.device.rows for trace in earlier),
        "counters": sum(len(trace.counters) for trace in earlier),
    }


class _Part:
    """One trace with its rows renumbered for the whole."""

    def __init__(
        self,
        trace: TraceData,
        offset: int,
        strings: Strings,
        categories: Strings,
        devices: list[Device],
        base: dict[str, int],
    ) -> None:
        empty: dict[str, Any] = {name: Table.empty(spec) for name, spec in _TABLES.items()}
        self.trace = replace(trace, **empty)
        self.base = base
        self.rows = {name: getattr(trace, name).rows for name in _TABLES}
        self._columns: dict[str, dict[str, Array]] = {
            name: dict(getattr(trace, name)) for name in _TABLES
        }
        self._devices = np.array(
            [_device_row(devices, device, base["processes"]) for device in trace.devices], np.int32
        )
        named = partial(taken, strings.intern_all(trace.strings))
        category = partial(taken, categories.intern_all(trace.categories))
        times = dict.fromkeys(("start", "end", "time"), partial(np.add, np.int64(offset)))
        moved = {kind: partial(_renumbered, np.int32(before)) for kind, before in base.items()}
        owner = {"thread": moved["threads"], "process": moved["processes"]}
        self._changes: dict[str, dict[str, Change]] = {
            "ranges": {
                **times,
                **dict.fromkeys(("name", "text"), named),
                **dict.fromkeys(("thread", "end_thread"), moved["threads"]),
                "domain": moved["domains"],
                "category": category,
            },
            "calls": {**times, **owner, "name": named},
            "device": {
                **times,
                **dict.fromkeys(("name", "short_name"), named),
                "stream": moved["streams"],
                "process": moved["processes"],
            },
            "kernel_details": {"row": moved["device"]},
            "graph_nodes": {**times, **owner},
            "samples": {**times, "counter": moved["counters"]},
            "streams": {"device": partial(taken, self._devices), "process": moved["processes"]},
            "threads": {"process": moved["processes"], "name": named},
        }

    def is_constant(self, table: str, name: str) -> bool:
        """Return whether a column is known to hold one value, or holds none."""
        return not self.rows[table] or is_constant(self._columns[table][name])

    def give(self, table: str, name: str) -> Array:
        """Let go of a column, and return it as it is in the whole."""
        column = self._columns[table].pop(name)
        change = self._changes[table].get(name, np.asarray)
        if is_constant(column):
            return constant(change(column[:1])[0], len(column), column.dtype)
        changed: Array = change(column)
        return changed

    def processes(self) -> list[Process]:
        recorded = self.trace.recorded.device
        return [one._replace(device_recorded=recorded) for one in self.trace.processes]

    def counters(self) -> list[Any]:
        return [
            counter._replace(
                device=int(self._devices[counter.device]) if counter.device >= 0 else -1,
                process=counter.process + self.base["processes"] if counter.process >= 0 else -1,
            )
            for counter in self.trace.counters
        ]


def _device_row(devices: list[Device], device: Device, processes: int) -> int:
    if device.uuid:
        for row, known in enumerate(devices):
            if known.uuid == device.uuid:
                return row
    moved = device._replace(process=device.process + processes) if device.process >= 0 else device
    devices.append(moved)
    return len(devices) - 1


def _tables(parts: Sequence[_Part]) -> dict[str, Any]:
    """Return the tables of the whole; those of the parts are used up."""
    found = {
        table: Table(spec, {name: _column(table, name, parts) for name in spec})
        for table, spec in _TABLES.items()
        if table not in _BY_TIME
    }
    for table in _BY_TIME:
        found[table], order = _by_time(table, parts)
        if table == "device":
            found["kernel_details"] = _by_row(found["kernel_details"], order)
    return found


def _by_time(table: str, parts: Sequence[_Part]) -> tuple[Table, npt.NDArray[np.int64]]:
    """Return a table in order of time, and that order of the parts' rows one after the other."""
    spec = _TABLES[table]
    columns = {
        name: _column(table, name, parts) for name in ("start", "end", "kind") if name in spec
    }
    order = time_order(columns)
    for name in spec:
        column = columns.pop(name) if name in columns else _column(table, name, parts)
        columns[name] = picked(column, order)
        del column  # before the next one is made
    return Table(spec, columns), order


def _by_row(details: Table, order: npt.NDArray[np.int64]) -> Table:
    if not details.rows:
        return details
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    rows = place[details["row"]]
    return Table(details.spec, {**details, "row": rows}).take(np.argsort(rows, kind="stable"))


def _column(table: str, name: str, parts: Sequence[_Part]) -> Array:
    """Return one column of all parts; what is constant in each may be so in all."""
    if all(part.is_constant(table, name) for part in parts):
        return joined([part.give(table, name) for part in parts])
    whole = np.empty(sum(part.rows[table] for part in parts), _TABLES[table][name].dtype)
    last = 0
    for part in parts:
        first, last = last, last + part.rows[table]
        whole[first:last] = part.give(table, name)
    return whole


def _renumbered(before: np.int32, rows: Array) -> Array:
    """Return rows of a table in which others now come before; -1 stays -1."""
    moved: Array = rows + before
    moved[rows < 0] = -1
    return moved
