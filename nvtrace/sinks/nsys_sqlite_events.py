"""The event tables of a saved trace, in chunks of rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.nsys_ddl import (
    MEMSET_NAME,
    copy_name,
    create_statement,
    graph_name,
    insert_statement,
)
from nvtrace.model.schema import DeviceKind, PayloadType, RangeStyle
from nvtrace.model.trace import TraceData
from nvtrace.sinks.nsys_sqlite_keys import Keys

Array = npt.NDArray[Any]
Columns = Mapping[str, Array]

_CHUNK = 1 << 16
_NULL = -(2**63)
_NOT_RECORDED = -1
_EVENT_TYPES = {RangeStyle.PUSH_POP: 59, RangeStyle.START_END: 60, RangeStyle.MARK: 34}
_CATEGORY_NAME, _DOMAIN_CREATE = 33, 75
_DRIVER = 1  # eventClass of calls of the driver; 0 those of the runtime
_GRAPH_NODE_CREATED = 77

_DETAILS = {
    "registersPerThread": "registers",
    "gridX": "grid_x",
    "gridY": "grid_y",
    "gridZ": "grid_z",
    "blockX": "block_x",
    "blockY": "block_y",
    "blockZ": "block_z",
    "staticSharedMemory": "static_shared",
    "dynamicSharedMemory": "dynamic_shared",
}
_LAUNCH = "start end deviceId contextId streamId correlationId globalPid"


def write_events(trace: TraceData, keys: Keys, connection: sqlite3.Connection) -> None:
    """Write the tables of ranges, calls, GPU work, graph nodes and samples that were recorded."""
    _Events(trace, keys, connection).write()


class _Events:
    def __init__(self, trace: TraceData, keys: Keys, connection: sqlite3.Connection) -> None:
        self._trace = trace
        self._keys = keys
        self._connection = connection

    def write(self) -> None:
        trace, recorded = self._trace, self._trace.recorded
        if recorded.ranges or trace.ranges.rows:
            self._ranges()
        if recorded.calls or trace.calls.rows:
            self._calls()
        kinds = trace.device["kind"]
        for kind, wanted, insert in (
            (DeviceKind.KERNEL, recorded.kernels, self._kernels),
            (DeviceKind.MEMCPY, recorded.memcpy, self._copies),
            (DeviceKind.MEMSET, recorded.memset, self._sets),
            (DeviceKind.GRAPH, recorded.graphs, self._graphs),
        ):
            rows = np.flatnonzero(kinds == kind)
            if wanted or len(rows):
                insert(rows)
        if trace.graph_nodes.rows:
            self._graph_nodes()
        if trace.samples.rows:
            samples = trace.samples
            self._insert("NVTRACE_SAMPLES", "time counter value", samples)

    def _insert(
        self,
        table: str,
        varying: str,
        columns: Columns,
        constant: Mapping[str, int] | None = None,
    ) -> None:
        """Make ``table`` where it is not there yet, and append rows."""
        create = create_statement(table).replace("TABLE", "TABLE IF NOT EXISTS", 1)
        self._connection.execute(create)
        sql = insert_statement(table, varying, constant or {})
        arrays = [columns[column.partition(":")[0]] for column in varying.split()]
        for first in range(0, len(arrays[0]), _CHUNK):
            lists = [array[first : first + _CHUNK].tolist() for array in arrays]
            self._connection.executemany(sql, zip(*lists, strict=True))

    def _ranges(self) -> None:
        ranges, keys = self._trace.ranges, self._keys
        self._scope_names()
        style, kind, payload = ranges["style"], ranges["payload_type"], ranges["payload"]
        event_type = np.zeros(ranges.rows, np.int64)
        for one, number in _EVENT_TYPES.items():
            event_type[style == one] = number
        real = np.where(kind == PayloadType.FLOAT, payload.view(np.float64), np.nan)
        thread, end_thread = keys.threads[ranges["thread"]], keys.threads[ranges["end_thread"]]
        self._insert(
            "NVTX_EVENTS",
            f"start end:{_NULL} eventType category:0 color:0 globalTid endGlobalTid:0 textId "
            f"domainId uint64Value:{_NULL} int64Value:{_NULL} doubleValue jsonTextId:-1",
            {
                "start": ranges["start"],
                "end": np.where(style == RangeStyle.MARK, _NULL, ranges["end"]),
                "eventType": event_type,
                "category": ranges["category"] + 1,
                "color": ranges["color"],
                "globalTid": thread,
                "endGlobalTid": np.where(end_thread == thread, 0, end_thread),
                "textId": ranges["name"],
                "domainId": self._domain_ids()[ranges["domain"]],
                "uint64Value": np.where(kind == PayloadType.UINT, payload, _NULL),
                "int64Value": np.where(kind == PayloadType.INT, payload, _NULL),
                "doubleValue": real,
                "jsonTextId": ranges["text"],
            },
        )
        # SQLite holds no NaN and no negative zero
        lost = (kind == PayloadType.FLOAT) & (np.isnan(real) | (payload == _NULL))
        lost |= (kind != PayloadType.FLOAT) & (payload == _NULL)
        lost |= (kind == PayloadType.NONE) & (payload != 0)
        rows = np.flatnonzero((ranges["flags"] != 0) | lost)
        self._insert(
            "NVTRACE_RANGES",
            "row flags payloadType payload",
            {
                "row": rows,
                "flags": ranges["flags"][rows],
                "payloadType": kind[rows],
                "payload": payload[rows],
            },
        )

    def _domain_ids(self) -> Array:
        """Return ids by domain row, unique in the file: nsys joins them by process id alone."""
        names = [domain.name for domain in self._trace.domains]
        return np.array([row + 1 if name else 0 for row, name in enumerate(names)], np.int64)

    def _scope_names(self) -> None:
        """Name domains, and the categories that are used in each, as NVTX does: by events."""
        ranges, keys = self._trace.ranges, self._keys
        ids = self._domain_ids()
        rows: list[tuple[int, int, int, int | None, str]] = [
            (0, _DOMAIN_CREATE, int(keys.processes[domain.process]), None, domain.name)
            for domain in self._trace.domains
            if domain.name
        ]
        domains = [int(number) for number in ids if number]
        used = ranges["category"] >= 0
        pairs = np.stack([ranges["domain"][used], ranges["category"][used]], axis=1)
        for domain, category in np.unique(pairs, axis=0).tolist():
            key = int(keys.processes[self._trace.domains[domain].process])
            text = self._trace.categories[category]
            rows.append((0, _CATEGORY_NAME, key, category + 1, text))
            domains.append(int(ids[domain]))
        names = ("start", "eventType", "globalTid", "category", "text")
        columns = {
            name: np.array([row[place] for row in rows], object) for place, name in enumerate(names)
        }
        self._insert(
            "NVTX_EVENTS",
            "start eventType globalTid category text domainId",
            {**columns, "domainId": np.array(domains, object)},
        )

    def _calls(self) -> None:
        calls = self._trace.calls
        driver = np.array(
            [name.startswith("cu") and not name.startswith("cuda") for name in self._trace.strings],
            np.int64,
        )
        self._insert(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            "start end eventClass globalTid correlationId nameId",
            {
                "start": calls["start"],
                "end": calls["end"],
                "eventClass": driver[calls["name"]] * _DRIVER,
                "globalTid": self._keys.threads[calls["thread"]],
                "correlationId": calls["correlation"],
                "nameId": calls["name"],
            },
            {"returnValue": 0},
        )

    def _launches(self, rows: Array) -> dict[str, Array]:
        """Return the columns that the tables of all kinds of GPU work have."""
        device, streams = self._trace.device, self._trace.streams
        stream = device["stream"][rows]
        return {
            "start": device["start"][rows],
            "end": device["end"][rows],
            "deviceId": self._keys.stream_devices[stream],
            "contextId": streams["context"][stream],
            "streamId": streams["stream"][stream],
            "correlationId": device["correlation"][rows],
            "globalPid": self._keys.processes[device["process"][rows]],
            "graphNodeId": device["graph_node"][rows].view(np.int64),
        }

    def _kernels(self, rows: Array) -> None:
        device, details = self._trace.device, self._trace.kernel_details
        places = np.searchsorted(rows, details["row"])
        columns = self._launches(rows)
        for name, own in _DETAILS.items():
            columns[name] = np.full(len(rows), _NOT_RECORDED, np.int64)
            columns[name][places] = details[own]
        self._insert(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            f"{_LAUNCH} graphNodeId:0 demangledName shortName {' '.join(_DETAILS)}",
            {
                **columns,
                "demangledName": device["name"][rows],
                "shortName": device["short_name"][rows],
            },
            {"localMemoryPerThread": 0, "localMemoryTotal": 0, "gridId": 0},
        )

    def _copies(self, rows: Array) -> None:
        kinds = self._trace.device["copy_kind"][rows]
        self._insert(
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            f"{_LAUNCH} graphNodeId:0 bytes copyKind",
            {
                **self._launches(rows),
                "bytes": self._trace.device["bytes"][rows],
                "copyKind": kinds,
            },
        )
        usual = np.array([self._trace.strings.find(copy_name(kind)) for kind in range(256)])
        self._names(DeviceKind.MEMCPY, rows, usual[kinds])

    def _sets(self, rows: Array) -> None:
        self._insert(
            "CUPTI_ACTIVITY_KIND_MEMSET",
            f"{_LAUNCH} graphNodeId:0 bytes",
            {**self._launches(rows), "bytes": self._trace.device["bytes"][rows]},
            {"value": 0},
        )
        self._names(DeviceKind.MEMSET, rows, self._trace.strings.find(MEMSET_NAME))

    def _graphs(self, rows: Array) -> None:
        names = self._trace.device["name"][rows]
        distinct, codes = np.unique(names, return_inverse=True)
        texts = self._trace.strings.take(distinct)
        before, after = graph_name(0).split("0")
        numbers = [text.removeprefix(before).removesuffix(after) for text in texts]
        graphs = np.array([int(n) if n.isdecimal() else 0 for n in numbers], np.int64)
        usual = [self._trace.strings.find(graph_name(graph)) for graph in graphs.tolist()]
        self._insert(
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
            f"{_LAUNCH} graphId",
            {**self._launches(rows), "graphId": graphs[codes]},
            {"graphExecId": 0},
        )
        self._names(DeviceKind.GRAPH, rows, np.array(usual, np.int64)[codes])

    def _names(self, kind: DeviceKind, rows: Array, usual: Array | int) -> None:
        """Keep the names of rows that have another than nsys would give them."""
        name, short = self._trace.device["name"][rows], self._trace.device["short_name"][rows]
        other = np.flatnonzero((name != usual) | (short != usual))
        if len(other):
            self._insert(
                "NVTRACE_NAMES",
                "row nameId shortNameId",
                {"row": other, "nameId": name[other], "shortNameId": short[other]},
                {"kind": int(kind)},
            )

    def _graph_nodes(self) -> None:
        nodes = self._trace.graph_nodes
        self._insert(
            "CUDA_GRAPH_EVENTS",
            "start end globalTid graphNodeId originalGraphNodeId:0",
            {
                "start": nodes["start"],
                "end": nodes["end"],
                "globalTid": self._keys.threads[nodes["thread"]],
                "graphNodeId": nodes["node"].view(np.int64),
                "originalGraphNodeId": nodes["original"].view(np.int64),
            },
            {"eventClass": _GRAPH_NODE_CREATED, "nameId": len(self._trace.strings)},
        )
