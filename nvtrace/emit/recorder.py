"""The emitter that records in the process, and passes on what it records.

Ranges that nest are kept by `nvtrace.emit.nest`, start/end ranges and marks here. Events become
ranges after the window (`nvtrace.emit.pairing`).
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable
from itertools import count
from time import time_ns

from nvtrace.emit import Calls, Emitter, Label
from nvtrace.emit.native import BestNest
from nvtrace.emit.nest import Call, Nest, both
from nvtrace.emit.null import NullEmitter
from nvtrace.emit.recording import BESIDE, MARK, RecordedThread, Recording, Said

DEFAULT_BUDGET = 256 << 20

_BYTES_PER_LABEL = 400
_NO_LABEL: Said = ("", "", "", 0, None, type(None))


class _Thread:
    """What one thread recorded beside the nest."""

    __slots__ = ("beside", "dropped", "name", "tid")

    def __init__(self) -> None:
        self.tid = threading.get_native_id()
        self.name = threading.current_thread().name
        self.beside = array("q")
        self.dropped = 0


class Recorder:
    """Keeps ranges in memory, and passes them on to another emitter, NVTX for instance.

    Args:
        forward: where ranges go as well, None for nowhere.
        budget_bytes: memory for what is recorded; what comes after is counted and dropped. Each
            thread may exceed it by a chunk of 32 KiB.
        nest: what keeps the ranges that nest.
    """

    def __init__(
        self,
        forward: Emitter | None,
        budget_bytes: int = DEFAULT_BUDGET,
        nest: type[Nest] = BestNest,
    ) -> None:
        self._forward = None if isinstance(forward, NullEmitter) else forward
        self._nest = nest(budget_bytes, _Thread)
        self._numbers: dict[Said, int] = {}
        self._next_number = count()
        self._next_handle = count()
        self._running: dict[int, tuple[int, int, int]] = {}
        self._start_ns = time_ns()

    def take(self) -> Recording:
        """Return what was recorded, and forget it; what its labels record later is lost."""
        end = time_ns()
        running = self._running.copy()  # before the closed ones, lest one is in neither
        parts, dropped = self._nest.take()
        threads, beside = [], array("q")
        for thread, events, until in parts:
            threads.append(RecordedThread(thread.tid, thread.name, events, until or end))
            beside.extend(thread.beside)
            dropped += thread.dropped
            thread.beside = array("q")
        closed = set(beside[::BESIDE])
        still = [opened for handle, opened in running.items() if handle not in closed]
        self._running.clear()
        labels = [_NO_LABEL] * next(self._next_number)
        for said, number in self._numbers.copy().items():
            labels[number] = said
        self._numbers.clear()
        return Recording(labels, threads, beside, still, self._start_ns, end, dropped)

    def number(self, label: Label) -> int:
        """Return the number that events carry for ``label``; -1 when there is no room for it."""
        payload = label.payload
        said = (label.name, label.domain, label.category, label.color, payload, type(payload))
        number = self._numbers.get(said)
        if number is None:
            if not self._nest.spend(_BYTES_PER_LABEL):
                return -1
            # of two threads at once the first wins, and a number stays unused
            number = self._numbers.setdefault(said, next(self._next_number))
        return number

    def bind(self, label: Label) -> Calls:
        """The five calls, recording and forwarding."""
        number = self.number(label)
        onward = None if self._forward is None else self._forward.bind(label)
        push, pop = self._within(number, onward)
        start, end = self._spread(number)
        if onward is None:
            return Calls(push, pop, start, end, lambda: self._mark(number))
        return Calls(
            push,
            pop,
            lambda: (start(), onward.start()),
            lambda handle: (end(handle[0]), onward.end(handle[1])),
            both(lambda: self._mark(number), onward.mark),
        )

    def _within(self, number: int, onward: Calls | None) -> tuple[Call, Call]:
        """Return push and pop."""
        if number >= 0:
            return self._nest.calls(number, onward and onward.push, onward and onward.pop)

        def drop() -> None:
            self._nest.thread().dropped += 1

        return (_nothing, drop) if onward is None else (onward.push, both(drop, onward.pop))

    def _spread(self, number: int) -> tuple[Callable[[], int], Callable[[int], object]]:
        """Return start and end."""
        thread, clock = self._nest.thread, time_ns
        running, handles = self._running, self._next_handle

        def start() -> int:
            handle = next(handles)
            running[handle] = (number, clock(), thread().tid)
            return handle

        return start, lambda handle: self._close(handle, clock())

    def _close(self, handle: int, at_ns: int) -> None:
        opened = self._running.get(handle)
        if opened is None:
            return
        label, start, tid = opened
        thread = self._nest.thread()
        if label >= 0 and self._nest.spend(8 * BESIDE):
            thread.beside.extend((handle, label, start, tid, max(at_ns, start), thread.tid))
        else:
            thread.dropped += 1
        self._running.pop(handle, None)  # after it was written: take() must find it somewhere

    def _mark(self, number: int) -> None:
        now, thread = time_ns(), self._nest.thread()
        if number >= 0 and self._nest.spend(8 * BESIDE):
            thread.beside.extend((MARK, number, now, thread.tid, now, thread.tid))
        else:
            thread.dropped += 1


def _nothing() -> None:
    pass
