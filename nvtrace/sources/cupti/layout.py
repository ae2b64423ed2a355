"""Where the fields of CUPTI's activity records lie.

A record starts with its kind, a 4-byte integer, and its size depends on the library. Over the
versions from 12.2 to 13.5 fields were only ever appended, so one table of offsets serves them all,
together with the sizes that the loaded library itself tells.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType


class RecordKind(IntEnum):
    """The kinds of records that are read; CUPTI's own numbers."""

    MEMCPY = 1
    MEMSET = 2
    KERNEL = 3
    DRIVER = 4
    RUNTIME = 5
    CONCURRENT_KERNEL = 10
    OVERHEAD = 17
    MEMCPY_PEER = 22
    SYNCHRONIZATION = 38
    GRAPH_TRACE = 51


KIND_LIMIT = 256
"""Kinds are below this number in every library so far; the newest has fewer than 64."""

Field = tuple[int, str]
Fields = dict[str, Field]

_API: Fields = {
    "callback": (4, "u4"),
    "start": (8, "u8"),
    "end": (16, "u8"),
    "thread_id": (28, "u4"),
    "correlation": (32, "u4"),
}

_PLACE: Fields = {"device": (32, "u4"), "context": (36, "u4"), "stream": (40, "u4")}

_KERNEL: Fields = {
    "registers": (6, "u2"),
    "start": (16, "u8"),
    "end": (24, "u8"),
    "device": (40, "u4"),
    "context": (44, "u4"),
    "stream": (48, "u4"),
    "grid_x": (52, "i4"),
    "grid_y": (56, "i4"),
    "grid_z": (60, "i4"),
    "block_x": (64, "i4"),
    "block_y": (68, "i4"),
    "block_z": (72, "i4"),
    "static_shared": (76, "i4"),
    "dynamic_shared": (80, "i4"),
    "correlation": (92, "u4"),
    "name": (104, "u8"),
    "graph_node": (144, "u8"),
}

_FIELDS: dict[int, Fields] = {
    RecordKind.MEMCPY: {
        "copy_kind": (4, "u1"),
        "bytes": (8, "u8"),
        "start": (16, "u8"),
        "end": (24, "u8"),
        **_PLACE,
        "correlation": (44, "u4"),
        "graph_node": (64, "u8"),
    },
    RecordKind.MEMSET: {
        "bytes": (8, "u8"),
        "start": (16, "u8"),
        "end": (24, "u8"),
        **_PLACE,
        "correlation": (44, "u4"),
        "graph_node": (64, "u8"),
    },
    RecordKind.MEMCPY_PEER: {
        "copy_kind": (4, "u1"),
        "bytes": (8, "u8"),
        "start": (16, "u8"),
        "end": (24, "u8"),
        **_PLACE,
        "correlation": (60, "u4"),
        "graph_node": (72, "u8"),
    },
    RecordKind.KERNEL: _KERNEL,
    RecordKind.CONCURRENT_KERNEL: _KERNEL,
    RecordKind.DRIVER: _API,
    RecordKind.RUNTIME: _API,
    RecordKind.OVERHEAD: {
        "overhead": (4, "u4"),
        "object": (8, "u4"),
        "thread_id": (16, "u4"),
        "start": (24, "u8"),
        "end": (32, "u8"),
    },
    RecordKind.SYNCHRONIZATION: {
        "synchronization": (4, "u4"),
        "start": (8, "u8"),
        "end": (16, "u8"),
        "correlation": (24, "u4"),
        "context": (28, "u4"),
        "stream": (32, "u4"),
    },
    RecordKind.GRAPH_TRACE: {
        "correlation": (4, "u4"),
        "start": (8, "u8"),
        "end": (16, "u8"),
        "device": (24, "u4"),
        "graph": (28, "u4"),
        "context": (32, "u4"),
        "stream": (36, "u4"),
    },
}

FIELDS = MappingProxyType(_FIELDS)
"""Of each kind, its fields: byte offset and numpy type (little-endian, as every GPU host is)."""


def needed(kind: int) -> int:
    """Return how many bytes a record of ``kind`` has at least, for its fields to be in it."""
    return max(offset + int(code[1]) for offset, code in FIELDS[kind].values())
