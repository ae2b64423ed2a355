"""Kernel view, and copies and sets: what ran on the devices, by name."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.intervals import sum_by
from nvtrace.analysis.measures import Figures, Measures
from nvtrace.analysis.summaries.columns import count, everywhere, figures, share, text
from nvtrace.analysis.summaries.device import no_device_activity
from nvtrace.model.arrays import among, distinct, factorize, first_rows
from nvtrace.model.schema import DeviceKind
from nvtrace.report import Column, ReportTable, Unit

I64 = npt.NDArray[np.int64]


def kernel_view(measures: Measures) -> ReportTable:
    """Return one row a kernel, by full name; runs of whole CUDA graphs are rows of their own."""
    device, strings = measures.trace.device, measures.trace.strings
    chosen = measures.selection.device & among(
        device["kind"], (DeviceKind.KERNEL, DeviceKind.GRAPH)
    )
    names, codes = factorize(device["name"])
    # the others are a group that is left out: most rows are chosen, and need no copy
    codes = np.where(chosen, codes, np.int32(len(names)))
    values = Figures.of(codes, measures.device_time, len(names) + 1)
    ran = np.flatnonzero(values.calls[:-1])
    values = Figures(values.calls[ran], values.total[ran], values.maximum[ran], values.minimum[ran])
    names, first = names[ran], first_rows(codes, len(names) + 1)[ran]
    graphs = device["kind"][first] == DeviceKind.GRAPH
    recorded = everywhere(True, len(names))
    notes = ["GPU Total is the sum of durations; ratios are of the sum of all rows."]
    if graphs.any():
        notes.append(
            "A [CUDA graph] row is a run of a whole graph (graph-level tracing): its kernels were "
            "not recorded one by one; nsys profile --cuda-graph-trace=node records them."
        )
    return ReportTable(
        "kernel",
        "Kernel Summary",
        (
            text("name", "Name", strings.take(names)),
            text(
                "short_name", "Short name", strings.take(device["short_name"][first]), shown=False
            ),
            count("calls", "Calls", values.calls),
            *figures("gpu", values, share(values.total, int(values.total.sum())), recorded),
        ),
        notes=tuple(notes),
        empty=no_device_activity(measures),
    )


def memory_view(measures: Measures) -> ReportTable:
    """Return one row a kind of copy or set: calls, bytes, time of the calls and on the device."""
    device, strings = measures.trace.device, measures.trace.strings
    chosen = measures.selection.device & among(
        device["kind"], (DeviceKind.MEMCPY, DeviceKind.MEMSET)
    )
    rows = np.flatnonzero(chosen)
    names, codes = factorize(device["name"][rows])
    count_ = len(names)
    gpu = Figures.of(codes, measures.device_time[rows], count_)
    sized = device["bytes"][rows] >= 0
    moved = sum_by(codes, np.where(sized, device["bytes"][rows], 0), count_)
    has_bytes = sum_by(codes, sized.astype(np.int64), count_) == gpu.calls
    launched, call_codes, call_time = _launching_calls(measures, rows, codes)
    cpu = Figures.of(call_codes, call_time, count_)
    seconds = gpu.total / 1e9
    bandwidth = np.zeros(count_)
    np.divide(moved, seconds, out=bandwidth, where=seconds > 0)
    return ReportTable(
        "memory",
        "Memory Manipulation Summary",
        (
            text("name", "Name", strings.take(names)),
            count("calls", "Calls", gpu.calls),
            Column("bytes", "Total Size", Unit.BYTES, moved, has_bytes),
            *figures("cpu", cpu, share(cpu.total, int(cpu.total.sum())), launched),
            *figures("gpu", gpu, share(gpu.total, int(gpu.total.sum())), everywhere(True, count_)),
            Column(
                "bandwidth_bytes_per_s",
                "Bandwidth",
                Unit.BYTES_PER_S,
                bandwidth,
                has_bytes & (seconds > 0),
            ),
        ),
        notes=(
            "CPU is the time of the CUDA calls that launched the copies, each call once; GPU is "
            "the copies' own time. Ratios are of the sums of all rows. Bandwidth = bytes / GPU "
            "time.",
        ),
        empty=no_device_activity(measures),
    )


def _launching_calls(
    measures: Measures, rows: I64, codes: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.bool_], I64, I64]:
    """Return which groups have a known call, and each distinct call's group and duration."""
    calls = measures.trace.calls
    call = measures.explained.device_call[rows]
    known = call >= 0
    groups = int(codes.max()) + 1 if len(codes) else 0
    pairs = distinct(codes[known].astype(np.int64) * max(calls.rows, 1) + call[known])
    group, row = pairs // max(calls.rows, 1), pairs % max(calls.rows, 1)
    have = np.zeros(groups, np.bool_)
    have[group] = True
    return have, group, calls["end"][row] - calls["start"][row]
