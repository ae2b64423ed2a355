"""GPU work of a session of JAX: kernels, copies and sets, and the calls that launched them.

Written after public XPlane files and XLA's sources; it has not been run on a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nvtrace.model.harvest import HarvestedDevice
from nvtrace.model.schema import COPY_KINDS, DeviceKind
from nvtrace.model.strings import Strings
from nvtrace.model.trace import Device

from .session import Capture
from .xspace import Event, Line, Plane

_PLANE = re.compile(r"/device:GPU:(\d+)")
_STREAM = re.compile(r"Stream #(\d+)")
_COPY = re.compile(r"Memcpy([HDPA])2([HDPA])")
_SHAPE = re.compile(r"(\w+):(\d+(?:,\d+)*)")
_SIDES = {"H": "Host", "D": "Device", "A": "Array"}
_COPY_CODES = {name: code for code, name in COPY_KINDS.items()}
_DETAILS = (
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
    *("registers", "static_shared", "dynamic_shared"),
)

LAUNCH = "correlation_id"
"""The fact that events of launches and of what they launched share."""


def device_work(capture: Capture, thread_of: Callable[[Line], int]) -> HarvestedDevice | None:
    """Return the GPU work of a session; None where it has no plane of a GPU.

    Args:
        capture: the session.
        thread_of: native id of a host line's thread.
    """
    planes = [
        (int(found[1]), plane)
        for plane in capture.planes
        if (found := _PLANE.match(plane.name)) is not None
    ]
    if not planes:
        return None
    strings = Strings()
    work = [row for ordinal, plane in planes for row in _work(ordinal, plane, strings)]
    work.sort(key=lambda row: (row["start"], -row["end"]))
    calls = [
        {
            "start": event.start_ns,
            "end": event.start_ns + event.duration_ns,
            "name": strings.intern(event.name),
            "thread_id": thread_of(line),
            "correlation": number(event, LAUNCH),
        }
        for _, line, event in launches(capture.planes)
    ]
    details = [row.pop("details") for row in work]
    described = [(row, shape) for row, shape in enumerate(details) if shape is not None]
    shifted = {"start", "end"}
    return HarvestedDevice(
        strings=strings,
        calls={
            key: np.array([row[key] for row in calls], np.int64)
            + (capture.offset_ns if key in shifted else 0)
            for key in ("start", "end", "name", "thread_id", "correlation")
        },
        device={
            key: np.array([row[key] for row in work], dtype)
            + (capture.offset_ns if key in shifted else dtype(0))
            for key, dtype in _COLUMNS.items()
        },
        details={
            "row": np.array([row for row, _ in described], np.int32),
            **{
                key: np.array([shape[place] for _, shape in described], np.int32)
                for place, key in enumerate(_DETAILS)
            },
        },
        devices=tuple(Device(ordinal, process=0) for ordinal, _ in planes),
    )


_COLUMNS: dict[str, Any] = {
    "start": np.int64,
    "end": np.int64,
    "name": np.int32,
    "short_name": np.int32,
    "kind": np.uint8,
    "device": np.int32,
    "context": np.int64,
    "stream": np.int64,
    "correlation": np.int64,
    "bytes": np.int64,
    "copy_kind": np.uint8,
    "graph_node": np.uint64,
}


def launches(planes: list[Plane]) -> Iterator[tuple[Plane, Line, Event]]:
    """Yield the host's calls that launched GPU work."""
    for plane in planes:
        if plane.name.startswith("/host:"):
            for line in plane.lines:
                for event in plane.events(line, fact=LAUNCH):
                    yield plane, line, event


def instructions(planes: list[Plane]) -> dict[int, Event]:
    """Return by correlation the one instruction that a launch was of; none where it was several."""
    found: dict[int, Event] = {}
    several = set()
    for plane in planes:
        if _PLANE.match(plane.name):
            for line in plane.lines:
                for event in plane.events(line, fact="hlo_op"):
                    key = number(event, LAUNCH)
                    before = found.setdefault(key, event)
                    if before.stats["hlo_op"] != event.stats["hlo_op"]:
                        several.add(key)
    return {key: event for key, event in found.items() if key and key not in several}


def _work(ordinal: int, plane: Plane, strings: Strings) -> Iterator[dict[str, Any]]:
    for line in plane.lines:
        stream = _STREAM.search(line.name)
        if stream is None:
            continue  # derived lines: steps, modules, scopes
        for event in plane.events(line):
            name = strings.intern(event.name)
            kind, copy = _kind(event.name)
            yield {
                "start": event.start_ns,
                "end": event.start_ns + event.duration_ns,
                "name": name,
                "short_name": name,
                "kind": kind,
                "device": ordinal,
                "context": number(event, "context_id"),
                "stream": int(stream[1]),
                "correlation": number(event, LAUNCH),
                "bytes": _bytes(event),
                "copy_kind": copy,
                "graph_node": number(event, "cuda_graph_node_id"),
                "details": _shape(event) if kind is DeviceKind.KERNEL else None,
            }


def _kind(name: str) -> tuple[DeviceKind, int]:
    if copy := _COPY.match(name):
        sides = [_SIDES.get(side) for side in copy.groups()]
        peer = "Peer-to-Peer" if None in sides else "-to-".join(map(str, sides))
        return DeviceKind.MEMCPY, _COPY_CODES.get(peer, 0)
    if name.startswith("Memset"):
        return DeviceKind.MEMSET, 0
    return DeviceKind.KERNEL, 0


def number(event: Event, fact: str) -> int:
    """Return a fact that is a number, 0 where there is none."""
    value = event.stats.get(fact, 0)
    return value if isinstance(value, int) else 0


def _bytes(event: Event) -> int:
    for fact in ("memcpy_details", "memset_details"):
        for key, value in _SHAPE.findall(str(event.stats.get(fact, ""))):
            if key in ("size", "num_bytes"):
                return int(value)
    return -1


def _shape(event: Event) -> list[int] | None:
    """Return the launch shape out of ``regs:32 static_shared:0 ... grid:108,1,1 block:128,1,1``."""
    found = dict(_SHAPE.findall(str(event.stats.get("kernel_details", ""))))
    sides = [*found.get("grid", "").split(","), *found.get("block", "").split(",")]
    rest = [found.get(key, "") for key in ("regs", "static_shared", "dynamic_shared")]
    if len(sides) != 6 or not all(part.isdigit() for part in (*sides, *rest)):
        return None
    return [int(part) for part in (*sides, *rest)]
