"""The choices a Profiler's methods take, under paddle.profiler's names."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from nvtrace.emit import logger
from nvtrace.errors import UsageError


class ProfilerTarget(Enum):
    """What is recorded: the CPU and NVIDIA's GPUs. The others are names only."""

    CPU = 0
    GPU = 1
    XPU = 2
    CUSTOM_DEVICE = 3


class SortedKeys(Enum):
    """What tables are sorted by; the values are nvtrace's own names."""

    CPUTotal = "cpu_total"
    CPUAvg = "cpu_avg"
    CPUMax = "cpu_max"
    CPUMin = "cpu_min"
    GPUTotal = "gpu_total"
    GPUAvg = "gpu_avg"
    GPUMax = "gpu_max"
    GPUMin = "gpu_min"


class SummaryView(Enum):
    """The tables; the values are nvtrace's own names."""

    DeviceView = "device"
    OverView = "overview"
    ModelView = "model"
    DistributedView = "distributed"
    KernelView = "kernel"
    OperatorView = "operator"
    MemoryView = "allocations"
    MemoryManipulationView = "memory"
    UDFView = "user_defined"


def own_name(choice: Enum | str) -> str:
    """Return nvtrace's own name for a choice."""
    return str(choice.value) if isinstance(choice, Enum) else choice


def view_names(
    views: SummaryView | str | Iterable[SummaryView | str] | None,
) -> list[str] | None:
    """Return nvtrace's own names for one view or several, None for all."""
    if views is None:
        return None
    several: Iterable[Any] = [views] if isinstance(views, str | Enum) else views
    return [own_name(view) for view in several]


def own_targets(targets: Iterable[ProfilerTarget] | None) -> frozenset[ProfilerTarget] | None:
    """Return the targets asked for, None for all.

    Raises:
        UsageError: something else than targets.
    """
    if targets is None:
        return None
    chosen = frozenset(targets) if isinstance(targets, Iterable) else frozenset([targets])
    if not all(isinstance(target, ProfilerTarget) for target in chosen):
        raise UsageError(f"targets={targets!r}: give a list of ProfilerTarget.CPU and .GPU")
    foreign = chosen - {ProfilerTarget.CPU, ProfilerTarget.GPU}
    if foreign:
        names = ", ".join(sorted(target.name for target in foreign))
        logger.warning("only the CPU and NVIDIA GPUs are recorded, and no %s", names)
    return chosen - foreign
