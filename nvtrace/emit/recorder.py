"""The emitter that records in the process: three integers a range, per thread, no locks.

A push puts (label, time) on the thread's stack; a pop moves (label, start, end) to the thread's
rows, 24 bytes a range. Everything else, nesting included, is worked out after the window.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import get_native_id
from time import time_ns
from typing import Any

from nvtrace.emit import Calls, Emitter, Label

BYTES_PER_RANGE = 24
DEFAULT_BUDGET = 256 << 20

Row = tuple[int, int, int]


class _Thread:
    """What one thread recorded: an open stack, and closed rows of (label, start, end)."""

    __slots__ = ("name", "rows", "stack", "tid")

    def __init__(self) -> None:
        self.tid = get_native_id()
        self.name = threading.current_thread().name
        self.rows = array("q")
        self.stack: list[tuple[int, int]] = []


@dataclass(frozen=True)
class Beside:
    """A range beside the nest (start/end), or a mark: ``end`` is None while open."""

    label: int
    start: int
    tid: int
    end: int | None = None
    end_tid: int = 0
    mark: bool = False


@dataclass
class Recording:
    """What was recorded in one window.

    Attributes:
        labels: what rows refer to by number.
        threads: of each thread its native id, its name, closed push/pop rows as flat int64
            (label, start, end), and what was still open as (label, start), outermost first.
        beside: start/end ranges and marks.
        start_ns: Unix time at which the window opened.
        end_ns: Unix time at which it closed.
        dropped: ranges that the memory budget left no room for.
        bytes_per_range: what a closed push/pop range takes in memory.
    """

    labels: list[Label]
    threads: list[tuple[int, str, array[int], list[tuple[int, int]]]]
    beside: list[Beside]
    start_ns: int
    end_ns: int
    dropped: int
    bytes_per_range: int = field(default=BYTES_PER_RANGE)


class Recorder:
    """Keeps ranges in memory, and passes them on to another emitter, NVTX for instance.

    Args:
        forward: where ranges go as well, None for nowhere.
        budget_bytes: memory for closed ranges; what comes after is counted and dropped.
    """

    def __init__(self, forward: Emitter | None, budget_bytes: int = DEFAULT_BUDGET) -> None:
        self._forward = forward
        self._limit = max(budget_bytes // BYTES_PER_RANGE, 1) * 3
        self._open()

    def _open(self) -> None:
        self._local = threading.local()
        self._threads: list[_Thread] = []
        self._labels: list[Label] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        # reentrant: a signal handler may open a range while this thread is in here
        self._lock = threading.RLock()
        self._beside: list[Beside] = []
        self._running: dict[int, Beside] = {}
        self._next = 0
        self._dropped = 0
        self._full = False
        self._start_ns = time_ns()

    def take(self) -> Recording:
        """Return what was recorded, and forget it; labels bound to this recorder record no more."""
        end = time_ns()
        threads = [
            (thread.tid, thread.name, thread.rows, list(thread.stack)) for thread in self._threads
        ]
        beside = self._beside + list(self._running.values())
        taken = Recording(self._labels, threads, beside, self._start_ns, end, self._dropped)
        for thread in self._threads:
            thread.rows = array("q")
            thread.stack = []
        self._open()
        self._full = True
        return taken

    def make_room(self) -> None:
        """Look at how much is recorded, and stop at the budget. Called between steps."""
        self._full = sum(len(thread.rows) for thread in self._threads) >= self._limit

    def _thread(self) -> _Thread:
        thread = _Thread()
        self._local.thread = thread
        with self._lock:
            self._threads.append(thread)
        return thread

    def number(self, label: Label) -> int:
        """Return the number that rows carry for ``label``."""
        key = (label.name, label.domain, label.category, label.color, label.payload)
        with self._lock:
            number = self._numbers.get(key)
            if number is None:
                number = self._numbers[key] = len(self._labels)
                self._labels.append(label)
            return number

    def bind(self, label: Label) -> Calls:
        """The five calls, recording and forwarding."""
        number = self.number(label)
        onward = None if self._forward is None else self._forward.bind(label)
        push, pop = self._nest(number)
        start, end = self._spread(number)
        if onward is None:
            return Calls(push, pop, start, end, lambda: self._mark(number))
        return Calls(
            _both(onward.push, push),
            _both(pop, onward.pop),
            lambda: (start(), onward.start()),
            lambda handle: (end(handle[0]), onward.end(handle[1])),
            _both(lambda: self._mark(number), onward.mark),
        )

    def _nest(self, number: int) -> tuple[Callable[[], object], Callable[[], object]]:
        """Return push and pop. The clock is read last on the way in and first on the way out."""
        local, clock, limit, new_thread = self._local, time_ns, self._limit, self._thread

        def push() -> None:
            try:
                stack = local.thread.stack
            except AttributeError:
                stack = new_thread().stack
            stack.append((number, clock()))

        def pop() -> None:
            end = clock()
            try:
                thread = local.thread
            except AttributeError:
                return
            stack = thread.stack
            if not stack:
                return
            opened, start = stack.pop()
            if opened != number:
                stack.append((opened, start))
                found = _take_last(stack, number)
                if found is None:
                    return
                start = found
            rows = thread.rows
            if len(rows) >= limit or self._full:
                self._dropped += 1
                return
            append = rows.append
            append(number)
            append(start)
            append(end)

        return push, pop

    def _spread(self, number: int) -> tuple[Callable[[], int], Callable[[int], object]]:
        def start() -> int:
            with self._lock:
                self._next += 1
                handle = self._next
            self._running[handle] = Beside(number, time_ns(), get_native_id())
            return handle

        def end(handle: int) -> None:
            now = time_ns()
            running = self._running.pop(handle, None)
            if running is None:
                return
            if len(self._beside) * 3 >= self._limit or self._full:
                self._dropped += 1
                return
            self._beside.append(
                Beside(running.label, running.start, running.tid, now, get_native_id())
            )

        return start, end

    def open(self, label: Label, at_ns: int) -> tuple[int, Any]:
        """Open a start/end range that began at a given Unix time; returns its handle."""
        onward = None if self._forward is None else self._forward.bind(label)
        with self._lock:
            self._next += 1
            handle = self._next
        self._running[handle] = Beside(self.number(label), at_ns, get_native_id())
        return handle, None if onward is None else (onward.end, onward.start())

    def close(self, handle: tuple[int, Any], at_ns: int | None) -> None:
        """Close it at a given Unix time; None keeps no record of it."""
        running = self._running.pop(handle[0], None)
        if running is not None and at_ns is not None:
            end = max(at_ns, running.start)
            self._beside.append(replace(running, end=end, end_tid=get_native_id()))
        if handle[1] is not None:
            end_onward, onward = handle[1]
            end_onward(onward)

    def _mark(self, number: int) -> None:
        now, tid = time_ns(), get_native_id()
        self._beside.append(Beside(number, now, tid, now, tid, mark=True))


def _take_last(stack: list[tuple[int, int]], number: int) -> int | None:
    """Take the latest entry of ``number`` out of the stack; None when it was opened elsewhere."""
    for place in range(len(stack) - 1, -1, -1):
        if stack[place][0] == number:
            return stack.pop(place)[1]
    return None


def _both(first: Callable[[], object], second: Callable[[], object]) -> Callable[[], object]:
    def call() -> None:
        first()
        second()

    return call
