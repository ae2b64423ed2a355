"""What a collector hands over: the GPU work of one capture as columns, times in Unix ns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import factorize
from nvtrace.model.schema import COPY_KINDS, DeviceKind
from nvtrace.model.strings import Strings
from nvtrace.model.trace import Device, Note
from nvtrace.sources.cupti.clock import Clock
from nvtrace.sources.cupti.decode import Decoder
from nvtrace.sources.cupti.layout import RecordKind
from nvtrace.sources.cupti.names import base_name, demangler, full_names

Columns = dict[str, npt.NDArray[Any]]
I32 = npt.NDArray[np.int32]
CallbackName = Callable[[int, int], str | None]

_NO_THREAD = 0
_THREAD_OBJECT = 2
_OVERHEADS = {
    0: "unknown",
    1: "driver compiler",
    1 << 16: "CUPTI buffer flush",
    2 << 16: "CUPTI instrumentation",
    3 << 16: "CUPTI resource",
    4 << 16: "module loading",
    5 << 16: "lazy function loading",
    6 << 16: "command buffer full",
    7 << 16: "CUPTI buffer request",
    8 << 16: "unified memory initialisation",
}
_SYNCHRONIZATIONS = {
    1: "event synchronize",
    2: "stream wait event",
    3: "stream synchronize",
    4: "context synchronize",
}
_DETAILS = (
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
    *("registers", "static_shared", "dynamic_shared"),
)


class CallDomain(IntEnum):
    """Which API a call belongs to; CUPTI's own numbers."""

    DRIVER = 1
    RUNTIME = 2


@dataclass(frozen=True)
class Activity:
    """The GPU work of one capture. Rows are in order of start; names are rows of ``strings``.

    Attributes:
        calls: start, end (int64, Unix ns), name (int32), thread_id (int64, the system's),
            correlation (int64), domain (uint8, CallDomain).
        device: start, end, name, short_name, kind (uint8, DeviceKind), device (int32, CUDA's
            ordinal), context, stream (int64), correlation (int64), bytes (int64, -1 none),
            copy_kind (uint8), graph_node (uint64, 0 none).
        details: row (int32, of ``device``) and the launch shape of each kernel, int32.
        overhead: start, end, name, thread_id (int64, 0 unknown): time that tracing itself took.
        synchronizations: start, end, name, context, stream (int64); empty unless asked for.
        strings: the names.
        devices: what is known of the devices.
        kinds: the kinds that were recorded, as the collector names them.
        graph_level: whether CUDA graphs were recorded as one row a run.
        lost_buffers: full buffers that gave way at the budget, with ``lost_bytes`` and
            ``lost_records`` in them.
        lost_span: between which Unix ns those were filled; None when nothing was lost.
        dropped_records: records that CUPTI itself had no memory for.
        unread_bytes: what lay behind records of an unknown kind.
        untimed: rows that came without a start or an end, and are in no table.
        clock: how times were aligned.
        notes: what a reader should know.
    """

    calls: Columns
    device: Columns
    details: Columns
    overhead: Columns
    synchronizations: Columns
    strings: Strings
    devices: tuple[Device, ...]
    kinds: frozenset[str]
    graph_level: bool
    lost_buffers: int
    lost_bytes: int
    lost_records: int
    lost_span: tuple[int, int] | None
    dropped_records: int
    unread_bytes: int
    untimed: int
    clock: Clock
    notes: tuple[Note, ...]


class Tables:
    """The tables of an Activity, from decoded records.

    Args:
        decoder: the records.
        clock: CUPTI's clock.
        callback_name: names a driver or runtime call.

    Attributes:
        strings: the names met.
        untimed: rows left out because they have no start or no end.
        mangled: whether C++ names were left as they are for lack of a demangler.
    """

    def __init__(self, decoder: Decoder, clock: Clock, callback_name: CallbackName) -> None:
        self._decoder = decoder
        self._clock = clock
        self._callback_name = callback_name
        self.strings = Strings()
        self.untimed = 0
        self.mangled = False

    def calls(self) -> Columns:
        """Return the driver and runtime calls."""
        parts = []
        for kind, domain in (
            (RecordKind.DRIVER, CallDomain.DRIVER),
            (RecordKind.RUNTIME, CallDomain.RUNTIME),
        ):
            rows = self._timed(kind)
            parts.append(
                {
                    "start": rows["start"],
                    "end": rows["end"],
                    "name": self._named(rows["callback"], self._call_text(domain)),
                    "thread_id": rows["thread_id"].astype(np.int64),
                    "correlation": rows["correlation"].astype(np.int64),
                    "domain": np.full(len(rows["start"]), domain, np.uint8),
                }
            )
        return _ordered(_joined(parts))[0]

    def device(self) -> tuple[Columns, Columns]:
        """Return the work of the devices, and the launch shapes of its kernels."""
        parts = []
        shapes = []
        for rows, full, short in self._kernels():
            shapes.append({name: rows[name].astype(np.int32) for name in _DETAILS})
            parts.append(_work(rows, DeviceKind.KERNEL, full, short))
        for kind in (RecordKind.MEMCPY, RecordKind.MEMCPY_PEER):
            rows = self._timed(kind)
            names = self._named(rows["copy_kind"], _copy_text)
            parts.append(_work(rows, DeviceKind.MEMCPY, names, names))
        rows = self._timed(RecordKind.MEMSET)
        names = np.full(len(rows["start"]), self.strings.intern("[CUDA memset]"), np.int32)
        parts.append(_work(rows, DeviceKind.MEMSET, names, names))
        rows = self._timed(RecordKind.GRAPH_TRACE)
        names = self._named(rows["graph"], lambda graph: f"[CUDA graph {graph}]")
        parts.append(_work(rows, DeviceKind.GRAPH, names, names))
        table, order = _ordered(_joined(parts))
        details = _joined(shapes)
        places = np.empty(len(order), np.int32)
        places[order] = np.arange(len(order), dtype=np.int32)
        details["row"] = places[: len(details["grid_x"])]
        return table, details

    def overhead(self) -> Columns:
        """Return the time that tracing and loading took."""
        rows = self._timed(RecordKind.OVERHEAD)
        of_thread = rows["object"] == _THREAD_OBJECT
        table = {
            "start": rows["start"],
            "end": rows["end"],
            "name": self._named(rows["overhead"], _text_of(_OVERHEADS, "overhead")),
            "thread_id": np.where(of_thread, rows["thread_id"], _NO_THREAD).astype(np.int64),
        }
        return _ordered(table)[0]

    def synchronizations(self) -> Columns:
        """Return the waits, where those were recorded."""
        rows = self._timed(RecordKind.SYNCHRONIZATION)
        texts = _text_of(_SYNCHRONIZATIONS, "synchronization")
        table = {
            "start": rows["start"],
            "end": rows["end"],
            "name": self._named(rows["synchronization"], texts),
            "context": rows["context"].astype(np.int64),
            "stream": rows["stream"].astype(np.int64),
        }
        return _ordered(table)[0]

    def _timed(self, kind: RecordKind) -> Columns:
        """Return the records of a kind that have their times, and those on the host's clock."""
        rows = self._decoder.columns(kind)
        good = (rows["start"] != 0) & (rows["end"] != 0)
        if not good.all():
            self.untimed += int(np.count_nonzero(~good))
            rows = {name: column[good] for name, column in rows.items()}
        for name in ("start", "end"):
            rows[name] = self._clock.to_unix(rows[name])
        return rows

    def _kernels(self) -> Iterator[tuple[Columns, I32, I32]]:
        demangle = demangler()
        mangled = list(self._decoder.names)
        self.mangled = demangle is None and any(name.startswith("_Z") for name in mangled)
        texts = full_names(mangled, demangle)
        full = self.strings.intern_all(texts)
        short = self.strings.intern_all(map(base_name, texts))
        for kind in (RecordKind.KERNEL, RecordKind.CONCURRENT_KERNEL):
            rows = self._timed(kind)
            yield rows, full[rows["name"]], short[rows["name"]]

    def _named(self, codes: npt.NDArray[Any], text: Callable[[int], str]) -> I32:
        distinct, rows = factorize(codes)
        return self.strings.intern_all(map(text, distinct.tolist()))[rows]

    def _call_text(self, domain: CallDomain) -> Callable[[int], str]:
        def text(callback: int) -> str:
            name = self._callback_name(domain, callback)
            return name or f"{domain.name.lower()} call {callback}"

        return text


def _copy_text(kind: int) -> str:
    return f"[CUDA memcpy {COPY_KINDS.get(kind, f'kind {kind}')}]"


def _text_of(texts: dict[int, str], what: str) -> Callable[[int], str]:
    return lambda code: texts.get(code, f"{what} {code}")


def _work(rows: Columns, kind: DeviceKind, name: I32, short_name: I32) -> Columns:
    count = len(rows["start"])
    return {
        "start": rows["start"],
        "end": rows["end"],
        "name": name,
        "short_name": short_name,
        "kind": np.full(count, kind, np.uint8),
        "device": rows["device"].astype(np.int32),
        "context": rows["context"].astype(np.int64),
        "stream": rows["stream"].astype(np.int64),
        "correlation": rows["correlation"].astype(np.int64),
        "bytes": rows.get("bytes", np.full(count, -1, np.int64)).astype(np.int64),
        "copy_kind": rows.get("copy_kind", np.zeros(count, np.uint8)),
        "graph_node": rows.get("graph_node", np.zeros(count, np.uint64)),
    }


def _joined(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _ordered(table: Columns) -> tuple[Columns, npt.NDArray[np.int64]]:
    order = np.argsort(table["start"], kind="stable")
    return {name: column[order] for name, column in table.items()}, order
