"""The column catalogue of the event model: one place for names, dtypes, units and codes.

Times are integer nanoseconds relative to the trace's own zero. ``-1`` in an index column is "none".
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import NamedTuple

import numpy as np


class RangeKind(IntEnum):
    """What a range stands for; lower-cased, the NVTX categories of domain ``nvtrace``."""

    USER = 0
    STEP = 1
    DATALOADER = 2
    FORWARD = 3
    BACKWARD = 4
    OPTIMIZATION = 5
    COMMUNICATION = 6
    OPERATOR = 7
    OPERATOR_INNER = 8
    MODULE = 9
    DISPATCH = 10
    COMPILE = 11
    H2D = 12
    D2H = 13
    SYNC = 14


PHASES = (
    RangeKind.DATALOADER,
    RangeKind.FORWARD,
    RangeKind.BACKWARD,
    RangeKind.OPTIMIZATION,
)


class RangeStyle(IntEnum):
    """How a range was written: push/pop on one thread, start/end across threads, or an instant."""

    PUSH_POP = 0
    START_END = 1
    MARK = 2


class RangeFlag(IntFlag):
    """Facts about one range."""

    UNFINISHED = 1
    CROSSING = 2
    REVERSED = 4


class PayloadType(IntEnum):
    """How the eight bytes of ``payload`` are to be read."""

    NONE = 0
    INT = 1
    UINT = 2
    FLOAT = 3


class DeviceKind(IntEnum):
    """What ran on the device."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    GRAPH = 3


class Attribution(IntEnum):
    """How a device row found its range."""

    NONE = 0
    THREAD = 1
    INFERRED = 2


COPY_KINDS = {
    0: "Unknown",
    1: "Host-to-Device",
    2: "Device-to-Host",
    3: "Host-to-Array",
    4: "Array-to-Host",
    5: "Array-to-Array",
    6: "Array-to-Device",
    7: "Device-to-Array",
    8: "Device-to-Device",
    9: "Host-to-Host",
    10: "Peer-to-Peer",
    11: "Unified Host-to-Device",
    12: "Unified Device-to-Host",
    13: "Unified Device-to-Device",
}


class ColumnSpec(NamedTuple):
    """One column: its dtype, its unit, and what it means."""

    dtype: type[np.generic]
    unit: str
    meaning: str


_TIME = ColumnSpec(np.int64, "ns", "since the trace's zero")

RANGES = {
    "start": _TIME,
    "end": _TIME,
    "name": ColumnSpec(np.int32, "", "row of strings"),
    "domain": ColumnSpec(np.int32, "", "row of domains"),
    "category": ColumnSpec(np.int32, "", "row of categories, -1 none"),
    "thread": ColumnSpec(np.int32, "", "row of threads"),
    "end_thread": ColumnSpec(
        np.int32, "", "row of threads; equal to thread unless ended elsewhere"
    ),
    "style": ColumnSpec(np.uint8, "", "RangeStyle"),
    "flags": ColumnSpec(np.uint8, "", "RangeFlag"),
    "color": ColumnSpec(np.uint32, "", "ARGB, 0 none"),
    "payload_type": ColumnSpec(np.uint8, "", "PayloadType"),
    "payload": ColumnSpec(np.int64, "", "the payload's eight bytes, read by payload_type"),
    "text": ColumnSpec(np.int32, "", "row of strings: structured payload text, -1 none"),
}

CALLS = {
    "start": _TIME,
    "end": _TIME,
    "name": ColumnSpec(np.int32, "", "row of strings"),
    "thread": ColumnSpec(np.int32, "", "row of threads"),
    "process": ColumnSpec(np.int32, "", "row of processes"),
    "correlation": ColumnSpec(np.int64, "", "unique within a process only; 0 none"),
}

DEVICE = {
    "start": _TIME,
    "end": _TIME,
    "name": ColumnSpec(np.int32, "", "row of strings: full name"),
    "short_name": ColumnSpec(np.int32, "", "row of strings: base name"),
    "kind": ColumnSpec(np.uint8, "", "DeviceKind"),
    "stream": ColumnSpec(np.int32, "", "row of streams"),
    "process": ColumnSpec(np.int32, "", "row of processes"),
    "correlation": ColumnSpec(np.int64, "", "0 none"),
    "bytes": ColumnSpec(np.int64, "B", "copied or set; -1 none"),
    "copy_kind": ColumnSpec(np.uint8, "", "COPY_KINDS"),
    "graph_node": ColumnSpec(np.uint64, "", "CUDA graph node, 0 none"),
}

KERNEL_DETAILS = {
    "row": ColumnSpec(np.int32, "", "row of device"),
    "grid_x": ColumnSpec(np.int32, "", "blocks"),
    "grid_y": ColumnSpec(np.int32, "", "blocks"),
    "grid_z": ColumnSpec(np.int32, "", "blocks"),
    "block_x": ColumnSpec(np.int32, "", "threads"),
    "block_y": ColumnSpec(np.int32, "", "threads"),
    "block_z": ColumnSpec(np.int32, "", "threads"),
    "registers": ColumnSpec(np.int32, "", "per thread"),
    "static_shared": ColumnSpec(np.int32, "B", "static shared memory"),
    "dynamic_shared": ColumnSpec(np.int32, "B", "dynamic shared memory"),
}

GRAPH_NODES = {
    "start": _TIME,
    "end": _TIME,
    "thread": ColumnSpec(np.int32, "", "row of threads: who created the node"),
    "process": ColumnSpec(np.int32, "", "row of processes"),
    "node": ColumnSpec(np.uint64, "", "CUDA graph node"),
    "original": ColumnSpec(np.uint64, "", "the node it was cloned from, 0 none"),
}

SAMPLES = {
    "time": _TIME,
    "counter": ColumnSpec(np.int32, "", "row of counters"),
    "value": ColumnSpec(np.float64, "", "in the counter's unit"),
}

STREAMS = {
    "device": ColumnSpec(np.int32, "", "row of devices"),
    "context": ColumnSpec(np.int64, "", "CUDA context id"),
    "stream": ColumnSpec(np.int64, "", "CUDA stream id"),
    "process": ColumnSpec(np.int32, "", "row of processes"),
}

THREADS = {
    "process": ColumnSpec(np.int32, "", "row of processes"),
    "tid": ColumnSpec(np.int64, "", "thread id"),
    "name": ColumnSpec(np.int32, "", "row of strings, -1 unnamed"),
}
