"""What threads record of ranges that nest: one event at each end, per thread, no locks.

A push appends (label, time) to the thread's events and a pop (~label, time), each in one list
operation: neither a signal handler nor another thread comes in between, and what is there at any
moment is whole. `nvtrace.native.recorder` does the same in C, and is used where it was built.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Sequence
from time import time_ns
from typing import Any, NamedTuple, Protocol

Call = Callable[[], object]

BYTES_PER_RANGE = 32

# Integers that a thread keeps as a list, quick to append to, before they are packed.
_CHUNK = 4096


class Part(NamedTuple):
    """What one thread recorded.

    Attributes:
        thread: what `make_thread` returned on that thread.
        events: flat (label, time) of pushes and (~label, time) of pops, in order.
        until: Unix time at which there was no more room, 0 where there was to the end.
    """

    thread: Any
    events: Any
    until: int


class Nest(Protocol):
    """Keeps the events of all threads.

    Args:
        budget_bytes: memory for events and for what `spend` is asked for; each thread may exceed
            it by a chunk of 32 KiB.
        make_thread: called on each thread once, with its first range.
    """

    def __init__(self, budget_bytes: int, make_thread: Callable[[], Any]) -> None: ...

    def calls(
        self, number: int, push_onward: Call | None = None, pop_onward: Call | None = None
    ) -> tuple[Call, Call]:
        """Push and pop of a label; they make the other two calls as well, on the outside."""

    def spend(self, size: int) -> bool:
        """Take bytes from the budget; tells whether there were enough."""

    def thread(self) -> Any:
        """What `make_thread` returned on the calling thread."""

    def take(self) -> tuple[Sequence[tuple[Any, Any, int]], int]:
        """Return a `Part` of each thread, and how many ranges ended without room.

        Nothing is kept from now on.
        """


class _Nowhere(list[int]):
    """Takes events and keeps none, once the budget is used up; counts the ranges that end."""

    dropped = 0

    def __iadd__(self, event: Any) -> _Nowhere:  # type: ignore[override,misc]
        self.dropped += event[0] < 0
        return self


class _Events:
    """One thread's events in chunks, the last of which is being filled."""

    __slots__ = ("chunks", "packing", "thread", "until")

    def __init__(self, thread: Any) -> None:
        self.thread = thread
        self.chunks: list[list[int] | array[int]] = [[]]
        self.until = 0
        self.packing = False


class _Local(threading.local):
    """Where a thread finds its own part; made by the thread's first range."""

    def __init__(self, make_thread: Callable[[], Any], parts: list[_Events]) -> None:
        self.part = _Events(make_thread())
        self.events: list[int] = self.part.chunks[-1]  # type: ignore[assignment]
        parts.append(self.part)


class PythonNest:
    """The definition, in Python."""

    def __init__(self, budget_bytes: int, make_thread: Callable[[], Any]) -> None:
        self._left = budget_bytes
        self._parts: list[_Events] = []
        self._local = _Local(make_thread, self._parts)

    def calls(
        self, number: int, push_onward: Call | None = None, pop_onward: Call | None = None
    ) -> tuple[Call, Call]:
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

        if push_onward is None or pop_onward is None:
            return push, pop
        return both(push_onward, push), both(pop, pop_onward)

    def _pack(self) -> None:
        """Begin a new chunk, and pack the one before the last: a call may be at work on the last.

        Called by the thread itself, and once more from its signal handlers at worst.
        """
        local = self._local
        part = local.part
        if part.packing:
            return
        part.packing = True
        if self.spend(8 * len(local.events)):
            local.events = []
        else:
            local.events = _Nowhere()
            part.until = time_ns()
        chunks = part.chunks  # of which take(), on another thread, may make others
        chunks.append(local.events)
        if len(chunks) > 2:
            chunks[-3] = array("q", chunks[-3])
        part.packing = False

    def spend(self, size: int) -> bool:
        """Take bytes from the budget; tells whether there were enough."""
        self._left -= size
        return self._left >= 0

    def thread(self) -> Any:
        """What `make_thread` returned on the calling thread."""
        return self._local.part.thread

    def take(self) -> tuple[Sequence[tuple[Any, Any, int]], int]:
        """Return a `Part` of each thread, and how many ranges ended without room."""
        taken, dropped = [], 0
        for part in self._parts.copy():
            events = array("q")
            for chunk in part.chunks.copy():
                events.extend(chunk if isinstance(chunk, array) else array("q", chunk))
                dropped += getattr(chunk, "dropped", 0)
            taken.append(Part(part.thread, events, part.until))
            self._forget(part)
        self._left = -1
        return taken, dropped

    @staticmethod
    def _forget(part: _Events) -> None:
        """Free what a thread recorded: labels bound to this recorder may live on for long."""
        for chunk in part.chunks:
            if isinstance(chunk, list):
                chunk.clear()
        part.chunks = []


def both(first: Call, second: Call) -> Call:
    """Return a call that makes the two."""

    def call() -> None:
        first()
        second()

    return call
