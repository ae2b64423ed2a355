"""Device view: how busy each GPU was."""

from __future__ import annotations

import numpy as np

from nvtrace.analysis.events import NOTHING, Events
from nvtrace.analysis.frame import Frame
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.summaries.columns import percent, share, text, time
from nvtrace.model.trace import GPU_NOT_RECORDED, TraceData
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


Busy = dict[int, Events]


def gather(measures: Measures) -> Busy:
    """Return when each GPU worked, by its row."""
    device = measures.trace.device
    return {row: Events.of(device, rows, count=False) for row, rows in measures.on_device.items()}


def table(found: Busy, frame: Frame) -> ReportTable:
    """Return one row a GPU: busy time, window, utilization."""
    trace = frame.trace
    busy = [found.get(row, NOTHING).within(frame.window) for row in frame.devices]
    cpu = trace.cpu
    labels = device_labels(trace)
    devices = [trace.devices[row] for row in frame.devices]
    names = [usage.name for usage in cpu] + [labels[row] for row in frame.devices]
    busy_ns = np.array([usage.busy_ns for usage in cpu] + busy, np.int64)
    window_ns = np.array(
        [usage.window_ns for usage in cpu] + [frame.window_ns] * len(busy), np.int64
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
        notes=_notes(frame),
        empty=no_device_activity(frame),
        whole=True,
    )


def _notes(frame: Frame) -> tuple[str, ...]:
    trace = frame.trace
    found = _CPU if trace.cpu else _NO_CPU
    return (*_NOTES, *found) if trace.devices else (*found, no_device_activity(frame))


def device_labels(trace: TraceData) -> list[str]:
    """Return a label a device row, distinct: ``GPU0``, with the pid where that is not enough."""
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


def no_device_activity(frame: Frame) -> str:
    """Return why there is no GPU work to show."""
    recorded = frame.trace.recorded
    for note in frame.trace.notes:
        if note.code == GPU_NOT_RECORDED:
            return note.message
    if not recorded.device:
        return (
            "GPU activity was not recorded: trace CUDA too, for instance with "
            "nsys profile -t cuda,nvtx"
        )
    if frame.narrowed and frame.basis.device_rows:
        return "no GPU activity in the selected part of the trace"
    return "GPU activity was traced, and there was none"
