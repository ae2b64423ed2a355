"""What a trace holds, before any figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nvtrace.analysis.reporting import summarize
from nvtrace.analysis.summaries.columns import count, text, time
from nvtrace.model.explained import Explained
from nvtrace.model.schema import DeviceKind, RangeKind, RangeStyle
from nvtrace.report import Column, Report, ReportTable, Unit


def info(explained: Explained) -> Report:
    """Return tables of sources, contents, processes, devices and domains."""
    base = summarize(explained, ())
    tables = (
        _sources(explained),
        _contents(explained),
        _processes(explained),
        _devices(explained),
        _domains(explained),
        _kinds(explained),
    )
    return Report(
        tables={table.key: table for table in tables},
        totals=base.totals,
        notes=base.notes,
        sources=base.sources,
        headline=base.headline,
    )


def _sources(explained: Explained) -> ReportTable:
    sources = explained.trace.sources
    offsets = np.array([source.offset_ns for source in sources], np.int64)
    return ReportTable(
        "sources",
        "Sources",
        (
            text("name", "File", [source.name for source in sources]),
            text("product", "Written by", [source.product for source in sources]),
            text("schema", "Schema", [source.schema for source in sources]),
            time("offset_ns", "Clock offset", offsets),
        ),
    )


def _contents(explained: Explained) -> ReportTable:
    trace = explained.trace
    recorded = trace.recorded
    styles = np.bincount(trace.ranges["style"], minlength=len(RangeStyle))
    kinds = np.bincount(trace.device["kind"], minlength=len(DeviceKind))
    rows: list[tuple[str, int, bool]] = [
        ("push/pop ranges", int(styles[RangeStyle.PUSH_POP]), recorded.ranges),
        ("start/end ranges", int(styles[RangeStyle.START_END]), recorded.ranges),
        ("marks", int(styles[RangeStyle.MARK]), recorded.ranges),
        ("CUDA calls", trace.calls.rows, recorded.calls),
        ("kernels", int(kinds[DeviceKind.KERNEL]), recorded.kernels),
        ("memory copies", int(kinds[DeviceKind.MEMCPY]), recorded.memcpy),
        ("memory sets", int(kinds[DeviceKind.MEMSET]), recorded.memset),
        ("CUDA graph runs", int(kinds[DeviceKind.GRAPH]), recorded.graphs),
        ("counter samples", trace.samples.rows, bool(trace.samples.rows)),
    ]
    return ReportTable(
        "contents",
        "Contents",
        (
            text("kind", "Kind", [row[0] for row in rows]),
            count(
                "rows", "Rows", np.array([row[1] for row in rows]), np.array([r[2] for r in rows])
            ),
        ),
        notes=("A dash: the file has no table for it, it was not recorded.",),
    )


def _processes(explained: Explained) -> ReportTable:
    trace = explained.trace
    processes = trace.processes
    owner = trace.threads["process"]
    ranges = np.bincount(owner[trace.ranges["thread"]], minlength=len(processes))
    ranks = np.array([-1 if p.rank is None else p.rank for p in processes], np.int64)
    return ReportTable(
        "processes",
        "Processes",
        (
            count("pid", "Process", np.array([process.pid for process in processes], np.int64)),
            text("name", "Name", [process.name for process in processes]),
            count("rank", "Rank", np.maximum(ranks, 0), ranks >= 0),
            text("source", "File", [process.source for process in processes]),
            count("threads", "Threads", np.bincount(owner, minlength=len(processes))),
            count("ranges", "Ranges", ranges),
            count("calls", "Calls", np.bincount(trace.calls["process"], minlength=len(processes))),
            count(
                "device_rows",
                "Device rows",
                np.bincount(trace.device["process"], minlength=len(processes)),
            ),
        ),
        empty="no process recorded anything",
    )


def _devices(explained: Explained) -> ReportTable:
    devices = explained.trace.devices
    return ReportTable(
        "devices",
        "Devices",
        (
            count("ordinal", "CUDA device", np.array([d.ordinal for d in devices], np.int64)),
            text("name", "Name", [device.name for device in devices]),
            text("uuid", "UUID", [device.uuid for device in devices]),
            text("bus_id", "PCI bus", [device.bus_id for device in devices]),
            _optional("memory_bytes", "Memory", Unit.BYTES, [d.memory_bytes for d in devices]),
            _optional("sm_count", "SMs", Unit.COUNT, [device.sm_count for device in devices]),
        ),
        empty="no GPU did anything, or none was recorded",
    )


def _optional(key: str, title: str, unit: Unit, values: Sequence[int | None]) -> Column:
    numbers = np.array([value or 0 for value in values], np.int64)
    return Column(key, title, unit, numbers, np.array([v is not None for v in values], np.bool_))


def _domains(explained: Explained) -> ReportTable:
    trace = explained.trace
    names: dict[str, list[Any]] = {}
    counts = np.bincount(trace.ranges["domain"], minlength=len(trace.domains))
    for domain, rows in zip(trace.domains, counts.tolist(), strict=True):
        entry = names.setdefault(domain.name, [0, 0])
        entry[0] += rows
        entry[1] += 1
    return ReportTable(
        "domains",
        "NVTX domains",
        (
            text("domain", "Domain", [name or "(default)" for name in names]),
            count("ranges", "Ranges", np.array([entry[0] for entry in names.values()], np.int64)),
            count(
                "processes", "Processes", np.array([entry[1] for entry in names.values()], np.int64)
            ),
        ),
        empty="no NVTX ranges",
    )


def _kinds(explained: Explained) -> ReportTable:
    counts = np.bincount(explained.range_kind, minlength=len(RangeKind))
    guessed = np.bincount(explained.range_kind[explained.range_guessed], minlength=len(RangeKind))
    present = [kind for kind in RangeKind if counts[kind]]
    return ReportTable(
        "kinds",
        "Kinds of ranges",
        (
            text("kind", "Kind", [kind.name.lower() for kind in present]),
            count("ranges", "Ranges", np.array([counts[kind] for kind in present], np.int64)),
            count("guessed", "By name alone", np.array([guessed[k] for k in present], np.int64)),
        ),
        empty="no NVTX ranges",
    )
