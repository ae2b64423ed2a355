"""Descriptors of Perfetto's tracks: lanes and counters, and who they belong to."""

from __future__ import annotations

from typing import Any

from nvtrace.model.trace import TraceData
from nvtrace.sinks.chrome_tracks import Tracks, counter_label, counter_owner
from nvtrace.sinks.names import valid_utf8
from nvtrace.sinks.perfetto_wire import message, number, text

_EXPLICIT_ORDER = 3
_FIRST_PROCESS = 1 << 24  # numbers of lanes come before, those of counters behind
_FIRST_COUNTER = 1 << 25


def lane_uuid(lane: int) -> int:
    """Return the number of a lane's track."""
    return lane + 1


def counter_uuid(counter: Any) -> Any:
    """Return the number of a counter's track."""
    return counter + _FIRST_COUNTER


def descriptors(tracks: Tracks, trace: TraceData, counters: list[int]) -> list[bytes]:
    """Return the content of a packet for each process, lane, and counter in use."""
    lanes = zip(tracks.pid.tolist(), tracks.tid.tolist(), strict=True)
    uuid_of = {place: lane_uuid(lane) for lane, place in enumerate(lanes)}
    processes = {pid: _FIRST_PROCESS + n for n, pid in enumerate(tracks.pids.values())}
    facts: dict[tuple[int, int | None], dict[str, Any]] = {}
    for event in tracks.metadata:
        facts.setdefault((event["pid"], event.get("tid")), {}).update(event["args"])
    found = []
    for (pid, tid), named in facts.items():
        name, place = valid_utf8(named["name"]), named["sort_index"]
        if tid is None:
            process = number(1, pid) + text(6, name) + number(3, place)
            track = number(1, processes[pid]) + message(3, process)
        else:
            thread = number(1, pid) + number(2, tid) + number(3, place) + text(5, name)
            track = number(1, uuid_of[pid, tid]) + number(5, processes[pid]) + message(4, thread)
            track += number(12, place)
        found.append(message(60, track))
    for row in counters:
        owner = processes[tracks.pids[counter_owner(trace, row)]]
        track = number(1, int(counter_uuid(row))) + number(5, owner) + message(8, b"")
        found.append(message(60, track + text(2, valid_utf8(counter_label(trace.counters[row])))))
    return found
