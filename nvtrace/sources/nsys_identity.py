"""Who did it: processes, threads, devices and streams of an nsys export.

``globalTid`` is [hardware id:8][VM id:8][pid:24][tid:24]; ``globalPid`` is the same with tid 0. Ids
repeat between hosts, processes and devices, so every key here is compound.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from pathlib import PurePath
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from nvtrace.model.schema import STREAMS, THREADS
from nvtrace.model.strings import Strings
from nvtrace.model.table import Table
from nvtrace.model.trace import Device, Process
from nvtrace.sources.columns import Coded, mapped
from nvtrace.sources.nsys_names import NO_ID, PROCESS_MASK, Names
from nvtrace.sources.table_reader import TableReader

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Key = TypeVar("Key", bound=Hashable)


class Identities:
    """Rows of processes, threads, devices and streams, handed out as they are first met."""

    def __init__(self, reader: TableReader, names: Names, strings: Strings) -> None:
        self._reader = reader
        self._names = names
        self._strings = strings
        self._processes: dict[int, int] = {}
        self._threads: dict[int, int] = {}
        self._devices: dict[tuple[int, int], int] = {}
        self._device_rows: list[Device] = []
        self._hardware_rows: dict[tuple[int, int], int] = {}
        self._streams: dict[tuple[int, int, int, int], int] = {}
        self._hardware = _Hardware(reader)

    def hand_out(
        self,
        processes: Iterable[int],
        threads: Iterable[int],
        devices: Iterable[Device],
        streams: Iterable[tuple[int, int, int, int, int]],
    ) -> None:
        """Hand out rows in a known order, before any is met.

        Args:
            processes: globalPid of each.
            threads: globalTid of each.
            devices: the devices.
            streams: (process row, device row, CUDA device, context, stream) of each.
        """
        _handed_out(self._processes, processes)
        _handed_out(self._threads, threads)
        self._device_rows += devices
        for process, device, ordinal, context, stream in streams:
            self._devices[process, ordinal] = device
            _handed_out(self._streams, [(process, ordinal, context, stream)])

    def processes(self, global_ids: Coded) -> I32:
        """Return process rows of globalTid or globalPid values, int32 of shape (n,)."""
        return global_ids.map(self.process_rows)

    def process_rows(self, global_ids: I64) -> I32:
        """Return process rows of distinct globalTid or globalPid values, int32 of shape (m,)."""
        return _handed_out(self._processes, (global_ids & PROCESS_MASK).tolist())

    def threads(self, global_tids: Coded) -> I32:
        """Return thread rows of globalTid values, int32 of shape (n,)."""
        return global_tids.map(self.thread_rows)

    def thread_rows(self, global_tids: I64) -> I32:
        """Return thread rows of distinct globalTid values, int32 of shape (m,)."""
        self.process_rows(global_tids)
        return _handed_out(self._threads, global_tids.tolist())

    def process_key(self, row: int) -> int:
        """Return the globalPid of a process row."""
        return list(self._processes)[row]

    def streams(self, global_pids: Coded, device: Coded, context: Coded, stream: Coded) -> I32:
        """Return stream rows of (globalPid, CUDA device, context, stream), int32 of shape (n,)."""
        process = Coded(global_pids.each(self.process_rows), global_pids.codes)
        return mapped((process, device, context, stream), self._stream, 1)[0]

    def _stream(self, process: int, ordinal: int, context: int, stream: int) -> tuple[int]:
        self.device(process, ordinal)
        key = process, ordinal, context, stream
        return (self._streams.setdefault(key, len(self._streams)),)

    def device(self, process: int, ordinal: int) -> int:
        """Return the device row of a process's CUDA ordinal."""
        row = self._devices.get((process, ordinal))
        if row is None:
            key = list(self._processes)[process]
            device, hardware = self._hardware.device(key, ordinal, process)
            known = self._hardware_rows.get(hardware) if hardware else None
            if known is None:
                known = len(self._device_rows)
                self._device_rows.append(device)
                if hardware:
                    self._hardware_rows[hardware] = known
            row = self._devices[process, ordinal] = known
        return row

    def process_table(self, source: str, rank: int | None) -> tuple[Process, ...]:
        """Return the processes met so far, by row."""
        named: dict[int, str] = {}
        if {"globalPid", "name"} <= set(self._reader.columns("PROCESSES")):
            for key, name in self._reader.rows("PROCESSES", ("globalPid", "name")):
                if isinstance(key, int) and name:
                    named[key & int(PROCESS_MASK)] = PurePath(str(name)).name
        only_rank = rank if len(self._processes) == 1 else None
        return tuple(
            Process(_pid(key), named.get(key), rank=only_rank, source=source)
            for key in self._processes
        )

    def thread_table(self) -> Table:
        """Return the threads met so far, by row."""
        wanted = {"globalTid": 0, "nameId": NO_ID}
        rows = self._reader.integers("ThreadNames", wanted)
        named = dict(zip(rows["globalTid"].tolist(), rows["nameId"].tolist(), strict=True))
        names = [
            self._strings.intern(self._names.text(named[key])) if key in named else -1
            for key in self._threads
        ]
        keys = np.fromiter(self._threads, np.int64, len(self._threads))
        return Table(
            THREADS,
            {"process": self.process_rows(keys), "tid": keys & np.int64(0xFFFFFF), "name": names},
        )

    def device_table(self) -> tuple[Device, ...]:
        """Return the devices met so far, by row."""
        return tuple(self._device_rows)

    def stream_table(self) -> Table:
        """Return the streams met so far, by row."""
        keys = np.array(list(self._streams), np.int64).reshape(-1, 4)
        devices = [self._devices[process, device] for process, device, _, _ in self._streams]
        return Table(
            STREAMS,
            {
                "device": devices,
                "context": keys[:, 2],
                "stream": keys[:, 3],
                "process": keys[:, 0],
            },
        )


class _Hardware:
    """Maps a process's CUDA ordinal to the GPU behind it."""

    def __init__(self, reader: TableReader) -> None:
        self._gpus = _gpu_rows(reader)
        self._by_process: dict[tuple[int, int], int] = {}
        if {"gpuId", "cudaId", "pid"} <= set(reader.columns("TARGET_INFO_CUDA_DEVICE")):
            known = reader.rows("TARGET_INFO_CUDA_DEVICE", ("pid", "cudaId", "gpuId"))
            for pid, ordinal, gpu in known:
                if None not in (pid, ordinal, gpu):
                    self._by_process[pid, ordinal] = gpu

    def device(
        self, process_key: int, ordinal: int, process: int
    ) -> tuple[Device, tuple[int, int] | None]:
        """Return the device and, where the hardware is known, its key."""
        machine = (process_key >> 48) & 0xFFFF
        here = {gpu: facts for (where, gpu), facts in self._gpus.items() if where == machine}
        if not here:
            here = {gpu: facts for (_, gpu), facts in self._gpus.items()}
        found = self._by_process.get((_pid(process_key), ordinal))
        if found is None or found not in here:
            # without the process's own map, the export names each GPU's CUDA number at best
            matches = [gpu for gpu, facts in here.items() if facts.get("cuDevice") == ordinal]
            found = matches[0] if len(matches) == 1 else None
            if not matches and ordinal == 0 and len(here) == 1:
                # exports of 2021 give no CUDA number; the machine's only GPU needs none
                ((only, facts),) = here.items()
                found = None if "cuDevice" in facts else only
        if found is None:
            return Device(ordinal, process=process), None
        facts = here[found]
        return (
            Device(
                ordinal,
                name=_text(facts.get("name")),
                uuid=_text(facts.get("uuid")),
                bus_id=_text(facts.get("busLocation")),
                memory_bytes=_number(facts.get("totalMemory")),
                sm_count=_number(facts.get("smCount")),
            ),
            (machine, found),
        )


def _gpu_rows(reader: TableReader) -> dict[tuple[int, int], dict[str, object]]:
    """Return (machine, gpu id) -> column -> value of TARGET_INFO_GPU, as old or new as it is."""
    columns = reader.columns("TARGET_INFO_GPU")
    identifier = "id" if "id" in columns else "deviceId" if "deviceId" in columns else None
    if identifier is None:
        return {}
    wanted = ["name", "uuid", "busLocation", "totalMemory", "smCount", "cuDevice", "vmId"]
    chosen = [identifier, *(column for column in wanted if column in columns)]
    gpus: dict[tuple[int, int], dict[str, object]] = {}
    for row in reader.rows("TARGET_INFO_GPU", chosen):
        facts = dict(zip(chosen, row, strict=True))
        machine = facts.get("vmId")
        where = (machine >> 48) & 0xFFFF if isinstance(machine, int) else 0
        gpu = facts[identifier]
        if isinstance(gpu, int):
            gpus[where, gpu] = facts
    return gpus


def rank_of(source: str) -> int | None:
    """Return the rank that a file's name states (``run.rank3.sqlite``, ``rank_3``), else None."""
    found = re.search(r"rank[-_.]?(\d+)", source, re.IGNORECASE)
    return int(found[1]) if found else None


def _pid(key: int) -> int:
    return (key >> 24) & 0xFFFFFF


def _text(value: object) -> str | None:
    return str(value) if value else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _handed_out(rows: dict[Key, int], keys: Iterable[Key]) -> I32:
    return np.array([rows.setdefault(key, len(rows)) for key in keys], np.int32)
