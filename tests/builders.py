"""Captures made by hand: as a Trace, or as the export that nsys would write of them.

Times are plain integers, ns. Nothing here knows how nvtrace nests or attributes.
"""

from __future__ import annotations

import sqlite3
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nvtrace.model import schema
from nvtrace.model.nsys_ddl import create_statement
from nvtrace.model.schema import DeviceKind, PayloadType, RangeStyle
from nvtrace.model.strings import Strings
from nvtrace.model.table import Table
from nvtrace.model.trace import Device, Domain, Process, Recorded, Source
from nvtrace.trace import Trace

PUSH_POP, START_END, MARK = RangeStyle
GPU_STARTS = 1_000_000
RECORDED = Recorded(ranges=True, calls=True, kernels=True, memcpy=True, memset=True)


class Range(NamedTuple):
    name: str
    start: int
    end: int | None
    pid: int = 1
    tid: int = 1
    domain: str = ""
    category: str = ""
    style: RangeStyle = PUSH_POP
    end_tid: int = 0
    payload: int | float | None = None
    registered: bool = False


class Call(NamedTuple):
    start: int
    end: int
    correlation: int
    pid: int
    tid: int
    name: str


class Work(NamedTuple):
    start: int
    end: int
    correlation: int
    name: str
    kind: DeviceKind
    pid: int
    device: int
    stream: int
    bytes: int
    copy_kind: int
    node: int


class Node(NamedTuple):
    start: int
    end: int
    node: int
    original: int
    pid: int
    tid: int


@dataclass
class Capture:
    """Events in the order they are added, and in ns from wherever 0 is."""

    ranges: list[Range] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    work: list[Work] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    uuids: dict[tuple[int, int], str] = field(default_factory=dict)
    recorded: Recorded = RECORDED
    origin: int | None = None
    source: str = "made.sqlite"
    rank: int | None = None

    def range(self, name: str, start: int, end: int | None, **facts: Any) -> int:
        self.ranges.append(Range(name, start, end, **facts))
        return len(self.ranges) - 1

    def phase(self, kind: str, start: int, end: int, **facts: Any) -> int:
        """Add a range of nvtrace's own domain, whose category states its kind."""
        name = facts.pop("name", kind)
        return self.range(name, start, end, domain="nvtrace", category=kind, **facts)

    def step(self, number: int, start: int, end: int, **facts: Any) -> int:
        return self.phase("step", start, end, payload=number, **facts)

    def mark(self, name: str, at: int, **facts: Any) -> int:
        return self.range(name, at, at, style=MARK, **facts)

    def call(
        self,
        start: int,
        end: int,
        *,
        pid: int = 1,
        tid: int = 1,
        correlation: int | None = None,
        name: str = "cudaLaunchKernel",
    ) -> int:
        """Return the call's correlation id: the next one, unless given."""
        if correlation is None:
            correlation = max([call.correlation for call in self.calls], default=0) + 1
        self.calls.append(Call(start, end, correlation, pid, tid, name))
        return correlation

    def run(
        self,
        start: int,
        end: int,
        correlation: int = 0,
        *,
        name: str = "kernel",
        kind: DeviceKind = DeviceKind.KERNEL,
        pid: int = 1,
        device: int = 0,
        stream: int = 7,
        bytes: int = -1,
        copy_kind: int = 0,
        node: int = 0,
    ) -> int:
        self.work.append(
            Work(
                *(start, end, correlation, name, kind, pid, device, stream),
                *(bytes, copy_kind, node),
            )
        )
        return len(self.work) - 1

    def launch(
        self, start: int, end: int, gpu: int, *, tid: int = 1, api: str = "cudaLaunchKernel",
        at: int | None = None, **facts: Any,
    ) -> int:  # fmt: skip
        """Add a call and what it ran, by default long after every range is over."""
        pid = facts.get("pid", 1)
        if at is None:
            at = max([GPU_STARTS, *(work.end for work in self.work)])
        correlation = self.call(start, end, pid=pid, tid=tid, name=api)
        return self.run(at, at + gpu, correlation, **facts)

    def copy(self, start: int, end: int, gpu: int, bytes: int, copy_kind: int, **facts: Any) -> int:
        return self.launch(
            *(start, end, gpu),
            api="cudaMemcpyAsync",
            kind=DeviceKind.MEMCPY,
            bytes=bytes,
            copy_kind=copy_kind,
            name=f"[CUDA memcpy {schema.COPY_KINDS[copy_kind]}]",
            **facts,
        )

    def trace(self) -> Trace:
        """Return the tables, times as given; a trace's zero is then wherever 0 is."""
        return _Tables(self).trace()

    def write(self, path: Path, **options: Any) -> Path:
        """Write the export that nsys would make, and return its path.

        Args:
            path: a new file.
            options: ``lazy=False`` makes tables without rows too; ``then`` is SQL that changes the
                file afterwards.
        """
        _Export(self, path).write(**options)
        return path


class _Tables:
    """Rows of processes, threads, streams and the rest, handed out as they are met."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.strings = Strings()
        self.categories = Strings()
        self.threads: dict[tuple[int, int], int] = {}
        self.processes: dict[int, int] = {}
        self.domains: dict[Domain, int] = {}
        self.devices: list[Device] = []
        self.unknown: dict[tuple[int, int], int] = {}
        self.streams: dict[tuple[int, int, int], int] = {}

    def trace(self) -> Trace:
        capture = self.capture
        ranges = [self._range(row) for row in capture.ranges]
        calls = [self._call(row) for row in capture.calls]
        work = [self._work(row) for row in capture.work]
        nodes = [self._node(row) for row in capture.nodes]
        last = max((row["end"] or 0 for row in [*ranges, *calls, *work]), default=0)
        for row in ranges:
            if row["end"] is None:
                row["end"], row["flags"] = last, 1
        return Trace(
            ranges=_table(schema.RANGES, ranges),
            calls=_table(schema.CALLS, calls),
            device=_table(schema.DEVICE, work),
            graph_nodes=_table(schema.GRAPH_NODES, nodes, by_time=False),
            streams=_table(
                schema.STREAMS,
                [
                    {
                        "device": self._device(pid, device),
                        "context": 1,
                        "stream": stream,
                        "process": self.processes[pid],
                    }
                    for pid, device, stream in self.streams
                ],
                by_time=False,
            ),
            threads=_table(
                schema.THREADS,
                [
                    {"process": self.processes[pid], "tid": tid, "name": -1}
                    for pid, tid in self.threads
                ],
                by_time=False,
            ),
            strings=self.strings,
            domains=tuple(self.domains),
            categories=tuple(self.categories),
            processes=tuple(
                Process(pid, rank=capture.rank, source=capture.source) for pid in self.processes
            ),
            devices=tuple(self.devices),
            sources=(Source(capture.source),),
            recorded=capture.recorded,
            origin_unix_ns=capture.origin,
        )

    def _thread(self, pid: int, tid: int) -> int:
        self._process(pid)
        return self.threads.setdefault((pid, tid), len(self.threads))

    def _process(self, pid: int) -> int:
        return self.processes.setdefault(pid, len(self.processes))

    def _device(self, pid: int, device: int) -> int:
        uuid = self.capture.uuids.get((pid, device))
        known = [row for row, one in enumerate(self.devices) if uuid and one.uuid == uuid]
        if not known and (pid, device) not in self.unknown:
            owner = -1 if uuid else self.processes[pid]
            self.devices.append(Device(device, uuid=uuid, process=owner))
        row = known[0] if known else len(self.devices) - 1
        return row if uuid else self.unknown.setdefault((pid, device), row)

    def _range(self, row: Range) -> dict[str, Any]:
        thread = self._thread(row.pid, row.tid)
        domain = Domain(self._process(row.pid), row.domain)
        payload, payload_type = 0, PayloadType.NONE
        if isinstance(row.payload, float):
            payload, payload_type = _bits(row.payload), PayloadType.FLOAT
        elif row.payload is not None:
            payload, payload_type = row.payload, PayloadType.INT
        return {
            "start": row.start,
            "end": row.end,
            "name": self.strings.intern(row.name),
            "domain": self.domains.setdefault(domain, len(self.domains)),
            "category": self.categories.intern(row.category) if row.category else -1,
            "thread": thread,
            "end_thread": self._thread(row.pid, row.end_tid or row.tid),
            "style": row.style,
            "flags": 0,
            "color": 0,
            "payload_type": payload_type,
            "payload": payload,
            "text": -1,
        }

    def _call(self, row: Call) -> dict[str, Any]:
        return {
            "start": row.start,
            "end": row.end,
            "name": self.strings.intern(row.name),
            "thread": self._thread(row.pid, row.tid),
            "process": self._process(row.pid),
            "correlation": row.correlation,
        }

    def _work(self, row: Work) -> dict[str, Any]:
        self._process(row.pid)
        self._device(row.pid, row.device)
        lane = (row.pid, row.device, row.stream)
        return {
            "start": row.start,
            "end": row.end,
            "name": self.strings.intern(row.name),
            "short_name": self.strings.intern(row.name.partition("<")[0]),
            "kind": row.kind,
            "stream": self.streams.setdefault(lane, len(self.streams)),
            "process": self.processes[row.pid],
            "correlation": row.correlation,
            "bytes": row.bytes,
            "copy_kind": row.copy_kind,
            "graph_node": row.node,
        }

    def _node(self, row: Node) -> dict[str, Any]:
        return {
            "start": row.start,
            "end": row.end,
            "thread": self._thread(row.pid, row.tid),
            "process": self.processes[row.pid],
            "node": row.node,
            "original": row.original,
        }


def _table(spec: Any, rows: list[dict[str, Any]], *, by_time: bool = True) -> Table:
    if by_time:
        rows = sorted(rows, key=lambda row: (row["start"], -row["end"]))
    columns = {
        name: np.array([row[name] for row in rows], column.dtype) for name, column in spec.items()
    }
    return Table(spec, columns)


def _bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


_ACTIVITY = {
    DeviceKind.KERNEL: "CUPTI_ACTIVITY_KIND_KERNEL",
    DeviceKind.MEMCPY: "CUPTI_ACTIVITY_KIND_MEMCPY",
    DeviceKind.MEMSET: "CUPTI_ACTIVITY_KIND_MEMSET",
    DeviceKind.GRAPH: "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
}


class _Export:
    """The same events in the tables of nsys, schema 3.7.2."""

    def __init__(self, capture: Capture, path: Path) -> None:
        self.capture = capture
        self.connection = sqlite3.connect(path)
        self.tables: set[str] = set()
        self.texts: dict[str, int] = {}
        self.domains: dict[tuple[int, str], int] = {}
        self.categories: dict[tuple[int, str, str], int] = {}

    def write(self, *, lazy: bool = True, then: str = "") -> None:
        with self.connection:
            if not lazy:
                for table in ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", *_ACTIVITY.values()):
                    self.table(table)
            self.table("StringIds")
            for row in self.capture.ranges:
                self.range(row)
            for call in self.capture.calls:
                self.call(call)
            for work in self.capture.work:
                self.activity(work)
            for node in self.capture.nodes:
                self.node(node)
            if self.capture.origin is not None:
                self.insert("TARGET_INFO_SESSION_START_TIME", utcEpochNs=self.capture.origin)
            for gpu, ((pid, device), uuid) in enumerate(self.capture.uuids.items()):
                if not any(uuid == other for other in list(self.capture.uuids.values())[:gpu]):
                    self.insert("TARGET_INFO_GPU", id=gpu, name="GPU of a test", uuid=uuid)
                first = list(self.capture.uuids.values()).index(uuid)
                self.insert("TARGET_INFO_CUDA_DEVICE", gpuId=first, cudaId=device, pid=pid)
            for text, identifier in self.texts.items():
                self.insert("StringIds", id=identifier, value=text)
        self.connection.executescript(then)
        self.connection.close()

    def table(self, table: str) -> None:
        if table not in self.tables:
            self.tables.add(table)
            self.connection.execute(create_statement(table))

    def insert(self, table: str, **values: Any) -> None:
        self.table(table)
        for _, name, kind, required, default, _ in self.connection.execute(
            f"PRAGMA table_info({table})"
        ).fetchall():
            if required and default is None and name not in values:
                values[name] = "" if kind == "TEXT" else 0
        marks = ", ".join("?" * len(values))
        names = ", ".join(f'"{name}"' for name in values)
        self.connection.execute(
            f"INSERT INTO {table} ({names}) VALUES ({marks})", list(values.values())
        )

    def text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts) + 1)

    @staticmethod
    def thread(pid: int, tid: int) -> int:
        return (1 << 48) | (pid << 24) | tid

    def range(self, row: Range) -> None:
        who = self.thread(row.pid, row.tid)
        values: dict[str, Any] = {
            "start": row.start,
            "end": None if row.style is MARK else row.end,
            "eventType": {PUSH_POP: 59, START_END: 60, MARK: 34}[row.style],
            "globalTid": who,
            "domainId": self._domain(row.pid, row.domain),
            "category": self._category(row) if row.category else None,
        }
        values["textId" if row.registered else "text"] = (
            self.text(row.name) if row.registered else row.name
        )
        if row.end_tid:
            values["endGlobalTid"] = self.thread(row.pid, row.end_tid)
        if row.payload is not None:
            values["doubleValue" if isinstance(row.payload, float) else "int64Value"] = row.payload
        self.insert("NVTX_EVENTS", **values)

    def _domain(self, pid: int, name: str) -> int:
        if not name:
            return 0
        if (pid, name) not in self.domains:
            # ids count within a process
            number = sum(process == pid for process, _ in self.domains) + 1
            self.domains[pid, name] = number
            self.insert(
                "NVTX_EVENTS",
                start=0, eventType=75, text=name, domainId=number, globalTid=self.thread(pid, 1),
            )  # fmt: skip
        return self.domains[pid, name]

    def _category(self, row: Range) -> int:
        key = (row.pid, row.domain, row.category)
        if key not in self.categories:
            self.categories[key] = len(self.categories) + 1
            self.insert(
                "NVTX_EVENTS",
                start=0, eventType=33, text=row.category, category=self.categories[key],
                domainId=self._domain(row.pid, row.domain), globalTid=self.thread(row.pid, 1),
            )  # fmt: skip
        return self.categories[key]

    def call(self, row: Call) -> None:
        self.insert(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=row.start,
            end=row.end,
            globalTid=self.thread(row.pid, row.tid),
            correlationId=row.correlation,
            nameId=self.text(f"{row.name}_v7000"),
        )

    def activity(self, row: Work) -> None:
        values: dict[str, Any] = {
            "start": row.start,
            "end": row.end,
            "deviceId": row.device,
            "contextId": 1,
            "streamId": row.stream,
            "correlationId": row.correlation,
            "globalPid": self.thread(row.pid, 0),
        }
        if row.kind is DeviceKind.KERNEL:
            values["demangledName"] = self.text(row.name)
            values["shortName"] = self.text(row.name.partition("<")[0])
        elif row.kind is DeviceKind.GRAPH:
            values["graphId"] = 1
        else:
            values["bytes"] = row.bytes
        if row.kind is DeviceKind.MEMCPY:
            values["copyKind"] = row.copy_kind
        if row.node:
            values["graphNodeId"] = row.node
        self.insert(_ACTIVITY[row.kind], **values)

    def node(self, row: Node) -> None:
        self.insert(
            "CUDA_GRAPH_EVENTS",
            start=row.start,
            end=row.end,
            globalTid=self.thread(row.pid, row.tid),
            graphNodeId=row.node,
            originalGraphNodeId=row.original or None,
        )
