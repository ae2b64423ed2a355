"""Communication and computation on the GPU, told apart by kernels, not by operators' names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.attribution import nearest_of
from nvtrace.analysis.events import NOTHING, Events
from nvtrace.model.arrays import distinct, factorize, taken
from nvtrace.model.explained import Explained
from nvtrace.model.schema import Attribution, DeviceKind, RangeKind, RangeStyle

if TYPE_CHECKING:
    from nvtrace.analysis.frame import Frame
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


class Talk(NamedTuple):
    """Communication and computation.

    Attributes:
        moving: communication on each device, by its row.
        computing: all other kernels, likewise.
        on_host: ranges of communication of processes that show none on a GPU (gloo, MPI), by row.
    """

    moving: dict[int, Events]
    computing: dict[int, Events]
    on_host: dict[int, Events]


class Overlap(NamedTuple):
    """Communication, computation and both at once, on one device or one process's CPU, ns."""

    label: str
    communication: int
    computation: int | None
    both: int | None


def talk(measures: Measures) -> Talk:
    """Return communication and computation of a trace, also what lies outside the window."""
    device = measures.trace.device
    moving, computing = {}, {}
    for row, rows in measures.on_device.items():
        moves = measures.communication[rows]
        kernels = device["kind"][rows] == DeviceKind.KERNEL
        moving[row] = Events.of(device, rows[moves], count=False)
        computing[row] = Events.of(device, rows[~moves & kernels], count=False)
    return Talk(moving, computing, _on_host(measures))


def _on_host(measures: Measures) -> dict[int, Events]:
    """Return ranges of communication of each process whose only trace of it they are."""
    trace, ranges = measures.trace, measures.trace.ranges
    on_gpu = set(distinct(trace.device["process"][measures.communication]).tolist())
    chosen = measures.selection.reaching.ranges & (
        measures.explained.range_kind == RangeKind.COMMUNICATION
    )
    rows = np.flatnonzero(chosen & (ranges["style"] != RangeStyle.MARK))
    process = trace.threads["process"][ranges["thread"][rows]]
    return {
        one: Events.of(ranges, rows[process == one], count=False)
        for one in distinct(process).tolist()
        if one not in on_gpu
    }


def overlaps(found: Talk, frame: Frame, labels: Sequence[str]) -> list[Overlap]:
    """Return the overlap on each device; and of processes that communicate without one.

    Args:
        found: communication and computation.
        frame: the window and the devices.
        labels: what to call each device row.
    """
    window, processes = frame.window, frame.trace.processes
    shown = []
    for row in frame.devices:
        moving = found.moving.get(row, NOTHING).clipped(window)
        computing = found.computing.get(row, NOTHING)
        both = computing.within(moving)
        shown.append(Overlap(labels[row], _length(moving), computing.within(window), both))
    for row, events in sorted(found.on_host.items()):
        length = events.within(window)
        shown.append(Overlap(f"CPU (pid {processes[row].pid})", length, None, None))
    return shown


def _length(pieces: tuple[I64, I64]) -> int:
    return int((pieces[1] - pieces[0]).sum())
