"""Operators of a session: each HLO instruction that ran, and host work that no hook marked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from nvtrace.model.harvest import Harvest, HarvestedRanges
from nvtrace.model.schema import RangeKind
from nvtrace.model.strings import Strings
from nvtrace.model.trace import Note

from . import gpu, programs
from .marking import PREFIX
from .session import Capture
from .xspace import Event, Line, Plane

_CALL = "PjitFunction("
_PUT = "shard_args"
_END = "end: "
_MAX_PID = 1 << 22


@dataclass(slots=True)
class _Row:
    start: int
    end: int
    name: str
    kind: RangeKind
    thread: int
    text: str = ""
    beside: bool = False


def harvest(capture: Capture) -> Harvest:
    """Return operators, and calls and transfers beyond the hooks, as ranges."""
    threads = _Threads(capture)
    known = programs.of_session(capture.planes)
    operators = _Operators(known, capture.planes)
    rows: list[_Row] = []
    for plane in capture.planes:
        if not plane.name.startswith("/host:CPU"):
            continue
        operators.find_ends(plane)
        for line in plane.lines:
            thread = threads.of(line)
            rows += operators.rows(plane, line, thread)
            rows += _unmarked(plane, line, thread)
    rows += operators.launches(threads)
    notes = [*_clock_notes(capture)]
    if operators.unknown:
        notes.append(
            Note(
                "programs_unknown",
                f"{operators.unknown:,} operators are of programs that JAX's profiler kept no HLO "
                "of: they have no op_name and no phase",
            )
        )
    found = _columns(rows, capture.offset_ns, threads.names, notes)
    return replace(found, device=gpu.device_work(capture, threads.of))


class _Threads:
    """Native ids of lines; a made-up one where XLA tells a hash alone."""

    def __init__(self, capture: Capture) -> None:
        self._known = {capture.line: capture.thread}
        self.names: dict[int, str] = {}

    def of(self, line: Line) -> int:
        thread = self._known.get(line.id)
        if thread is None:
            thread = line.id if line.id < _MAX_PID else _MAX_PID + line.id % (1 << 31)
            self._known[line.id] = thread
            self.names[thread] = line.name.split("/")[0]
        return thread


class _Operators:
    """Turns events of thunks into ranges."""

    def __init__(self, known: programs.Programs, planes: list[Plane]) -> None:
        self._programs = known
        self._planes = planes
        self._texts: dict[tuple[str, int, str], str] = {}
        self._ends: dict[int, int] = {}
        self.unknown = 0

    def find_ends(self, plane: Plane) -> None:
        """Note where asynchronous operators end: on whichever thread, by an event of its own."""
        for line in plane.lines:
            for event in plane.events(line, _END):
                flow = event.stats.get("_c")
                if isinstance(flow, int):
                    self._ends[flow] = event.start_ns

    def launches(self, threads: _Threads) -> Iterator[_Row]:
        """Yield a range around each launch, so that what it ran on a GPU is the instruction's."""
        launched = gpu.instructions(self._planes)
        for _, line, event in gpu.launches(self._planes):
            ran = launched.get(gpu.number(event, gpu.LAUNCH))
            if ran is not None and "hlo_op" not in event.stats:
                end = event.start_ns + event.duration_ns
                name = str(ran.stats["hlo_op"])
                text = self._text(ran)
                yield _Row(event.start_ns, end, name, RangeKind.OPERATOR, threads.of(line), text)

    def rows(self, plane: Plane, line: Line, thread: int) -> Iterator[_Row]:
        for event in plane.events(line, fact="hlo_op"):
            end = returned = event.start_ns + event.duration_ns
            flow = event.stats.get("_p")
            if isinstance(flow, int):
                end = max(end, self._ends.get(flow, end))
            # the mark of an end is made inside the operator, or right behind it
            late = end - returned > 20_000
            yield _Row(
                event.start_ns,
                end if late else returned,
                str(event.stats["hlo_op"]),
                RangeKind.OPERATOR,
                thread,
                self._text(event),
                beside=late,
            )

    def _text(self, event: Event) -> str:
        module = str(event.stats.get("hlo_module", ""))
        program = event.stats.get("program_id", -1)
        name = str(event.stats["hlo_op"])
        key = (module, program if isinstance(program, int) else -1, name)
        if key not in self._texts:
            labels = self._programs.labels(*key[:2])
            found = None if labels is None else labels.by_name.get(name)
            self._texts[key] = (
                json.dumps({"hlo_module": module})
                if labels is None or found is None
                else programs.text(found, labels)
            )
        if "opcode" not in self._texts[key]:
            self.unknown += 1
        return self._texts[key]


def _unmarked(plane: Plane, line: Line, thread: int) -> Iterator[_Row]:
    """Yield calls and transfers of which no hook knew, from JAX's own events.

    A call is told twice, one event around the other; those inside a mark of ours are known.
    """
    until = 0
    for event in sorted(
        plane.events(line, _CALL, _PUT, PREFIX, "device_put"),
        key=lambda one: (one.start_ns, -one.duration_ns),
    ):
        end = event.start_ns + event.duration_ns
        if event.start_ns < until:
            continue
        until = end
        if event.name.startswith(_CALL):
            name = PREFIX + event.name[len(_CALL) :].rstrip(")")
            yield _Row(event.start_ns, end, name, RangeKind.DISPATCH, thread)
        elif event.name == _PUT:
            yield _Row(event.start_ns, end, _PUT, RangeKind.H2D, thread)


def _clock_notes(capture: Capture) -> Iterator[Note]:
    if capture.drifted:
        yield Note(
            "clock_set",
            f"the system clock was set by {capture.drift_ns / 1e6:,.3f} ms while JAX's profiler "
            "ran: operators may stand that far from other ranges",
        )


def _columns(rows: list[_Row], offset: int, names: dict[int, str], notes: list[Note]) -> Harvest:
    strings = Strings()
    used = {row.thread for row in rows}
    return Harvest(
        strings=strings,
        ranges=HarvestedRanges(
            start=np.array([row.start for row in rows], np.int64) + offset,
            end=np.array([row.end for row in rows], np.int64) + offset,
            name=strings.intern_all(row.name for row in rows),
            kind=np.array([row.kind for row in rows], np.uint8),
            thread=np.array([row.thread for row in rows], np.int64),
            text=np.array([strings.intern(row.text) if row.text else -1 for row in rows], np.int32),
            beside=np.array([row.beside for row in rows], np.bool_),
        ),
        thread_names={thread: name for thread, name in names.items() if thread in used},
        notes=tuple(notes),
    )
