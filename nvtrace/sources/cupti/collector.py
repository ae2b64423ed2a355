"""Collects the GPU work of this process: start, flush, stop."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Iterable

from nvtrace.errors import CollectorUnavailable
from nvtrace.model.trace import Device, Note
from nvtrace.sources.cupti import diagnosis, library
from nvtrace.sources.cupti.activity import Activity, Tables
from nvtrace.sources.cupti.clock import Anchor, Clock, measure
from nvtrace.sources.cupti.control import NOT_COMPATIBLE, Control, CuptiError
from nvtrace.sources.cupti.decode import Decoder
from nvtrace.sources.cupti.driver import Driver, DriverError
from nvtrace.sources.cupti.layout import RecordKind
from nvtrace.sources.cupti.loss import loss_notes
from nvtrace.sources.cupti.shim import Shim

KINDS = {
    "runtime": (RecordKind.RUNTIME,),
    "driver": (RecordKind.DRIVER,),
    "kernel": (RecordKind.CONCURRENT_KERNEL,),
    "memcpy": (RecordKind.MEMCPY, RecordKind.MEMCPY_PEER),
    "memset": (RecordKind.MEMSET,),
    "overhead": (RecordKind.OVERHEAD,),
    "synchronization": (RecordKind.SYNCHRONIZATION,),
}
DEFAULT_KINDS = ("runtime", "driver", "kernel", "memcpy", "memset", "overhead")
LEVELS = ("node", "graph")

_FEWEST_BUFFERS = 4
_DRAIN_SECONDS = 1.0
_DRAIN_BYTES = 64 << 20
_WRONG_GRAPHS = range(130000, 130101)  # wrong correlation ids of graphs in later captures
_NOT_SUPPORTED = 27


class Collector:
    """One capture. CUPTI serves one client of a process at a time.

    Args:
        kinds: what to record: names of ``KINDS``.
        graphs: ``"node"`` for every kernel in a CUDA graph, ``"graph"`` for one row a run, which is
            cheaper and, once used, stays so for the process.
        buffer_bytes: the size of CUPTI's buffers.
        budget_bytes: what buffers and columns may take together; beyond, the oldest buffer that
            waits to be read gives way to new ones, and is counted.

    Raises:
        ValueError: an unknown kind or level, or sizes that make no sense.
    """

    _captures = 0

    def __init__(
        self,
        kinds: Iterable[str] = DEFAULT_KINDS,
        graphs: str = "node",
        buffer_bytes: int = 4 << 20,
        budget_bytes: int = 512 << 20,
    ) -> None:
        self._kinds = tuple(kinds)
        if unknown := set(self._kinds) - set(KINDS):
            raise ValueError(f"unknown kinds {sorted(unknown)}: choose from {', '.join(KINDS)}")
        if graphs not in LEVELS:
            raise ValueError(f"graphs is {graphs!r}: choose from {', '.join(LEVELS)}")
        if not 4096 <= buffer_bytes <= budget_bytes or buffer_bytes % 8 or buffer_bytes >= 2**32:
            raise ValueError(
                "buffer_bytes is a multiple of 8 from 4096 to 4 GiB, within the budget"
            )
        self._graph_level = graphs == "graph"
        self._buffer_bytes = buffer_bytes
        self._budget_bytes = budget_bytes
        self._running = False
        self._notes: list[Note] = []
        self._recorded: set[str] = set()
        self._anchors: list[Anchor] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()

    @property
    def running(self) -> bool:
        """Whether GPU work is being collected."""
        return self._running

    def start(self) -> None:
        """Begin.

        Raises:
            CollectorUnavailable: it is not possible here and now; one line says why.
        """
        if self._running or self._ended.is_set():
            raise CollectorUnavailable("a collector starts once: make a new one", diagnosis.BUSY)
        found = diagnosis.diagnose()
        if not found.ok:
            raise CollectorUnavailable(found.sentence, found.verdict)
        self._driver = Driver()
        self._count = _devices(self._driver)
        self._shim = _shim()
        self._control = Control(self._shim)
        sizes = self._control.library.sizes()
        if unreadable := library.unreadable(sizes):
            names = ", ".join(kind.name.lower() for kind in unreadable)
            reason = f"{self._control.library.path} lays out its records otherwise ({names})"
            raise CollectorUnavailable(reason, diagnosis.MISMATCH)
        self._decoder = Decoder(sizes, self._shim.walk)
        try:
            self._control.subscribe()
            self._shim.begin(sizes, self._buffer_bytes, self._buffers())
            self._control.prepare()
            self._enable()
            self._anchors.append(measure(self._control.timestamp))
        except CuptiError as error:
            self._undo()
            raise error.unavailable() from error
        except BaseException:
            self._undo()
            raise
        Collector._captures += 1
        self._pid = os.getpid()
        self._running = True
        self._thread = threading.Thread(target=self._drain_often, name="nvtrace-cupti", daemon=True)
        self._thread.start()
        atexit.register(self._at_exit)

    def flush(self) -> None:
        """Read what CUPTI is done with, and align the clocks; waits for no GPU."""
        if not self._running or self._forked():
            return
        self._attempt(lambda: self._control.flush(forced=False))
        self._anchors.append(measure(self._control.timestamp))
        self._drain()

    def stop(self) -> Activity:
        """Wait for the work on the GPU, end the capture and return what was recorded.

        Raises:
            CollectorUnavailable: it does not run, or in this process's parent.
        """
        if not self._running:
            raise CollectorUnavailable("the collector was not started", diagnosis.FAILED)
        if self._forked():
            self._running = False
            reason = "this process was forked from one that collects GPU work: CUDA stays there"
            raise CollectorUnavailable(reason, diagnosis.FORKED)
        self._halt()
        dropped = self._dropped()
        self._attempt(self._control.unsubscribe)
        activity = self._activity(dropped)
        self._shim.trim()
        return activity

    def _enable(self) -> None:
        """Enable the kinds, each where it can be; one at least."""
        wanted = [(name, kind) for name in self._kinds for kind in KINDS[name]]
        if self._graph_level:
            wanted.insert(0, ("graph", RecordKind.GRAPH_TRACE))
        for name, kind in wanted:
            try:
                self._control.enable(kind)
            except CuptiError as error:
                if error.code not in (NOT_COMPATIBLE, _NOT_SUPPORTED):
                    raise
                words = kind.name.lower().replace("_", " ")
                message = f"CUPTI does not record {words} here ({error})"
                self._notes.append(Note("kind_not_recorded", message))
            else:
                self._recorded.add(name)
        if not self._recorded:
            raise CollectorUnavailable("CUPTI records none of these kinds here", diagnosis.FAILED)

    def _undo(self) -> None:
        for step in (self._control.disable, self._control.unsubscribe):
            with contextlib.suppress(CuptiError):
                step()
        self._notes, self._recorded, self._anchors = [], set(), []

    def _halt(self) -> None:
        """End the capture in the order in which nothing is lost."""
        self._running = False
        self._ended.set()
        atexit.unregister(self._at_exit)
        self._thread.join(timeout=10 * _DRAIN_SECONDS)
        try:
            self._driver.synchronize(self._count)
        except DriverError as error:
            message = f"the last GPU work may be missing, waiting for it failed: {error}"
            self._notes.append(Note("not_synchronized", message))
        self._attempt(lambda: self._control.flush(forced=False))
        self._anchors.append(measure(self._control.timestamp))
        self._attempt(self._control.disable)
        self._attempt(lambda: self._control.flush(forced=True))
        self._drain(last=True)

    def _attempt(self, step: Callable[[], None]) -> None:
        """Take a step; where CUPTI refuses, what was recorded still counts."""
        try:
            step()
        except CuptiError as error:
            self._notes.append(Note("cupti_refused", f"records may be missing: {error}"))

    def _dropped(self) -> int:
        try:
            return self._control.dropped()
        except CuptiError:
            return 0

    def _buffers(self) -> int:
        left = self._budget_bytes - self._decoder.bytes
        return max(_FEWEST_BUFFERS, left // self._buffer_bytes)

    def _drain(self, *, last: bool = False) -> None:
        with self._lock, contextlib.closing(self._shim.drain()) as buffers:
            while last or self._decoder.bytes < self._budget_bytes:
                records = next(buffers, None)
                if records is None:
                    break
                self._decoder.add(records)
            self._shim.limit(self._buffer_bytes, self._buffers())

    def _drain_often(self) -> None:
        while not self._ended.wait(_DRAIN_SECONDS):
            if self._shim.counts().queued_bytes > _DRAIN_BYTES:
                self._drain()

    def _forked(self) -> bool:
        return os.getpid() != self._pid

    def _at_exit(self) -> None:
        if self._running and not self._forked():
            self._halt()
            self._attempt(self._control.unsubscribe)

    def _activity(self, dropped: int) -> Activity:
        clock = Clock(tuple(self._anchors))
        tables = Tables(self._decoder, clock, self._control.callback_name)
        calls = tables.calls()
        device, details = tables.device()
        overhead, synchronizations = tables.overhead(), tables.synchronizations()
        counts = self._shim.counts()
        notes = [*self._notes, *loss_notes(counts, self._decoder, dropped, tables, clock)]
        version = self._control.library.version
        if Collector._captures > 1 and version in _WRONG_GRAPHS and device["graph_node"].any():
            notes.append(
                Note(
                    "graph_correlation",
                    f"CUPTI {version} gives work of CUDA graphs wrong correlation ids in every "
                    "capture of a process after its first: record one window",
                )
            )
        return Activity(
            calls=calls,
            device=device,
            details=details,
            overhead=overhead,
            synchronizations=synchronizations,
            strings=tables.strings,
            devices=self._facts(),
            kinds=frozenset(self._recorded),
            graph_level="graph" in self._recorded,
            lost_buffers=counts.lost_buffers,
            lost_bytes=counts.lost_bytes,
            lost_records=counts.lost_records,
            lost_span=counts.lost_span,
            dropped_records=dropped,
            unread_bytes=self._decoder.unread_bytes,
            untimed=tables.untimed,
            clock=clock,
            notes=tuple(notes),
        )

    def _facts(self) -> tuple[Device, ...]:
        try:
            return self._driver.facts(self._count)
        except DriverError:
            return ()


def _devices(driver: Driver) -> int:
    try:
        count = driver.devices()
    except DriverError as error:
        raise CollectorUnavailable(f"CUDA finds no GPU: {error}", diagnosis.NO_DEVICE) from error
    if not count:
        raise CollectorUnavailable("CUDA finds no GPU", diagnosis.NO_DEVICE)
    return count


def _shim() -> Shim:
    try:
        return Shim()
    except OSError as error:
        reason = f"nvtrace's native part cannot be loaded: {error}"
        raise CollectorUnavailable(reason, diagnosis.NO_SHIM) from error
