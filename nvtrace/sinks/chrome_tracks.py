"""The viewer's processes and threads: who gets which number, name and place.

A viewer knows lanes by (pid, tid) alone, while the pids of a trace may repeat between hosts and
files, and streams and extra lanes have no number of their own. Real numbers are kept where they
are unique; all others are handed out from far above them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nvtrace.model.arrays import I64
from nvtrace.model.trace import Counter, TraceData
from nvtrace.sinks.names import valid_utf8

_LARGEST = 2**32 - 1
_FIRST_MADE_UP = 10_000_001

# A process of the viewer: (row of processes, row of devices), the latter -1 for the host's side.
Owner = tuple[int, int]


@dataclass
class Tracks:
    """Numbers and names of the lanes.

    Attributes:
        first: row, in ``pid`` and ``tid``, of the first lane of each group (see ``groups``).
        pid: process number of each lane.
        tid: thread number of each lane.
        pids: process number of each owner.
        metadata: the events that name and sort them, in order.
    """

    first: I64
    pid: I64
    tid: I64
    pids: dict[Owner, int] = field(default_factory=dict)
    metadata: list[dict[str, Any]] = field(default_factory=list)


class Groups:
    """Rows of the groups of lanes: of threads, of their start/end ranges, of streams.

    Attributes:
        paired: row of the first group of start/end ranges; a thread's own group is its row.
        streams: row of the first group of a stream.
        count: number of groups.
    """

    def __init__(self, trace: TraceData) -> None:
        self.paired = trace.threads.rows
        self.streams = 2 * trace.threads.rows
        self.count = self.streams + trace.streams.rows


def counter_owner(trace: TraceData, row: int) -> Owner:
    """Return the process of the viewer that a counter belongs to."""
    counter = trace.counters[row]
    if counter.device < 0 or counter.process >= 0:
        return counter.process, counter.device
    of_device = trace.streams["process"][trace.streams["device"] == counter.device]
    return int(of_device.min()) if len(of_device) else -1, counter.device


def counter_label(counter: Counter) -> str:
    """Return what a counter is called in a viewer."""
    return f"{counter.name} ({counter.unit})" if counter.unit else counter.name


def make_tracks(trace: TraceData, lanes: I64, owners: Iterable[Owner]) -> Tracks:
    """Number and name the lanes.

    Args:
        trace: whose threads and streams they are.
        lanes: how many lanes each group needs, of shape (groups,).
        owners: owners that need a process though they may have no lane.
    """
    return _Maker(trace, lanes, owners).make()


class _Maker:
    def __init__(self, trace: TraceData, lanes: I64, owners: Iterable[Owner]) -> None:
        self._trace = trace
        self._lanes = lanes
        total = int(lanes.sum())
        self._tracks = Tracks(
            np.cumsum(lanes) - lanes, np.zeros(total, np.int64), np.zeros(total, np.int64)
        )
        groups = self._groups = Groups(trace)
        used = np.flatnonzero(lanes)
        self._threads: dict[Owner, set[int]] = {}
        self._streams: dict[Owner, list[int]] = {}
        for group in used[used < groups.streams].tolist():
            thread = group % trace.threads.rows
            owner = (int(trace.threads["process"][thread]), -1)
            self._threads.setdefault(owner, set()).add(thread)
        for stream in (used[used >= groups.streams] - groups.streams).tolist():
            owner = (int(trace.streams["process"][stream]), int(trace.streams["device"][stream]))
            self._streams.setdefault(owner, []).append(stream)
        self._owners = sorted({*self._threads, *self._streams, *owners}, key=self._place)

    def make(self) -> Tracks:
        claimed, fresh = self._numbers()
        for index, owner in enumerate(self._owners):
            pid = self._tracks.pids[owner] = claimed.get(("pid", owner)) or fresh()
            host = owner[1] < 0
            label = self._host_label(owner[0]) if host else self._device_label(owner)
            self._tracks.metadata += _named("process", label, index, pid)
            own = self._host_lanes(owner) if host else self._device_lanes(owner)
            for place, (lane, thread, name) in enumerate(own):
                tid = claimed.get(("tid", thread)) or fresh()
                self._tracks.pid[lane], self._tracks.tid[lane] = pid, tid
                self._tracks.metadata += _named("thread", name, place, pid, tid)
        return self._tracks

    def _place(self, owner: Owner) -> tuple[bool, bool, int, int, int]:
        """Hosts before devices; in each, by rank, then as the trace has them."""
        process, device = owner
        rank = self._trace.processes[process].rank if process >= 0 else None
        ordinal = self._trace.devices[device].ordinal if device >= 0 else -1
        return (device >= 0, rank is None, rank or 0, process, ordinal)

    def _numbers(self) -> tuple[dict[tuple[str, Any], int], Callable[[], int]]:
        """Return the real numbers that are unique, by owner, and a maker of others."""
        claimed: dict[tuple[str, Any], int] = {}
        taken: dict[str, set[int]] = {"pid": set(), "tid": set()}

        def claim(kind: str, whose: Any, number: int) -> None:
            if 1 <= number <= _LARGEST and number not in taken[kind]:
                taken[kind].add(number)
                claimed[kind, whose] = number

        for owner in self._owners:
            if owner[1] < 0 <= owner[0]:
                claim("pid", owner, self._trace.processes[owner[0]].pid)
            for thread in sorted(self._threads.get(owner, ())):
                claim("tid", thread, int(self._trace.threads["tid"][thread]))
        real = taken["pid"] | taken["tid"]
        made_up = (n for n in range(_FIRST_MADE_UP, _LARGEST + 1) if n not in real)
        return claimed, lambda: next(made_up)

    def _host_lanes(self, owner: Owner) -> Iterable[tuple[int, int | None, str]]:
        """Yield the lanes of a process in order: row, the thread that may give its number, name."""
        trace = self._trace
        pid = trace.processes[owner[0]].pid if owner[0] >= 0 else -1
        tids = trace.threads["tid"]
        for thread in sorted(
            self._threads.get(owner, ()), key=lambda row: (tids[row] != pid, tids[row], row)
        ):
            row = int(trace.threads["name"][thread])
            name = f"thread {tids[thread]}" + (f": {trace.strings[row]}" if row >= 0 else "")
            for number, (lane, label) in enumerate(self._group_lanes(thread, name)):
                yield lane, None if number else thread, label
            paired = thread + self._groups.paired
            for lane, label in self._group_lanes(paired, f"{name} start/end"):
                yield lane, None, label

    def _device_lanes(self, owner: Owner) -> Iterable[tuple[int, None, str]]:
        streams = self._trace.streams
        context, number = streams["context"], streams["stream"]
        rows = sorted(self._streams.get(owner, ()), key=lambda row: (context[row], number[row]))
        width = max((len(str(number[row])) for row in rows), default=0)
        several = len({int(context[row]) for row in rows} - {0}) > 1
        for row in rows:
            # Blanks, which viewers do not show, make stream 7 sort before stream 13 everywhere.
            name = f"stream {number[row]:>{width}}"
            if several:
                name = f"context {context[row]} {name}"
            if not context[row] and not number[row]:
                name = "stream 0 (unified memory)"
            for lane, label in self._group_lanes(row + self._groups.streams, name):
                yield lane, None, label

    def _group_lanes(self, group: int, name: str) -> Iterable[tuple[int, str]]:
        for number in range(int(self._lanes[group])):
            lane = int(self._tracks.first[group]) + number
            yield lane, name if not number else f"{name} #{number + 1}"

    def _host_label(self, process: int) -> str:
        if process < 0:
            return "trace"
        return f"{self._trace.processes[process].name or 'process'} ({self._facts(process)})"

    def _device_label(self, owner: Owner) -> str:
        process, device = owner
        facts = self._trace.devices[device]
        name = f"GPU {facts.ordinal}" + (f": {facts.name}" if facts.name else "")
        return f"{name} ({self._facts(process)})" if process >= 0 else name

    def _facts(self, process: int) -> str:
        facts = self._trace.processes[process]
        words = [f"pid {facts.pid}"]
        if facts.rank is not None:
            words.append(f"rank {facts.rank}")
        if len(self._trace.sources) > 1 and facts.source:
            words.append(facts.source)
        return ", ".join(words)


def _named(
    kind: str, name: str, place: int, pid: int, tid: int | None = None
) -> list[dict[str, Any]]:
    where = {"ph": "M", "pid": pid} | ({} if tid is None else {"tid": tid})
    return [
        {"name": f"{kind}_name", **where, "args": {"name": valid_utf8(name)}},
        {"name": f"{kind}_sort_index", **where, "args": {"sort_index": place}},
    ]
