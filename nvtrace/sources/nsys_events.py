"""The event tables of an nsys export as columns of the model, times still the file's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import factorize
from nvtrace.model.nsys_ddl import MEMSET_NAME, graph_name
from nvtrace.model.schema import DeviceKind, PayloadType, RangeFlag, RangeStyle
from nvtrace.model.strings import Strings
from nvtrace.model.trace import Domain
from nvtrace.sources.nsys_identity import Identities
from nvtrace.sources.nsys_names import NO_ID, Names, ScopedNames
from nvtrace.sources.sqlite_reader import Rows, SqliteReader

Columns = dict[str, npt.NDArray[Any]]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

# NVTX_EVENTS.eventType; 70 to 72 are the same things imported from an NVTXT file
_PUSH_POP, _START_END, _MARK = (59, 70), (60, 71), (34, 72)
_CATEGORY_NAME, _DOMAIN_CREATE = 33, 75
# CUPTI_ACTIVITY_KIND_RUNTIME.eventClass of rows that repeat a call for its backtrace
_BACKTRACE = 67
OPEN = -(2**63) + 1

_MOST_BYTES = 2**50  # more in one copy is damage, not data

_KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_PAYLOADS = {
    "uint64Value": PayloadType.UINT,
    "uint32Value": PayloadType.UINT,
    "int64Value": PayloadType.INT,
    "int32Value": PayloadType.INT,
    "doubleValue": PayloadType.FLOAT,
    "floatValue": PayloadType.FLOAT,
}


@dataclass
class EventReader:
    """Reads the event tables of one export; names of calls carry ABI versions in those of nsys."""

    reader: SqliteReader
    strings: Strings
    names: Names
    identities: Identities
    abi_versions: bool = True

    def __post_init__(self) -> None:
        self.domains: dict[tuple[int, str], int] = {}
        self.categories = Strings()

    def ranges(self) -> Columns:
        """Return the columns of RANGES; a range that never closed ends at ``OPEN``."""
        table = "NVTX_EVENTS"
        columns = self.reader.columns(table)
        if not {"start", "eventType"} <= set(columns):
            return {}
        where = Rows("eventType", (*_PUSH_POP, *_START_END, *_MARK))
        wanted = {
            "start": 0,
            "end": OPEN,
            "eventType": 0,
            "globalTid": 0,
            "endGlobalTid": 0,
            "textId": NO_ID,
            "domainId": 0,
            "category": 0,
            "color": 0,
            "jsonTextId": NO_ID,
            # a payload of exactly this value is taken for none
            **dict.fromkeys(_PAYLOADS, OPEN),
        }
        texts = dict.fromkeys(("text", "jsonText"), self.strings.intern)
        rows = self.reader.columns_of(table, wanted, texts, where)
        style = np.full(len(rows["start"]), RangeStyle.PUSH_POP, np.uint8)
        style[np.isin(rows["eventType"], _START_END)] = RangeStyle.START_END
        style[np.isin(rows["eventType"], _MARK)] = RangeStyle.MARK
        marks = style == RangeStyle.MARK
        end = np.where(marks, rows["start"], rows["end"])
        thread = self.identities.threads(rows["globalTid"])
        end_thread = thread.copy()
        elsewhere = np.flatnonzero(
            (rows["endGlobalTid"] != 0) & (rows["endGlobalTid"] != rows["globalTid"])
        )
        end_thread[elsewhere] = self.identities.threads(rows["endGlobalTid"][elsewhere])
        payload_type, payload = self._payloads(rows, where)
        domain, category = self._scopes(thread, rows["domainId"], rows["category"])
        return {
            "start": rows["start"],
            "end": end,
            "name": _preferred(rows["text"], self.names.rows(rows["textId"])),
            "domain": domain,
            "category": category,
            "thread": thread,
            "end_thread": end_thread,
            "style": style,
            "flags": np.where(end == OPEN, RangeFlag.UNFINISHED, 0).astype(np.uint8),
            "color": rows["color"].astype(np.uint32),
            "payload_type": payload_type,
            "payload": payload,
            "text": _preferred(rows["jsonText"], self.names.optional_rows(rows["jsonTextId"])),
        }

    def _payloads(self, rows: Columns, where: Rows) -> tuple[npt.NDArray[np.uint8], I64]:
        """Return the type and the bits of each range's payload."""
        types = np.zeros(len(rows["start"]), np.uint8)
        bits = np.zeros(len(types), np.int64)
        for name, kind in _PAYLOADS.items():
            chosen = (rows[name] != OPEN) & (types == PayloadType.NONE)
            if chosen.any():
                values = rows[name]
                if kind is PayloadType.FLOAT:
                    values = self.reader.reals("NVTX_EVENTS", name, where).view(np.int64)
                bits[chosen] = values[chosen]
                types[chosen] = kind
        return types, bits

    def _scopes(self, thread: I32, domain_ids: I64, category_ids: I64) -> tuple[I32, I32]:
        """Return domain and category rows: ids are per process, categories per domain too."""
        domain_names = ScopedNames(self.reader, self.names, _DOMAIN_CREATE, ["domainId"])
        keys = ["domainId", "category"]
        category_names = ScopedNames(self.reader, self.names, _CATEGORY_NAME, keys)
        process_rows, process_codes = factorize(self.identities.process_of(thread))
        domain_values, domain_codes = factorize(domain_ids)
        category_values, category_codes = factorize(category_ids)
        combined = process_codes.astype(np.int64) * max(len(domain_values), 1) + domain_codes
        combined = combined * max(len(category_values), 1) + category_codes
        distinct, codes = factorize(combined)
        domain_rows = np.empty(len(distinct), np.int32)
        category_rows = np.empty(len(distinct), np.int32)
        for row, value in enumerate(distinct.tolist()):
            rest, category_code = divmod(value, len(category_values))
            process_code, domain_code = divmod(rest, len(domain_values))
            process = int(process_rows[process_code])
            key = self.identities.process_key(process)
            domain, category = int(domain_values[domain_code]), int(category_values[category_code])
            name = domain_names.get(key, domain) or (f"domain {domain}" if domain else "")
            scope = (process, name)
            domain_rows[row] = self.domains.setdefault(scope, len(self.domains))
            text = category_names.get(key, domain, category) or f"category {category}"
            category_rows[row] = self.categories.intern(text) if category else -1
        return domain_rows[codes], category_rows[codes]

    def domain_table(self) -> tuple[Domain, ...]:
        """Return the domains met so far, by row."""
        return tuple(Domain(process, name) for process, name in self.domains)

    def calls(self) -> Columns:
        """Return the columns of CALLS, without the rows that repeat a call for its backtrace."""
        table = "CUPTI_ACTIVITY_KIND_RUNTIME"
        columns = self.reader.columns(table)
        if not {"start", "end"} <= set(columns):
            return {}
        where = Rows("eventClass", (_BACKTRACE,), inverse=True) if "eventClass" in columns else ""
        wanted = {"start": 0, "end": OPEN, "globalTid": 0, "correlationId": 0, "nameId": NO_ID}
        rows = self.reader.integers(table, wanted, where)
        thread = self.identities.threads(rows["globalTid"])
        return {
            "start": rows["start"],
            "end": rows["end"],
            "name": self.names.rows(rows["nameId"], api=self.abi_versions),
            "thread": thread,
            "process": self.identities.process_of(thread),
            "correlation": rows["correlationId"],
        }

    def kernels(self) -> Columns:
        """Return the columns of DEVICE for kernels."""
        columns = self.reader.columns(_KERNEL)
        full = [name for name in ("demangledName", "shortName", "mangledName") if name in columns]
        short = [name for name in ("shortName", "demangledName", "mangledName") if name in columns]
        rows = self._activity(_KERNEL, dict.fromkeys(full, NO_ID))
        if not rows:
            return {}
        unnamed = np.full(len(rows["start"]), NO_ID, np.int64)
        return self._device(
            rows,
            DeviceKind.KERNEL,
            self.names.rows(rows[full[0]] if full else unnamed),
            self.names.rows(rows[short[0]] if short else unnamed),
        )

    def memory(self, kind: DeviceKind) -> Columns:
        """Return the columns of DEVICE for memory copies or sets."""
        table = f"CUPTI_ACTIVITY_KIND_{kind.name}"
        rows = self._activity(table, {"bytes": -1, "copyKind": 0})
        if not rows:
            return {}
        possible = (rows["bytes"] >= 0) & (rows["bytes"] < _MOST_BYTES)
        rows["bytes"] = np.where(possible, rows["bytes"], -1)
        if kind is DeviceKind.MEMCPY:
            names = self.names.copy_rows(rows["copyKind"])
        else:
            names = np.full(len(rows["start"]), self.strings.intern(MEMSET_NAME), np.int32)
        return self._device(rows, kind, names, names)

    def graphs(self) -> Columns:
        """Return the columns of DEVICE for whole graph runs (graph-level tracing)."""
        rows = self._activity("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {"graphId": 0})
        if not rows:
            return {}
        distinct, codes = factorize(rows["graphId"])
        texts = [graph_name(graph) for graph in distinct.tolist()]
        names = self.strings.intern_all(texts)[codes] if texts else codes
        return self._device(rows, DeviceKind.GRAPH, names, names)

    def _activity(self, table: str, extra: dict[str, int]) -> dict[str, I64]:
        if not {"start", "end"} <= set(self.reader.columns(table)):
            return {}
        wanted = {
            "start": 0,
            "end": 0,
            "globalPid": 0,
            "deviceId": 0,
            "contextId": 0,
            "streamId": 0,
            "correlationId": 0,
            "graphNodeId": 0,
        }
        return self.reader.integers(table, wanted | extra)

    def _device(
        self, rows: dict[str, I64], kind: DeviceKind, names: I32, short_names: I32
    ) -> Columns:
        count = len(rows["start"])
        process = self.identities.processes(rows["globalPid"])
        return {
            "start": rows["start"],
            "end": rows["end"],
            "name": names,
            "short_name": short_names,
            "kind": np.full(count, kind, np.uint8),
            "stream": self.identities.streams(
                process, rows["deviceId"], rows["contextId"], rows["streamId"]
            ),
            "process": process,
            "correlation": rows["correlationId"],
            "bytes": rows.get("bytes", np.full(count, -1, np.int64)),
            "copy_kind": rows.get("copyKind", np.zeros(count, np.int64)).astype(np.uint8),
            "graph_node": rows["graphNodeId"].view(np.uint64),
        }

    def kernel_details(self) -> Columns:
        """Return launch shapes and resources of kernels, in the order of ``kernels()``."""
        columns = {
            "gridX": "grid_x",
            "gridY": "grid_y",
            "gridZ": "grid_z",
            "blockX": "block_x",
            "blockY": "block_y",
            "blockZ": "block_z",
            "registersPerThread": "registers",
            "staticSharedMemory": "static_shared",
            "dynamicSharedMemory": "dynamic_shared",
        }
        rows = self.reader.integers(_KERNEL, dict.fromkeys(columns, 0))
        return {columns[name]: values for name, values in rows.items()}

    def graph_nodes(self) -> Columns:
        """Return who created which CUDA graph node, where the export says so."""
        for table in ("CUDA_GRAPH_NODE_EVENTS", "CUDA_GRAPH_EVENTS"):
            if {"start", "end", "graphNodeId"} <= set(self.reader.columns(table)):
                break
        else:
            return {}
        wanted = {"start": 0, "end": 0, "globalTid": 0, "graphNodeId": 0, "originalGraphNodeId": 0}
        rows = self.reader.integers(table, wanted, "graphNodeId IS NOT NULL")
        return {
            "start": rows["start"],
            "end": rows["end"],
            "thread": self.identities.threads(rows["globalTid"]),
            "process": self.identities.processes(rows["globalTid"]),
            "node": rows["graphNodeId"].view(np.uint64),
            "original": rows["originalGraphNodeId"].view(np.uint64),
        }


def _preferred(inline: I32, registered: I32) -> I32:
    """Return the rows of inline texts, of registered ones where there is none."""
    return np.where(inline >= 0, inline, registered)
