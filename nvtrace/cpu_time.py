"""CPU time of this process, its children and the machine, over a window."""

from __future__ import annotations

import os
from time import perf_counter_ns, process_time_ns
from typing import Any

import psutil

from nvtrace.model.trace import CpuUsage

# The kernel counts other processes' time in ticks of 10 ms: over less than this the count is noise.
_SHORTEST_NS = 200_000_000


class CpuMeter:
    """Reads CPU times when made, and again when asked."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._wall = perf_counter_ns()
        self._own = process_time_ns()
        self._children = self._child_seconds()
        self._system = _busy(psutil.cpu_times())

    def usage(self) -> tuple[CpuUsage, ...]:
        """Return CPU time used since then: of the process, its children if any, the system.

        Children and system are left out of a window too short for the kernel's clock ticks.
        """
        own = process_time_ns() - self._own  # read within the window at both ends
        window = max(perf_counter_ns() - self._wall, 1)
        found = [CpuUsage("CPU(Process)", own, window)]
        if window < _SHORTEST_NS:
            return tuple(found)
        children = self._child_seconds() - self._children
        if children > 0:
            found.append(CpuUsage("CPU(Children)", round(children * 1e9), window))
        whole = window * (os.cpu_count() or 1)
        busy = round((_busy(psutil.cpu_times()) - self._system) * 1e9)
        found.append(CpuUsage("CPU(System)", min(max(busy, 0), whole), whole))
        return tuple(found)

    def _child_seconds(self) -> float:
        """Return CPU seconds of this process's children, living and waited for."""
        times = self._process.cpu_times()
        seconds = times.children_user + times.children_system
        for child in self._process.children(recursive=True):
            try:
                seconds += sum(child.cpu_times()[:4])
            except psutil.Error:
                continue  # it ended while we looked
        return float(seconds)


def _busy(times: Any) -> float:
    """Return seconds in which a core did anything; time stolen by a hypervisor is not our work."""
    idle = times.idle + getattr(times, "iowait", 0.0) + getattr(times, "steal", 0.0)
    counted = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return float(counted - idle)
