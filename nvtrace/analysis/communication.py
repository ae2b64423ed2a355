"""Communication and computation on the GPU, told apart by kernels, not by operators' names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.attribution import nearest_of
from nvtrace.analysis.intervals import Union, clipped
from nvtrace.model.arrays import distinct, factorize, taken
from nvtrace.model.explained import Explained
from nvtrace.model.schema import Attribution, DeviceKind, RangeKind, RangeStyle
from nvtrace.model.table import Table

if TYPE_CHECKING:
    from nvtrace.analysis.measures import Measures

I32 = npt.NDArray[np.int32]
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


def communication_kernels(explained: Explained) -> Mask:
    """Return device rows that are communication.

    These are kernels of collectives by their name, and kernels and copies launched inside a range
    of kind communication.
    """
    device = explained.trace.device
    names, codes = factorize(device["name"])
    named = [is_collective(text) for text in explained.trace.strings.take(names)]
    found: Mask = np.array(named, np.bool_)[codes] & (device["kind"] == DeviceKind.KERNEL)
    marked = explained.range_kind == RangeKind.COMMUNICATION
    if marked.any():
        around = nearest_of(marked, explained.range_parent, explained.range_levels)
        inside = taken(around >= 0, explained.device_range, none=False)
        found |= inside & (explained.device_how == Attribution.THREAD)
    return found


class Overlap(NamedTuple):
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
    device, window = measures.trace.device, measures.selection.window
    found = []
    for row, rows in measures.on_device.items():
        moves = measures.communication[rows]
        moving = _pieces(device, rows[moves], window)
        computes = rows[~moves & (device["kind"][rows] == DeviceKind.KERNEL)]
        computing = Union(device["start"][computes], device["end"][computes])
        found.append(
            Overlap(
                labels[row], _length(moving), computing.within(window), computing.within(moving)
            )
        )
    return found + _host_only(measures)


def _host_only(measures: Measures) -> list[Overlap]:
    """Return processes whose only trace of communication is on the host (gloo, MPI)."""
    trace, selection = measures.trace, measures.selection
    ranges = trace.ranges
    on_gpu = set(distinct(trace.device["process"][measures.communication]).tolist())
    chosen = selection.reaching.ranges & (measures.explained.range_kind == RangeKind.COMMUNICATION)
    chosen &= ranges["style"] != RangeStyle.MARK
    talking = np.flatnonzero(chosen)
    process = trace.threads["process"][ranges["thread"][talking]]
    found = []
    for row in distinct(process).tolist():
        if row in on_gpu:
            continue
        rows = talking[process == row]
        moving = _pieces(ranges, rows, selection.window)
        found.append(Overlap(f"CPU (pid {trace.processes[row].pid})", _length(moving), None, None))
    return found


def _pieces(table: Table, rows: I32 | I64, window: tuple[I64, I64]) -> tuple[I64, I64]:
    return clipped(table["start"][rows], table["end"][rows], window)


def _length(pieces: tuple[I64, I64]) -> int:
    return int((pieces[1] - pieces[0]).sum())
