"""The event tables of an nsys export as columns of the model, times still the file's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import constant, is_constant
from nvtrace.model.nsys_ddl import MEMSET_NAME, graph_name
from nvtrace.model.schema import DeviceKind, PayloadType, RangeFlag, RangeStyle
from nvtrace.model.strings import Strings
from nvtrace.model.trace import Domain
from nvtrace.sources.columns import (
    REALS,
    TEXTS,
    Coded,
    Rows,
    Wanted,
    absent,
    codes,
    mapped,
    values,
)
from nvtrace.sources.nsys_identity import Identities
from nvtrace.sources.nsys_names import NO_ID, Names, ScopedNames
from nvtrace.sources.table_reader import TableReader

Columns = dict[str, npt.NDArray[Any]]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

# NVTX_EVENTS.eventType; 70 to 72 are the same things imported from an NVTXT file
_PUSH_POP, _START_END, _MARK = (59, 70), (60, 71), (34, 72)
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

    reader: TableReader
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
            "start": values(),
            "end": values(OPEN),
            **dict.fromkeys(("eventType", "globalTid", "endGlobalTid"), codes()),
            **dict.fromkeys(("domainId", "category", "color"), codes()),
            **dict.fromkeys(("textId", "jsonTextId"), codes(NO_ID)),
            **dict.fromkeys(("text", "jsonText"), TEXTS),
            **{name: _payload_form(kind) for name, kind in _PAYLOADS.items()},
        }
        rows = self.reader.read(table, wanted, where)
        inline, inline_json = (self._inline(rows.pop(name)) for name in ("text", "jsonText"))
        start, end = rows["start"], rows["end"]
        style = rows.pop("eventType").map(_styles)
        np.copyto(end, start, where=style == RangeStyle.MARK)
        payload_type, payload = _payloads(rows)
        thread = self.identities.threads(rows["globalTid"])
        domain, category = self._scopes(
            rows.pop("globalTid"), rows.pop("domainId"), rows.pop("category")
        )
        return {
            "start": start,
            "end": end,
            "name": _preferred(inline, self.names.rows(rows.pop("textId"))),
            "domain": domain,
            "category": category,
            "thread": thread,
            "end_thread": self._end_threads(thread, rows.pop("endGlobalTid")),
            "style": style,
            "flags": unfinished_flags(end == OPEN),
            "color": rows.pop("color").astype(np.uint32),
            "payload_type": payload_type,
            "payload": payload,
            "text": _preferred(inline_json, self.names.optional_rows(rows.pop("jsonTextId"))),
        }

    def _inline(self, texts: Coded) -> I32:
        """Return the rows of texts, -1 for NULL."""
        intern = self.strings.intern
        rows = [-1 if text is None else intern(text) for text in texts.values.tolist()]
        return texts.spread(np.array(rows, np.int32))

    def _end_threads(self, thread: I32, global_tids: Coded) -> I32:
        """Return where ranges ended: on the thread where they began, unless the file says other."""

        def stated(distinct: I64) -> I32:
            rows = np.full(len(distinct), -1, np.int32)
            rows[distinct != 0] = self.identities.thread_rows(distinct[distinct != 0])
            return rows

        ended = global_tids.map(stated)
        if is_constant(ended) and ended[0] < 0:
            return thread
        return np.where(ended >= 0, ended, thread)

    def _scopes(self, global_tids: Coded, domains: Coded, categories: Coded) -> tuple[I32, I32]:
        """Return domain and category rows: ids are per process, categories per domain too."""
        names = ScopedNames(self.reader, self.names)
        processes = Coded(global_tids.each(self.identities.process_rows), global_tids.codes)

        def rows(process: int, domain: int, category: int) -> tuple[int, int]:
            key = self.identities.process_key(process)
            name = names.domain(key, domain) or (f"domain {domain}" if domain else "")
            text = names.category(key, domain, category) or f"category {category}"
            return (
                self.domains.setdefault((process, name), len(self.domains)),
                self.categories.intern(text) if category else -1,
            )

        domain_rows, category_rows = mapped((processes, domains, categories), rows, 2)
        return domain_rows, category_rows

    def domain_table(self) -> tuple[Domain, ...]:
        """Return the domains met so far, by row."""
        return tuple(Domain(process, name) for process, name in self.domains)

    def calls(self) -> Columns:
        """Return the columns of CALLS, without the rows that repeat a call for its backtrace."""
        table = "CUPTI_ACTIVITY_KIND_RUNTIME"
        columns = self.reader.columns(table)
        if not {"start", "end"} <= set(columns):
            return {}
        where = Rows("eventClass", (_BACKTRACE,), inverse=True) if "eventClass" in columns else None
        wanted = {
            "start": values(),
            "end": values(OPEN),
            "globalTid": codes(),
            "correlationId": values(),
            "nameId": codes(NO_ID),
        }
        rows = self.reader.read(table, wanted, where)
        return {
            "start": rows["start"],
            "end": rows["end"],
            "name": self.names.rows(rows["nameId"], api=self.abi_versions),
            "thread": self.identities.threads(rows["globalTid"]),
            "process": self.identities.processes(rows["globalTid"]),
            "correlation": rows["correlationId"],
        }

    def kernels(self) -> Columns:
        """Return the columns of DEVICE for kernels."""
        columns = self.reader.columns(_KERNEL)
        full: list[str] = [
            name for name in ("demangledName", "shortName", "mangledName") if name in columns
        ]
        short: list[str] = [
            name for name in ("shortName", "demangledName", "mangledName") if name in columns
        ]
        rows = self._activity(_KERNEL, dict.fromkeys(full, codes(NO_ID)))
        if not rows:
            return {}
        if not full:
            full = short = ["name"]
            rows["name"] = absent(codes(NO_ID), len(rows["start"]))
        names, short_names = (self.names.rows(rows[one[0]]) for one in (full, short))
        return self._device(rows, DeviceKind.KERNEL, names, short_names)

    def memory(self, kind: DeviceKind) -> Columns:
        """Return the columns of DEVICE for memory copies or sets."""
        table = f"CUPTI_ACTIVITY_KIND_{kind.name}"
        rows = self._activity(table, {"bytes": codes(-1), "copyKind": codes()})
        if not rows:
            return {}
        if kind is DeviceKind.MEMCPY:
            names = self.names.copy_rows(rows["copyKind"])
        else:
            names = constant(self.strings.intern(MEMSET_NAME), len(rows["start"]), np.int32)
        return self._device(rows, kind, names, names)

    def graphs(self) -> Columns:
        """Return the columns of DEVICE for whole graph runs (graph-level tracing)."""
        rows = self._activity("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {"graphId": codes()})
        if not rows:
            return {}
        names = rows["graphId"].map(
            lambda graphs: self.strings.intern_all(map(graph_name, graphs.tolist()))
        )
        return self._device(rows, DeviceKind.GRAPH, names, names)

    def _activity(self, table: str, extra: dict[str, Wanted]) -> dict[str, Any]:
        if not {"start", "end"} <= set(self.reader.columns(table)):
            return {}
        coded = ("globalPid", "deviceId", "contextId", "streamId", "graphNodeId")
        wanted = {
            **dict.fromkeys(("start", "end", "correlationId"), values()),
            **dict.fromkeys(coded, codes()),
        }
        return self.reader.read(table, wanted | extra)

    def _device(
        self, rows: dict[str, Any], kind: DeviceKind, names: I32, short_names: I32
    ) -> Columns:
        count = len(rows["start"])
        process = rows.pop("globalPid")
        sizes, copies = (rows.pop(name, None) for name in ("bytes", "copyKind"))
        return {
            "start": rows["start"],
            "end": rows["end"],
            "name": names,
            "short_name": short_names,
            "kind": constant(kind, count, np.uint8),
            "stream": self.identities.streams(
                process, *(rows.pop(name) for name in ("deviceId", "contextId", "streamId"))
            ),
            "process": self.identities.processes(process),
            "correlation": rows["correlationId"],
            "bytes": sizes.map(_possible_sizes) if sizes else constant(-1, count, np.int64),
            "copy_kind": copies.astype(np.uint8) if copies else constant(0, count, np.uint8),
            "graph_node": rows["graphNodeId"].astype(np.uint64),
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
        rows = self.reader.read(_KERNEL, dict.fromkeys(columns, codes()))
        return {columns[name]: column.astype(np.int32) for name, column in rows.items()}

    def graph_nodes(self) -> Columns:
        """Return who created which CUDA graph node, where the export says so."""
        for table in ("CUDA_GRAPH_NODE_EVENTS", "CUDA_GRAPH_EVENTS"):
            if {"start", "end", "graphNodeId"} <= set(self.reader.columns(table)):
                break
        else:
            return {}
        columns = ("start", "end", "globalTid", "graphNodeId", "originalGraphNodeId")
        rows = self.reader.integers(table, dict.fromkeys(columns, 0))
        again = self.reader.integers(table, {"graphNodeId": 1})
        known = rows["graphNodeId"] == again["graphNodeId"]  # NULL is what was asked for instead
        rows = {name: column[known] for name, column in rows.items()}
        threads = Coded.of(rows["globalTid"])
        return {
            "start": rows["start"],
            "end": rows["end"],
            "thread": self.identities.threads(threads),
            "process": self.identities.processes(threads),
            "node": rows["graphNodeId"].view(np.uint64),
            "original": rows["originalGraphNodeId"].view(np.uint64),
        }


def unfinished_flags(unfinished: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """Return the flags of ranges that never closed, or did."""
    if not unfinished.any():
        return constant(0, len(unfinished), np.uint8)
    return np.where(unfinished, np.uint8(RangeFlag.UNFINISHED), np.uint8(0))


def _payload_form(kind: PayloadType) -> Wanted:
    # a payload of exactly this value is taken for none
    return REALS if kind is PayloadType.FLOAT else codes(OPEN)


def _payloads(rows: dict[str, Any]) -> tuple[npt.NDArray[np.uint8], I64]:
    """Return the type and the bits of each range's payload."""
    count = len(rows["start"])
    types, bits = constant(PayloadType.NONE, count, np.uint8), constant(0, count, np.int64)
    for name, kind in _PAYLOADS.items():
        column = rows.pop(name)
        known = (
            column.values != OPEN if column.values.dtype == np.int64 else ~np.isnan(column.values)
        )
        if known.any():
            chosen = column.spread(known) & (types == PayloadType.NONE)
            types = np.where(chosen, np.uint8(kind), types)
            bits = np.where(chosen, column.spread(column.values.view(np.int64)), bits)
    return types, bits


def _styles(event_types: I64) -> npt.NDArray[np.uint8]:
    styles = np.full(len(event_types), RangeStyle.PUSH_POP, np.uint8)
    styles[np.isin(event_types, _START_END)] = RangeStyle.START_END
    styles[np.isin(event_types, _MARK)] = RangeStyle.MARK
    return styles


def _possible_sizes(sizes: I64) -> I64:
    return np.where((sizes >= 0) & (sizes < _MOST_BYTES), sizes, -1)


def _preferred(inline: I32, registered: I32) -> I32:
    """Return the rows of inline texts, of registered ones where there is none."""
    if is_constant(inline):
        return registered if inline[0] < 0 else inline
    return np.where(inline >= 0, inline, registered)
