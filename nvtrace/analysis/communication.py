"""Communication and computation on the GPU, told apart by kernels, not by operators' names."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.attribution import nearest_of
from nvtrace.analysis.intervals import clipped, intersection_length
from nvtrace.analysis.measures import Measures
from nvtrace.model.arrays import factorize
from nvtrace.model.schema import Attribution, DeviceKind, RangeKind, RangeStyle

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# kernels of NCCL, RCCL, NVSHMEM, and of frameworks' own collectives
_COLLECTIVE = re.compile(
    r"nccl(?:Dev|Kernel|_|Sym)|ncclDevKernel|rccl|nvshmem|xccl|mscclpp?_?kernel|"
    r"(?:one|two)[_]?shot[_]?all[_]?reduce|cross_device_reduce|multimem_(?:one_shot_)?all_(?:reduce|gather)|"
    r"custom_all_reduce|all_reduce_(?:one|two)shot|allreduce_fusion_kernel",
    re.IGNORECASE,
)


def is_collective(kernel: str) -> bool:
    """Return whether a kernel of this name moves data between GPUs."""
    return _COLLECTIVE.search(kernel) is not None


def communication_kernels(measures: Measures) -> Mask:
    """Return device rows that are communication.

    These are kernels of collectives by their name, and kernels and copies launched inside a range
    of kind communication.
    """
    trace, explained = measures.trace, measures.explained
    device = trace.device
    names, codes = factorize(device["name"])
    named = np.array([is_collective(text) for text in trace.strings.take(names)], np.bool_)
    found: Mask = np.zeros(device.rows, np.bool_)
    if len(names):
        found = named[codes] & (device["kind"] == DeviceKind.KERNEL)
    inside = nearest_of(explained.range_kind == RangeKind.COMMUNICATION, explained.range_parent)
    owned = np.flatnonzero(explained.device_how == Attribution.THREAD)
    found[owned[inside[explained.device_range[owned]] >= 0]] = True
    return found


@dataclass(frozen=True)
class Overlap:
    """Communication, computation and both at once, on one device or one process's CPU, ns."""

    label: str
    communication: int
    computation: int | None
    both: int | None


def overlaps(measures: Measures, labels: list[str]) -> list[Overlap]:
    """Return the overlap on each device; and of processes that communicate without one.

    Args:
        measures: the trace.
        labels: what to call each device row.
    """
    trace, selection = measures.trace, measures.selection
    device = trace.device
    communication = communication_kernels(measures)
    kernels = device["kind"] == DeviceKind.KERNEL
    device_of = trace.streams["device"][device["stream"]]
    found = []
    for row in measures.devices:
        here = selection.reaching.device & (device_of == row)
        moving = _pieces(measures, np.flatnonzero(here & communication))
        computing = _pieces(measures, np.flatnonzero(here & kernels & ~communication))
        found.append(
            Overlap(
                labels[row],
                _length(moving),
                _length(computing),
                intersection_length(moving, computing),
            )
        )
    return found + _host_only(measures, communication)


def _host_only(measures: Measures, communication: Mask) -> list[Overlap]:
    """Return processes whose only trace of communication is on the host (gloo, MPI)."""
    trace, selection = measures.trace, measures.selection
    ranges = trace.ranges
    on_gpu = set(np.unique(trace.device["process"][communication]).tolist())
    chosen = selection.reaching.ranges & (measures.explained.range_kind == RangeKind.COMMUNICATION)
    chosen &= ranges["style"] != RangeStyle.MARK
    process = trace.threads["process"][ranges["thread"]]
    found = []
    for row in np.unique(process[chosen]).tolist():
        if row in on_gpu:
            continue
        rows = np.flatnonzero(chosen & (process == row))
        pieces = clipped(ranges["start"][rows], ranges["end"][rows], selection.window)
        found.append(Overlap(f"CPU (pid {trace.processes[row].pid})", _length(pieces), None, None))
    return found


def _pieces(measures: Measures, rows: I64) -> tuple[I64, I64]:
    device = measures.trace.device
    return clipped(device["start"][rows], device["end"][rows], measures.selection.window)


def _length(pieces: tuple[I64, I64]) -> int:
    return int((pieces[1] - pieces[0]).sum())
