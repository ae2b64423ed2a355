"""Memory view: copies and sets by kind, on the device and in the calls that launched them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.frame import Frame
from nvtrace.analysis.intervals import sum_by
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.parts import Figures, Groups
from nvtrace.analysis.summaries.columns import count, everywhere, figures, share, text
from nvtrace.analysis.summaries.device import no_device_activity
from nvtrace.model.arrays import among, distinct, factorize
from nvtrace.model.schema import DeviceKind
from nvtrace.report import Column, ReportTable, Unit

I64 = npt.NDArray[np.int64]


def gather(measures: Measures) -> Groups:
    """Return copies and sets by name: figures of GPU and CPU; bytes, and how many state them."""
    device = measures.trace.device
    chosen = measures.selection.device & among(
        device["kind"], (DeviceKind.MEMCPY, DeviceKind.MEMSET)
    )
    rows = np.flatnonzero(chosen)
    names, codes = factorize(device["name"][rows])
    sizes = device["bytes"][rows]
    call_codes, call_time = _launching_calls(measures, rows, codes)
    return Groups(
        names[:, np.newaxis].astype(np.int64),
        (
            Figures.of(codes, measures.device_time[rows], len(names)),
            Figures.of(call_codes, call_time, len(names)),
        ),
        (
            sum_by(codes, np.maximum(sizes, 0), len(names)),
            sum_by(codes, sizes >= 0, len(names)),
        ),
    )


def _launching_calls(
    measures: Measures, rows: I64, codes: npt.NDArray[np.int32]
) -> tuple[I64, I64]:
    """Return the group and the duration of each call that is known, each once a group."""
    calls = measures.trace.calls
    call = measures.explained.device_call[rows]
    known = call >= 0
    pairs = distinct(codes[known].astype(np.int64) * max(calls.rows, 1) + call[known])
    group, row = pairs // max(calls.rows, 1), pairs % max(calls.rows, 1)
    return group, calls["end"][row] - calls["start"][row]


def table(found: Groups, frame: Frame) -> ReportTable:
    """Return one row a kind of copy or set: calls, bytes, time of the calls and on the device."""
    (gpu, cpu), (moved, sized) = found.figures, found.sums
    launched, has_bytes = cpu.calls > 0, sized == gpu.calls
    seconds = gpu.total / 1e9
    bandwidth = np.zeros(len(found))
    np.divide(moved, seconds, out=bandwidth, where=seconds > 0)
    recorded = everywhere(True, len(found))
    return ReportTable(
        "memory",
        "Memory Manipulation Summary",
        (
            text("name", "Name", frame.trace.strings.take(found.keys[:, 0])),
            count("calls", "Calls", gpu.calls),
            Column("bytes", "Total Size", Unit.BYTES, moved, has_bytes),
            *figures("cpu", cpu, share(cpu.total, int(cpu.total.sum())), launched),
            *figures("gpu", gpu, share(gpu.total, int(gpu.total.sum())), recorded),
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
        empty=no_device_activity(frame),
    )
