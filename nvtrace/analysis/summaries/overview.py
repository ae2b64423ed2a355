"""Overview: for each type of event, how long any of that type was going on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nvtrace.analysis.events import Events
from nvtrace.analysis.frame import Frame
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.summaries.columns import count, percent, share, text, time
from nvtrace.model.schema import DeviceKind, RangeKind, RangeStyle
from nvtrace.report import ReportTable

_KIND_NAMES = {
    RangeKind.USER: "UserDefined",
    RangeKind.DATALOADER: "Dataloader",
    RangeKind.FORWARD: "Forward",
    RangeKind.BACKWARD: "Backward",
    RangeKind.OPTIMIZATION: "Optimization",
    RangeKind.COMMUNICATION: "Communication",
    RangeKind.OPERATOR: "Operator",
    RangeKind.OPERATOR_INNER: "OperatorInner",
    RangeKind.MODULE: "Module",
    RangeKind.DISPATCH: "Dispatch",
    RangeKind.COMPILE: "Compile",
    RangeKind.H2D: "H2D",
    RangeKind.D2H: "D2H",
    RangeKind.SYNC: "Sync",
}
_DEVICE_NAMES = {
    DeviceKind.KERNEL: "Kernel",
    DeviceKind.MEMCPY: "Memcpy",
    DeviceKind.MEMSET: "Memset",
    DeviceKind.GRAPH: "Graph",
}
STEP_NAME = "ProfileStep"
WINDOW_NAME = "Window"


class Going(NamedTuple):
    """What went on, by type of event: calls, ranges by RangeKind, GPU work by DeviceKind."""

    calls: Events
    ranges: dict[int, Events]
    device: dict[int, Events]
    communication: Events


class _Row(NamedTuple):
    side: str
    name: str
    calls: int | None
    time_ns: int | None


def gather(measures: Measures) -> Going:
    """Return what went on, also outside the window."""
    trace, reaching = measures.trace, measures.selection.reaching
    ranges, device = trace.ranges, trace.device
    timed = reaching.ranges & (ranges["style"] != RangeStyle.MARK)
    kinds = {kind: timed & (measures.explained.range_kind == kind) for kind in _KIND_NAMES}
    return Going(
        Events.of(trace.calls, reaching.calls),
        {kind: Events.of(ranges, chosen) for kind, chosen in kinds.items() if chosen.any()},
        {
            kind: Events.of(device, reaching.device & (device["kind"] == kind))
            for kind in _DEVICE_NAMES
        },
        Events.of(device, reaching.device & measures.communication),
    )


def table(found: Going, frame: Frame) -> ReportTable:
    """Return one row a type of event: how many, the union of their times, its share."""
    steps = frame.basis.steps
    first = _Row("cpu", STEP_NAME, steps, frame.window_ns) if steps else None
    cpu = sorted(_host_rows(found, frame), key=lambda row: -(row.time_ns or 0))
    device = _device_rows(found, frame)
    rows = [first or _Row("cpu", WINDOW_NAME, None, frame.window_ns), *cpu, *device]
    calls = np.array([row.calls or 0 for row in rows], np.int64)
    times = np.array([row.time_ns or 0 for row in rows], np.int64)
    recorded = np.array([row.time_ns is not None for row in rows], np.bool_)
    sections = np.empty(len(rows), object)
    for place, row in enumerate(rows):
        sections[place] = "" if row.side == "cpu" else ("", "Calls", "GPU Time", "Ratio (%)")
    return ReportTable(
        "overview",
        "Overview Summary",
        (
            text("side", "Side", [row.side for row in rows], shown=False),
            text("event_type", "Event Type", [row.name for row in rows]),
            count("calls", "Calls", calls, np.array([row.calls is not None for row in rows])),
            time("time_ns", "CPU Time", times, recorded),
            percent("ratio", "Ratio (%)", share(times, frame.window_ns), recorded),
        ),
        indent=np.array([0, *[1] * (len(rows) - 1)], np.int64),
        sections=sections,
        notes=(
            "Times are unions over threads, processes, streams and devices, cut to the window: "
            "overlapping events of one type count once.",
            "Ratios are of the window; types contain one another, so they do not add to 100.",
        ),
        whole=True,
    )


def _host_rows(found: Going, frame: Frame) -> list[_Row]:
    rows = []
    if frame.trace.recorded.calls:
        rows.append(_row("cpu", "CudaRuntime", found.calls, frame))
    for kind, name in _KIND_NAMES.items():
        if kind in found.ranges:
            rows.append(_row("cpu", name, found.ranges[kind], frame))
    return rows


def _device_rows(found: Going, frame: Frame) -> list[_Row]:
    recorded = frame.trace.recorded
    known = {
        DeviceKind.KERNEL: recorded.kernels,
        DeviceKind.MEMCPY: recorded.memcpy,
        DeviceKind.MEMSET: recorded.memset,
        DeviceKind.GRAPH: recorded.graphs,
    }
    rows = []
    for kind, name in _DEVICE_NAMES.items():
        if known[kind]:
            rows.append(_row("gpu", name, found.device[kind], frame))
        elif kind is not DeviceKind.GRAPH:
            rows.append(_Row("gpu", name, None, None))
    if recorded.kernels:
        rows.append(_row("gpu", "Communication", found.communication, frame))
    return rows


def _row(side: str, name: str, events: Events, frame: Frame) -> _Row:
    return _Row(side, name, events.calls(frame.window), events.within(frame.window))
