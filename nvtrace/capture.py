"""From what was recorded in this process to a Trace."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.module_backward import with_backward_modules
from nvtrace.emit import DOMAIN, pairing
from nvtrace.emit.recording import Recording
from nvtrace.model import schema
from nvtrace.model.arrays import factorize, time_order
from nvtrace.model.harvest import Harvest, HarvestedMarks, HarvestedRanges, category_of
from nvtrace.model.schema import PayloadType, RangeKind, RangeStyle
from nvtrace.model.strings import Strings
from nvtrace.model.table import Table
from nvtrace.model.trace import (
    GPU_NOT_RECORDED,
    CpuUsage,
    Device,
    Domain,
    Note,
    Process,
    Recorded,
    Source,
    TraceData,
)
from nvtrace.trace import Trace

if TYPE_CHECKING:
    from nvtrace.sources.cupti import Activity

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Columns = dict[str, npt.NDArray[Any]]

_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "PADDLE_TRAINER_ID")


def rank_of_process() -> int | None:
    """Return this process's rank as its launcher states it, None when there is no launcher."""
    for name in _RANK_VARIABLES:
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return None


def build(
    recording: Recording,
    activity: Activity | None,
    harvests: Sequence[Harvest] = (),
    *,
    notes: Sequence[Note] = (),
    cpu: Sequence[CpuUsage] = (),
) -> Trace:
    """Return the trace of one window.

    Args:
        recording: ranges of this process.
        activity: GPU work of this process, None when it was not collected.
        harvests: what frameworks' own tracers recorded.
        notes: what the reader should know.
        cpu: CPU time over the window.
    """
    if any(harvest.device is not None for harvest in harvests):
        notes = [note for note in notes if note.code != GPU_NOT_RECORDED]
    every = [*notes, *(note for harvest in harvests for note in harvest.notes)]
    trace = _Assembly(recording, activity, harvests).trace(tuple(every), tuple(cpu))
    return Trace.of(with_backward_modules(trace))


class _Assembly:
    """Names, threads and streams of one window, numbered as they are met."""

    def __init__(
        self, recording: Recording, activity: Activity | None, harvests: Sequence[Harvest]
    ) -> None:
        self._harvests = harvests
        self._recording = recording
        found = (harvest.device for harvest in harvests if harvest.device is not None)
        self._activity = next(found, None) if activity is None else activity
        self._strings = Strings()
        self._categories = Strings()
        self._domains: dict[str, int] = {}
        self._tids: dict[int, int] = {}
        self._thread_names: dict[int, str] = {}

    def trace(self, notes: tuple[Note, ...], cpu: tuple[CpuUsage, ...]) -> TraceData:
        ranges = self._ranges()
        for harvest in self._harvests:
            self._thread_names = {**harvest.thread_names, **self._thread_names}
            ranges = self._without_ends_of_data(ranges, harvest)
            if harvest.ranges is not None:
                ranges = _joined(ranges, self._harvested(harvest, harvest.ranges))
            if harvest.marks is not None:
                ranges = _joined(ranges, self._harvested_marks(harvest, harvest.marks))
        calls, device, details, streams, devices = self._device_side()
        starts = [c["start"] for c in (ranges, calls, device) if c and len(c["start"])]
        zero = min((int(s.min()) for s in starts), default=self._recording.start_ns)
        order = time_order(device)
        name = os.path.basename(sys.argv[0]) or "python"
        source = Source(f"{name} (pid {os.getpid()})", "nvtrace Profiler")
        process = Process(os.getpid(), name, rank_of_process(), socket.gethostname(), source.name)
        return TraceData(
            ranges=_table(schema.RANGES, ranges, zero),
            calls=_table(schema.CALLS, calls, zero),
            device=_table(schema.DEVICE, device, zero, order),
            kernel_details=_moved(details, order),
            samples=self._samples(zero),
            counters=tuple(counter for harvest in self._harvests for counter in harvest.counters),
            streams=Table(schema.STREAMS, streams) if streams else Table.empty(schema.STREAMS),
            threads=self._threads(),
            strings=self._strings,
            domains=tuple(Domain(0, domain) for domain in self._domains),
            categories=tuple(self._categories),
            processes=(process,),
            devices=devices,
            cpu=cpu,
            sources=(source,),
            notes=notes,
            recorded=self._recorded(),
            origin_unix_ns=zero,
            shift_ns=zero,
            capture_start=max(self._recording.start_ns - zero, 0),
        )

    def _recorded(self) -> Recorded:
        if self._activity is None:
            return Recorded(ranges=True)
        return Recorded(
            ranges=True,
            calls=True,
            kernels="kernel" in self._activity.kinds,
            memcpy="memcpy" in self._activity.kinds,
            memset="memset" in self._activity.kinds,
            graphs=bool(self._activity.graph_level),
        )

    def _thread(self, tids: npt.NDArray[Any]) -> I32:
        distinct, codes = factorize(np.asarray(tids, np.int64))
        rows = [self._tids.setdefault(tid, len(self._tids)) for tid in distinct.tolist()]
        return np.array(rows, np.int32)[codes]

    def _threads(self) -> Table:
        names = [
            self._strings.intern(self._thread_names[tid]) if tid in self._thread_names else -1
            for tid in self._tids
        ]
        return Table(
            schema.THREADS,
            {
                "process": np.zeros(len(names), np.int32),
                "tid": np.fromiter(self._tids, np.int64, len(names)),
                "name": np.array(names, np.int32),
            },
        )

    def _ranges(self) -> Columns:
        for thread in self._recording.threads:
            self._thread_names[thread.tid] = thread.name
        rows = pairing.rows(self._recording)
        labels = pairing.label_columns(
            self._recording.labels, self._strings, self._categories, self._domains
        )
        return {
            "start": rows.start,
            "end": rows.end,
            "thread": self._thread(rows.thread),
            "end_thread": self._thread(rows.end_thread),
            "style": rows.style,
            "flags": rows.flags,
            **{name: values[rows.label] for name, values in labels.items()},
            "text": np.full(len(rows.label), -1, np.int32),
        }

    def _harvested(self, harvest: Harvest, rows: HarvestedRanges) -> Columns:
        names = self._strings.intern_all(harvest.strings)
        count = len(rows.start)
        kinds, codes = factorize(rows.kind)
        categories = self._categories.intern_all(category_of(kind) for kind in kinds.tolist())
        thread = self._thread(rows.thread)
        return {
            "start": rows.start,
            "end": np.maximum(rows.end, rows.start),
            "name": names[rows.name] if count else rows.name,
            "domain": np.full(count, self._domains.setdefault(DOMAIN, len(self._domains))),
            "category": categories[codes] if count else codes,
            "thread": thread,
            "end_thread": thread,
            "style": _styles(rows),
            "flags": np.zeros(count, np.uint8),
            "color": np.zeros(count, np.uint32),
            **_sequence(rows),
            "text": np.where(rows.text >= 0, names[rows.text], -1) if count else rows.text,
        }

    def _harvested_marks(self, harvest: Harvest, rows: HarvestedMarks) -> Columns:
        names = self._strings.intern_all(harvest.strings)
        count = len(rows.time)
        thread = self._thread(rows.thread)
        return {
            "start": rows.time,
            "end": rows.time,
            "name": names[rows.name] if count else rows.name,
            "domain": np.full(count, self._domains.setdefault(DOMAIN, len(self._domains))),
            "category": np.full(count, self._categories.intern(rows.category)),
            "thread": thread,
            "end_thread": thread,
            "style": np.full(count, RangeStyle.MARK, np.uint8),
            "flags": np.zeros(count, np.uint8),
            "color": np.zeros(count, np.uint32),
            "payload_type": np.full(count, PayloadType.INT, np.uint8),
            "payload": rows.payload,
            "text": np.full(count, -1, np.int32),
        }

    def _without_ends_of_data(self, ranges: Columns, harvest: Harvest) -> Columns:
        kept = np.ones(len(ranges["start"]), np.bool_)
        category = self._categories.find(category_of(RangeKind.DATALOADER))
        waits = np.flatnonzero(ranges["category"] == category)
        for tid, start, end in harvest.ends_of_data:
            inside = (ranges["start"][waits] >= start) & (ranges["end"][waits] <= end)
            kept[waits[inside & (ranges["thread"][waits] == self._tids.get(tid, -1))]] = False
        return {name: values[kept] for name, values in ranges.items()}

    def _samples(self, zero: int) -> Table:
        parts = []
        before = 0
        for harvest in self._harvests:
            if harvest.samples is not None:
                columns = dict(harvest.samples)
                columns["time"] = columns["time"] - zero
                columns["counter"] = columns["counter"] + before
                parts.append(columns)
            before += len(harvest.counters)
        joined = Table.concatenate(schema.SAMPLES, parts)
        return joined.take(np.argsort(joined["time"], kind="stable"))

    def _device_side(self) -> tuple[Columns, Columns, Columns, Columns, tuple[Device, ...]]:
        activity = self._activity
        if activity is None:
            return {}, {}, {}, {}, ()
        names = self._strings.intern_all(activity.strings)
        calls = dict(activity.calls)
        count = len(calls["start"])
        call_columns = {
            "start": calls["start"],
            "end": calls["end"],
            "name": names[calls["name"]] if count else calls["name"].astype(np.int32),
            "thread": self._thread(calls["thread_id"]),
            "process": np.zeros(count, np.int32),
            "correlation": calls["correlation"].astype(np.int64),
        }
        device = dict(activity.device)
        streams, stream_rows, devices = _streams(device, activity.devices)
        rows = len(device["start"])
        device_columns = {
            "start": device["start"],
            "end": device["end"],
            "name": names[device["name"]] if rows else device["name"].astype(np.int32),
            "short_name": names[device["short_name"]] if rows else device["name"].astype(np.int32),
            "kind": device["kind"],
            "stream": stream_rows,
            "process": np.zeros(rows, np.int32),
            "correlation": device["correlation"].astype(np.int64),
            "bytes": device["bytes"],
            "copy_kind": device["copy_kind"],
            "graph_node": device["graph_node"],
        }
        return call_columns, device_columns, dict(activity.details), streams, devices


def _styles(rows: HarvestedRanges) -> npt.NDArray[np.uint8]:
    if rows.beside is None:
        return np.full(len(rows.start), RangeStyle.PUSH_POP, np.uint8)
    return np.where(rows.beside, RangeStyle.START_END, RangeStyle.PUSH_POP).astype(np.uint8)


def _sequence(rows: HarvestedRanges) -> Columns:
    if rows.sequence is None:
        return {"payload_type": np.zeros(len(rows.start), np.uint8), "payload": rows.start * 0}
    given = rows.sequence >= 0
    return {
        "payload_type": np.where(given, PayloadType.INT, PayloadType.NONE).astype(np.uint8),
        "payload": np.where(given, rows.sequence, 0),
    }


def _joined(first: Columns, second: Columns) -> Columns:
    return {name: np.concatenate([first[name], second[name]]) for name in first}


def _streams(device: Columns, known: Sequence[Device]) -> tuple[Columns, I32, tuple[Device, ...]]:
    ordinals, device_codes = factorize(np.asarray(device["device"], np.int64))
    by_ordinal = {one.ordinal: one for one in known}
    devices = tuple(by_ordinal.get(n, Device(n, process=0)) for n in ordinals.tolist())
    rows: dict[tuple[int, int, int], int] = {}
    keys = zip(
        device_codes.tolist(), device["context"].tolist(), device["stream"].tolist(), strict=True
    )
    stream_rows = np.fromiter(
        (rows.setdefault(key, len(rows)) for key in keys), np.int32, len(device_codes)
    )
    table = np.array(list(rows), np.int64).reshape(-1, 3)
    columns: Columns = {
        "device": table[:, 0],
        "context": table[:, 1],
        "stream": table[:, 2],
        "process": np.zeros(len(table), np.int32),
    }
    return columns, stream_rows, devices


def _table(
    spec: dict[str, schema.ColumnSpec], columns: Columns, zero: int, order: I64 | None = None
) -> Table:
    if not columns:
        return Table.empty(spec)
    rows = time_order(columns) if order is None else order
    return Table(
        spec,
        {
            name: (values - zero if name in ("start", "end") else values)[rows]
            for name, values in columns.items()
        },
    )


def _moved(details: Columns, order: I64) -> Table:
    """Return kernel details with their rows in the sorted device table."""
    if not details:
        return Table.empty(schema.KERNEL_DETAILS)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    moved = Table(schema.KERNEL_DETAILS, {**details, "row": place[details["row"]]})
    return moved.take(np.argsort(moved["row"], kind="stable"))
