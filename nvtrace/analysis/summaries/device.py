"""Device view: how busy each GPU was."""

from __future__ import annotations

import numpy as np

from nvtrace.analysis.intervals import clipped
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.summaries.columns import percent, share, text, time
from nvtrace.report import ReportTable

_NOTES = (
    "GPU busy is the union of kernels, copies, sets and graph runs, cut to the window; "
    "utilization = busy / window.",
)


def device_view(measures: Measures) -> ReportTable:
    """Return one row a GPU: busy time, window, utilization."""
    trace, selection = measures.trace, measures.selection
    device_of = trace.streams["device"][trace.device["stream"]]
    busy = []
    for row in range(len(trace.devices)):
        rows = np.flatnonzero(selection.reaching.device & (device_of == row))
        start, end = trace.device["start"][rows], trace.device["end"][rows]
        pieces = clipped(start, end, selection.window)
        busy.append(int((pieces[1] - pieces[0]).sum()))
    window = np.full(len(busy), selection.window_ns)
    busy_ns = np.array(busy, np.int64)
    return ReportTable(
        "device",
        "Device Summary",
        (
            text("device", "Device", device_labels(measures)),
            text("name", "Name", [device.name for device in trace.devices]),
            text("uuid", "UUID", [device.uuid for device in trace.devices], shown=False),
            time("busy_ns", "Busy", busy_ns),
            time("window_ns", "Window", window),
            percent("utilization", "Utilization (%)", share(busy_ns, window)),
        ),
        notes=_NOTES,
        empty=no_device_activity(measures),
        whole=True,
    )


def device_labels(measures: Measures) -> list[str]:
    """Return a label a device row, distinct: ``GPU0``, with the pid where that is not enough."""
    trace = measures.trace
    labels = [f"GPU{device.ordinal}" for device in trace.devices]
    for row, device in enumerate(trace.devices):
        if labels.count(f"GPU{device.ordinal}") > 1 or device.process >= 0:
            streams = np.flatnonzero(trace.streams["device"] == row)
            owners = {trace.processes[p].pid for p in trace.streams["process"][streams].tolist()}
            labels[row] += f" (pid {', '.join(map(str, sorted(owners)))})"
    for row, device in enumerate(trace.devices):
        if labels.count(labels[row]) > 1:
            labels[row] += f" [{device.uuid or device.bus_id or row}]"
    return labels


def no_device_activity(measures: Measures) -> str:
    """Return why there is no GPU work to show."""
    recorded = measures.trace.recorded
    if not recorded.device:
        return (
            "GPU activity was not recorded: trace CUDA too, for instance with "
            "nsys profile -t cuda,nvtx"
        )
    if measures.selection.narrowed and measures.trace.device.rows:
        return "no GPU activity in the selected part of the trace"
    return "GPU activity was traced, and there was none"
