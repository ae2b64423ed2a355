"""Overview: for each type of event, how long any of that type was going on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.intervals import Union, ascending_runs, spans
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.summaries.columns import count, percent, share, text, time
from nvtrace.model.schema import DeviceKind, RangeKind, RangeStyle
from nvtrace.model.table import Table
from nvtrace.report import ReportTable

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

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


class _Row(NamedTuple):
    side: str
    name: str
    calls: int | None
    time_ns: int | None


def overview_view(measures: Measures) -> ReportTable:
    """Return one row a type of event: how many, the union of their times, its share."""
    window_ns = measures.selection.window_ns
    cpu = sorted(_host_rows(measures), key=lambda row: -(row.time_ns or 0))
    steps = int(measures.selection.steps.sum())
    first = _Row("cpu", STEP_NAME, steps, window_ns) if steps else None
    rows = [first or _Row("cpu", WINDOW_NAME, None, window_ns), *cpu, *_device_rows(measures)]
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
            percent("ratio", "Ratio (%)", share(times, window_ns), recorded),
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


def _host_rows(measures: Measures) -> list[_Row]:
    ranges, calls = measures.trace.ranges, measures.trace.calls
    reaching, kinds = measures.selection.reaching, measures.explained.range_kind
    timed = reaching.ranges & (ranges["style"] != RangeStyle.MARK)
    rows = []
    if measures.trace.recorded.calls:
        rows.append(_union_row("cpu", "CudaRuntime", calls, reaching.calls, measures))
    for kind, name in _KIND_NAMES.items():
        chosen = timed & (kinds == kind)
        if chosen.any():
            rows.append(_union_row("cpu", name, ranges, chosen, measures))
    return rows


def _device_rows(measures: Measures) -> list[_Row]:
    device, recorded = measures.trace.device, measures.trace.recorded
    reaching = measures.selection.reaching.device
    known = {
        DeviceKind.KERNEL: recorded.kernels,
        DeviceKind.MEMCPY: recorded.memcpy,
        DeviceKind.MEMSET: recorded.memset,
        DeviceKind.GRAPH: recorded.graphs,
    }
    rows = []
    for kind, name in _DEVICE_NAMES.items():
        if known[kind]:
            chosen = reaching & (device["kind"] == kind)
            rows.append(_union_row("gpu", name, device, chosen, measures))
        elif kind is not DeviceKind.GRAPH:
            rows.append(_Row("gpu", name, None, None))
    if recorded.kernels:
        chosen = reaching & measures.communication
        rows.append(_union_row("gpu", "Communication", device, chosen, measures))
    return rows


def _union_row(side: str, name: str, table: Table, chosen: Mask, measures: Measures) -> _Row:
    window = measures.selection.window
    start, end = table["start"], table["end"]
    if not chosen.all():
        rows = np.flatnonzero(chosen)
        start, end = start[rows], end[rows]
    calls = sum(_overlapping(start[run], end[run], window) for run in ascending_runs(start))
    return _Row(side, name, calls, Union(start, end).within(window))


def _overlapping(start: I64, end: I64, window: tuple[I64, I64]) -> int:
    """Return how many intervals, sorted by start, share time with the window.

    An instant in it, or on its border, does.
    """
    # who starts inside does; the others are looked at one by one
    first = np.searchsorted(start, window[0], side="left")
    last = np.searchsorted(start, window[1], side="left")
    others = spans(np.append(0, last), np.append(first, len(start)))
    count = len(start) - len(others)
    start, end = start[others], end[others]
    first = np.searchsorted(window[1], start, side="right")
    last = np.searchsorted(window[0], end, side="left")
    instants = start == end
    first[instants] = np.searchsorted(window[1], start[instants], side="left")
    last[instants] = np.searchsorted(window[0], end[instants], side="right")
    return count + int(np.count_nonzero(first < last))
