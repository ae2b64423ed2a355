"""TraceData: the tables of one trace, as a source filled them. No analysis happens here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from nvtrace.model import schema
from nvtrace.model.strings import Strings
from nvtrace.model.table import Table

GPU_NOT_RECORDED = "gpu_not_recorded"
"""Code of the note that says why a trace holds no GPU activity."""

NOTE_CATEGORY = "note"
"""Category of a mark, in nvtrace's domain, that is a note on what was marked: CODE: MESSAGE."""


class Note(NamedTuple):
    """One thing a reader of the figures should know.

    Attributes:
        code: a stable word for programs (``"no_kernels"``).
        message: one line for people: what is so, and what to do about it.
    """

    code: str
    message: str


class Process(NamedTuple):
    """One traced process; rank and host are None when unknown, ``source`` names the file.

    ``device_recorded`` is False where its file, among several, holds no GPU activity at all.
    """

    pid: int
    name: str | None = None
    rank: int | None = None
    host: str | None = None
    source: str = ""
    device_recorded: bool = True


class Device(NamedTuple):
    """One GPU as CUDA numbers it (``ordinal``), with the hardware's identity where known.

    ``process`` is the row of the process that numbers it so, where the hardware behind the number
    is unknown: two processes' device 0 may be two GPUs.
    """

    ordinal: int
    name: str | None = None
    uuid: str | None = None
    bus_id: str | None = None
    memory_bytes: int | None = None
    sm_count: int | None = None
    process: int = -1


class CpuUsage(NamedTuple):
    """CPU time over the recorded window.

    Attributes:
        name: ``CPU(Process)``, ``CPU(Children)`` or ``CPU(System)``.
        busy_ns: CPU time used, over all cores.
        window_ns: what 100 % is: the window for processes, the window times the number of cores
            for the system.
    """

    name: str
    busy_ns: int
    window_ns: int


class Counter(NamedTuple):
    """One sampled quantity, of a device (row) or a process (row)."""

    name: str
    unit: str
    device: int = -1
    process: int = -1


class Domain(NamedTuple):
    """An NVTX domain of one process; ``name`` is empty for the default domain."""

    process: int
    name: str


class Source(NamedTuple):
    """Where a trace came from; personal facts (command lines, users, paths) are left out.

    Attributes:
        name: the file's name without its folder.
        product: the program and version that wrote it, where known.
        schema: its schema version, where known.
        offset_ns: what was added to its times to put it on the trace's clock.
    """

    name: str
    product: str | None = None
    schema: str | None = None
    offset_ns: int = 0


class Recorded(NamedTuple):
    """Which kinds of rows the input could have held: absence of a kind is not zero of it."""

    ranges: bool = False
    calls: bool = False
    kernels: bool = False
    memcpy: bool = False
    memset: bool = False
    graphs: bool = False

    @property
    def device(self) -> bool:
        """Whether any device activity was recorded."""
        return self.kernels or self.memcpy or self.memset or self.graphs


class FileRows(NamedTuple):
    """Where in the tables the rows of one of several files are."""

    ranges: slice
    calls: slice
    device: slice
    graph_nodes: slice


@dataclass(frozen=True)
class TraceData:
    """The tables of one trace.

    Rows of ``ranges``, ``calls`` and ``device`` are sorted by start, longer first (``device``: then
    by kind), those of ``kernel_details`` by row; of several files that were read without details,
    those of one stand behind those of another. Times are int64 ns relative to the first event;
    ``origin_unix_ns + t`` is absolute time where the origin is known. ``shift_ns`` is what was
    subtracted from the input's own times, and ``capture_start`` is where the capture itself began:
    work stamped before it is kept but widens no window. ``files`` says where the rows of each file
    are where those of one stand behind those of another, and is empty otherwise.
    """

    ranges: Table = field(default_factory=partial(Table.empty, schema.RANGES))
    calls: Table = field(default_factory=partial(Table.empty, schema.CALLS))
    device: Table = field(default_factory=partial(Table.empty, schema.DEVICE))
    kernel_details: Table = field(default_factory=partial(Table.empty, schema.KERNEL_DETAILS))
    graph_nodes: Table = field(default_factory=partial(Table.empty, schema.GRAPH_NODES))
    samples: Table = field(default_factory=partial(Table.empty, schema.SAMPLES))
    streams: Table = field(default_factory=partial(Table.empty, schema.STREAMS))
    threads: Table = field(default_factory=partial(Table.empty, schema.THREADS))
    strings: Strings = field(default_factory=Strings)
    domains: tuple[Domain, ...] = ()
    categories: tuple[str, ...] = ()
    processes: tuple[Process, ...] = ()
    devices: tuple[Device, ...] = ()
    counters: tuple[Counter, ...] = ()
    cpu: tuple[CpuUsage, ...] = ()
    sources: tuple[Source, ...] = ()
    notes: tuple[Note, ...] = ()
    recorded: Recorded = field(default_factory=Recorded)
    origin_unix_ns: int | None = None
    shift_ns: int = 0
    capture_start: int = 0
    files: tuple[FileRows, ...] = ()

    def by_file(self) -> Iterator[tuple[FileRows, TraceData]]:
        """Yield the trace with the rows of each file alone; as it is where they are not apart."""
        if not self.files:
            tables = (getattr(self, name) for name in FileRows._fields)
            yield FileRows(*(slice(0, table.rows) for table in tables)), self
        for rows in self.files:
            parts: dict[str, Any] = {
                name: getattr(self, name).part(where) for name, where in rows._asdict().items()
            }
            yield rows, replace(self, files=(), **parts)

    @property
    def span(self) -> tuple[int, int]:
        """First start and last end of the recorded events, in ns; (0, 0) when there are none.

        Events stamped before the capture began do not count, unless there are no others.
        """
        tables = [table for table in (self.ranges, self.calls, self.device) if table.rows]
        if not tables:
            return 0, 0
        first = min(int(table["start"].min()) for table in tables)
        last = max(int(table["end"].max()) for table in tables)
        return (max(first, self.capture_start) if last > self.capture_start else first), last
