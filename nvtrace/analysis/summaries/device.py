"""Device view: how busy each GPU was."""

from __future__ import annotations

import numpy as np

from nvtrace.analysis.intervals import Union
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.summaries.columns import percent, share, text, time
from nvtrace.model.trace import GPU_NOT_RECORDED
from nvtrace.report import ReportTable

_NOTES = (
    "GPU busy is the union of kernels, copies, sets and graph runs, cut to the window; "
    "utilization = busy / window.",
)
_CPU = (
    "CPU(Process) is the CPU time of this process, CPU(Children) that of its children (loader "
    "workers), 100 % being one core; CPU(System) is all processes, 100 % being all cores.",
)
_NO_CPU = ("CPU utilization was not recorded.",)


def device_view(measures: Measures) -> ReportTable:
    """Return one row a GPU: busy time, window, utilization."""
    trace, selection = measures.trace, measures.selection
    start, end = trace.device["start"], trace.device["end"]
    busy = [
        Union(start[rows], end[rows]).within(selection.window)
        for rows in measures.on_device.values()
    ]
    cpu = trace.cpu
    labels = device_labels(measures)
    devices = [trace.devices[row] for row in measures.devices]
    names = [usage.name for usage in cpu] + [labels[row] for row in measures.devices]
    busy_ns = np.array([usage.busy_ns for usage in cpu] + busy, np.int64)
    window_ns = np.array(
        [usage.window_ns for usage in cpu] + [selection.window_ns] * len(busy), np.int64
    )
    known: list[str | None] = [None] * len(cpu)
    return ReportTable(
        "device",
        "Device Summary",
        (
            text("device", "Device", names),
            text("name", "Name", known + [device.name for device in devices]),
            text("uuid", "UUID", known + [device.uuid for device in devices], shown=False),
            time("busy_ns", "Busy", busy_ns),
            time("window_ns", "Window", window_ns),
            percent("utilization", "Utilization (%)", share(busy_ns, window_ns)),
        ),
        notes=_notes(measures),
        empty=no_device_activity(measures),
        whole=True,
    )


def _notes(measures: Measures) -> tuple[str, ...]:
    trace = measures.trace
    found = _CPU if trace.cpu else _NO_CPU
    return (*_NOTES, *found) if trace.devices else (*found, no_device_activity(measures))


def device_labels(measures: Measures) -> list[str]:
    """Return a label a device row, distinct: ``GPU0``, with the pid where that is not enough."""
    trace = measures.trace
    plain = [f"GPU{device.ordinal}" for device in trace.devices]
    labels = plain.copy()
    for row, device in enumerate(trace.devices):
        if plain.count(plain[row]) > 1 or device.process >= 0:
            streams = np.flatnonzero(trace.streams["device"] == row)
            owners = {trace.processes[p].pid for p in trace.streams["process"][streams].tolist()}
            labels[row] += f" (pid {', '.join(map(str, sorted(owners)))})"
    return [
        label if labels.count(label) == 1 else f"{label} [{device.uuid or device.bus_id or row}]"
        for row, (label, device) in enumerate(zip(labels, trace.devices, strict=True))
    ]


def no_device_activity(measures: Measures) -> str:
    """Return why there is no GPU work to show."""
    recorded = measures.trace.recorded
    for note in measures.trace.notes:
        if note.code == GPU_NOT_RECORDED:
            return note.message
    if not recorded.device:
        return (
            "GPU activity was not recorded: trace CUDA too, for instance with "
            "nsys profile -t cuda,nvtx"
        )
    if measures.selection.narrowed and measures.trace.device.rows:
        return "no GPU activity in the selected part of the trace"
    return "GPU activity was traced, and there was none"
