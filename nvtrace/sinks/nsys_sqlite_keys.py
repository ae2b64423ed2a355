"""The ids by which an nsys export tells processes, threads and devices apart.

``globalTid`` is [machine:16][pid:24][tid:24]. Processes of one pid, of two hosts or of two runs,
get machines of their own, so that every process keeps its pid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.errors import OutputError
from nvtrace.model.trace import TraceData

I64 = npt.NDArray[np.int64]

_FIELD = 0xFFFFFF
_MACHINES = 0x7FFF  # the first bit would make ids negative


@dataclass(frozen=True)
class Keys:
    """The ids of one trace's rows.

    Attributes:
        processes: globalPid of each process.
        threads: globalTid of each thread.
        stream_devices: the number by which each stream's process knows its device.
        cuda_devices: (process, that number) -> device.
    """

    processes: I64
    threads: I64
    stream_devices: I64
    cuda_devices: dict[tuple[int, int], int]

    @classmethod
    def of(cls, trace: TraceData) -> Keys:
        """Return the ids of a trace.

        Raises:
            OutputError: more processes share a pid than there are machine numbers.
        """
        processes = _process_keys([process.pid for process in trace.processes])
        threads = _thread_keys(
            processes, trace.threads["process"].tolist(), trace.threads["tid"].tolist()
        )
        numbers = _device_numbers(trace)
        pairs = zip(
            trace.streams["process"].tolist(), trace.streams["device"].tolist(), strict=True
        )
        return cls(
            processes,
            threads,
            np.array([numbers[pair] for pair in pairs], np.int64),
            {(process, number): device for (process, device), number in numbers.items()},
        )

    def machine(self, device: int) -> int:
        """Return the machine part of the id of the first process that used a device."""
        for (process, _), used in self.cuda_devices.items():
            if used == device:
                return int(self.processes[process]) >> 48 << 48
        return 1 << 48

    def stream_rows(self, trace: TraceData) -> list[dict[str, Any]]:
        """Return the rows of NVTRACE_STREAMS."""
        columns = {
            "process": trace.streams["process"],
            "device": trace.streams["device"],
            "deviceId": self.stream_devices,
            "contextId": trace.streams["context"],
            "streamId": trace.streams["stream"],
        }
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]


def _process_keys(pids: Iterable[int]) -> I64:
    machines: Counter[int] = Counter()
    keys = []
    for pid in pids:
        field = pid & _FIELD
        machines[field] += 1
        if machines[field] > _MACHINES:
            raise OutputError(
                f"cannot save more than {_MACHINES:,} processes of one process id, {pid}; "
                "save them in several files"
            )
        keys.append((machines[field] << 48) | (field << 24))
    return np.array(keys, np.int64)


def _thread_keys(processes: I64, owners: Iterable[int], tids: Iterable[int]) -> I64:
    """Return globalTid values; an id that needs more than its 24 bits gets the next free one."""
    taken: dict[int, None] = {}
    for owner, tid in zip(owners, tids, strict=True):
        field = tid & _FIELD
        key = int(processes[owner])
        while key | field in taken:
            field = (field + 1) & _FIELD
        taken[key | field] = None
    return np.fromiter(taken, np.int64, len(taken))


def _device_numbers(trace: TraceData) -> dict[tuple[int, int], int]:
    """Return (process, device) -> CUDA number, which no two devices of one process share."""
    numbers: dict[tuple[int, int], int] = {}
    taken: set[tuple[int, int]] = set()
    pairs = zip(trace.streams["process"].tolist(), trace.streams["device"].tolist(), strict=True)
    for process, device in pairs:
        if (process, device) in numbers:
            continue
        number = trace.devices[device].ordinal
        while (process, number) in taken:
            number += 1
        taken.add((process, number))
        numbers[process, device] = number
    return numbers
