"""The emitter that records in the process: one event at each end of a range, per thread, no locks.

A push appends (label, time) to the thread's events and a pop (~label, time), each in one list
operation: neither a signal handler nor another thread comes in between, and what is there at any
moment is whole. Events become ranges after the window (`nvtrace.emit.pairing`).
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable
from itertools import count
from time import time_ns
from typing import Any

from nvtrace.emit import Calls, Emitter, Label
from nvtrace.emit.null import NullEmitter
from nvtrace.emit.recording import BESIDE, MARK, RecordedThread, Recording, Said

BYTES_PER_RANGE = 32
DEFAULT_BUDGET = 256 << 20

# Integers that a thread keeps as a list, quick to append to, before they are packed.
_CHUNK = 4096
_BYTES_PER_LABEL = 400
_NO_LABEL: Said = ("", "", "", 0, None, type(None))


class _Nowhere(list[int]):
    """Takes events and keeps none, once the budget is used up; counts the ranges that end."""

    dropped = 0

    def __iadd__(self, event: Any) -> _Nowhere:  # type: ignore[override,misc]
        self.dropped += event[0] < 0
        return self


class _Thread:
    """One thread's part: chunks of events, the last of which is being filled."""

    __slots__ = ("beside", "chunks", "dropped", "name", "packing", "tid", "until")

    def __init__(self) -> None:
        self.tid = threading.get_native_id()
        self.name = threading.current_thread().name
        self.chunks: list[list[int] | array[int]] = [[]]
        self.beside = array("q")
        self.dropped = 0
        self.until = 0
        self.packing = False


class _Local(threading.local):
    """Where a thread finds its own part; made by the thread's first range."""

    def __init__(self, threads: list[_Thread]) -> None:
        self.thread = _Thread()
        self.events: list[int] = self.thread.chunks[-1]  # type: ignore[assignment]
        threads.append(self.thread)


class Recorder:
    """Keeps ranges in memory, and passes them on to another emitter, NVTX for instance.

    Args:
        forward: where ranges go as well, None for nowhere.
        budget_bytes: memory for what is recorded; what comes after is counted and dropped. Each
            thread may exceed it by a chunk of 32 KiB.
    """

    def __init__(self, forward: Emitter | None, budget_bytes: int = DEFAULT_BUDGET) -> None:
        self._forward = None if isinstance(forward, NullEmitter) else forward
        self._left = budget_bytes
        self._threads: list[_Thread] = []
        self._local = _Local(self._threads)
        self._numbers: dict[Said, int] = {}
        self._next_number = count()
        self._next_handle = count()
        self._running: dict[int, tuple[int, int, int]] = {}
        self._start_ns = time_ns()

    def take(self) -> Recording:
        """Return what was recorded, and forget it; what its labels record later is lost."""
        end = time_ns()
        running = self._running.copy()  # before the closed ones, lest one is in neither
        threads, beside, dropped = [], array("q"), 0
        for thread in self._threads.copy():
            events = array("q")
            for chunk in thread.chunks.copy():
                events.extend(chunk if isinstance(chunk, array) else array("q", chunk))
                dropped += getattr(chunk, "dropped", 0)
            threads.append(RecordedThread(thread.tid, thread.name, events, thread.until or end))
            beside.extend(thread.beside)
            dropped += thread.dropped
            self._forget(thread)
        closed = set(beside[::BESIDE])
        still = [opened for handle, opened in running.items() if handle not in closed]
        self._running.clear()
        labels = [_NO_LABEL] * next(self._next_number)
        for said, number in self._numbers.copy().items():
            labels[number] = said
        self._numbers.clear()
        self._left = -1
        return Recording(labels, threads, beside, still, self._start_ns, end, dropped)

    @staticmethod
    def _forget(thread: _Thread) -> None:
        """Free what a thread recorded: labels bound to this recorder may live on for long."""
        for chunk in thread.chunks:
            if isinstance(chunk, list):
                chunk.clear()
        thread.chunks = []
        thread.beside = array("q")

    def number(self, label: Label) -> int:
        """Return the number that events carry for ``label``; -1 when there is no room for it."""
        payload = label.payload
        said = (label.name, label.domain, label.category, label.color, payload, type(payload))
        number = self._numbers.get(said)
        if number is None:
            if not self._spend(_BYTES_PER_LABEL):
                return -1
            # of two threads at once the first wins, and a number stays unused
            number = self._numbers.setdefault(said, next(self._next_number))
        return number

    def bind(self, label: Label) -> Calls:
        """The five calls, recording and forwarding."""
        number = self.number(label)
        onward = None if self._forward is None else self._forward.bind(label)
        start, end = self._spread(number)
        if onward is None:
            push, pop = self._nest(number) if number >= 0 else self._refuse()
            return Calls(push, pop, start, end, lambda: self._mark(number))
        if number >= 0:
            push, pop = self._nest_onward(number, onward)
        else:
            push, pop = _both(onward.push, self._refuse()[0]), _both(self._refuse()[1], onward.pop)
        return Calls(
            push,
            pop,
            lambda: (start(), onward.start()),
            lambda handle: (end(handle[0]), onward.end(handle[1])),
            _both(lambda: self._mark(number), onward.mark),
        )

    def _nest(self, number: int) -> tuple[Callable[[], object], Callable[[], object]]:
        """Return push and pop. The clock is read last on the way in and first on the way out."""
        local, clock, inverse, pack = self._local, time_ns, ~number, self._pack

        def push() -> None:
            events = local.events
            events += (number, clock())

        def pop() -> None:
            end = clock()
            events = local.events
            events += (inverse, end)
            if len(events) >= _CHUNK:
                pack()

        return push, pop

    def _nest_onward(
        self, number: int, onward: Calls
    ) -> tuple[Callable[[], object], Callable[[], object]]:
        """Return push and pop that forward as well: a call less each than one around the other."""
        local, clock, inverse, pack = self._local, time_ns, ~number, self._pack
        push_onward, pop_onward = onward.push, onward.pop

        def push() -> None:
            push_onward()
            events = local.events
            events += (number, clock())

        def pop() -> None:
            end = clock()
            events = local.events
            events += (inverse, end)
            pop_onward()
            if len(events) >= _CHUNK:
                pack()

        return push, pop

    def _refuse(self) -> tuple[Callable[[], object], Callable[[], object]]:
        def count_one() -> None:
            self._local.thread.dropped += 1

        return _nothing, count_one

    def _pack(self) -> None:
        """Begin a new chunk, and pack the one before the last: a call may be at work on the last.

        Called by the thread itself, and once more from its signal handlers at worst.
        """
        local = self._local
        thread = local.thread
        if thread.packing:
            return
        thread.packing = True
        if self._spend(8 * len(local.events)):
            local.events = []
        else:
            local.events = _Nowhere()
            thread.until = time_ns()
        chunks = thread.chunks  # of which take(), on another thread, may make others
        chunks.append(local.events)
        if len(chunks) > 2:
            chunks[-3] = array("q", chunks[-3])
        thread.packing = False

    def _spend(self, size: int) -> bool:
        """Take bytes from the budget; tells whether there were enough."""
        self._left -= size
        return self._left >= 0

    def _spread(self, number: int) -> tuple[Callable[[], int], Callable[[int], object]]:
        """Return start and end."""
        local, clock, running, handles = self._local, time_ns, self._running, self._next_handle

        def start() -> int:
            handle = next(handles)
            running[handle] = (number, clock(), local.thread.tid)
            return handle

        return start, lambda handle: self._close(handle, clock())

    def _close(self, handle: int, at_ns: int) -> None:
        opened = self._running.get(handle)
        if opened is None:
            return
        label, start, tid = opened
        thread = self._local.thread
        if label >= 0 and self._spend(8 * BESIDE):
            thread.beside.extend((handle, label, start, tid, max(at_ns, start), thread.tid))
        else:
            thread.dropped += 1
        self._running.pop(handle, None)  # after it was written: take() must find it somewhere

    def open(self, label: Label, at_ns: int) -> tuple[int, Any]:
        """Open a start/end range that began at a given Unix time; returns its handle."""
        onward = None if self._forward is None else self._forward.bind(label)
        handle = next(self._next_handle)
        self._running[handle] = (self.number(label), at_ns, self._local.thread.tid)
        return handle, None if onward is None else (onward.end, onward.start())

    def close(self, handle: tuple[int, Any], at_ns: int | None) -> None:
        """Close it at a given Unix time; None keeps no record of it."""
        if at_ns is None:
            self._running.pop(handle[0], None)
        else:
            self._close(handle[0], at_ns)
        if handle[1] is not None:
            end_onward, onward = handle[1]
            end_onward(onward)

    def _mark(self, number: int) -> None:
        now, thread = time_ns(), self._local.thread
        if number >= 0 and self._spend(8 * BESIDE):
            thread.beside.extend((MARK, number, now, thread.tid, now, thread.tid))
        else:
            thread.dropped += 1


def _both(first: Callable[[], object], second: Callable[[], object]) -> Callable[[], object]:
    def call() -> None:
        first()
        second()

    return call


def _nothing() -> None:
    pass
