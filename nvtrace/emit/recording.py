"""What was recorded in one window, before it becomes a trace."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any, NamedTuple

BESIDE = 6
"""Integers a start/end range or mark: handle, label, start, start thread, end, end thread."""

MARK = -1
"""The handle of a mark."""

Said = tuple[str, str, str, int, Any, type]
"""What a label says: name, domain, category, color, payload, and the payload's type."""


class RecordedThread(NamedTuple):
    """What one thread recorded.

    Attributes:
        tid: native thread id.
        name: of the thread.
        events: 64-bit integers, flat: (label, time) of pushes and (~label, time) of pops, in order.
        until_ns: Unix time up to which it was recorded.
    """

    tid: int
    name: str
    events: array[int] | bytes
    until_ns: int


@dataclass
class Recording:
    """What was recorded in one window.

    Attributes:
        labels: what events refer to by number.
        threads: push/pop ranges.
        beside: closed start/end ranges and marks, flat, BESIDE integers each.
        running: start/end ranges still open: (label, start, thread id).
        start_ns: Unix time at which the window opened.
        end_ns: Unix time at which it closed.
        dropped: ranges whose end the memory budget left no room for.
    """

    labels: list[Said]
    threads: list[RecordedThread]
    beside: array[int] = field(default_factory=lambda: array("q"))
    running: list[tuple[int, int, int]] = field(default_factory=list)
    start_ns: int = 0
    end_ns: int = 0
    dropped: int = 0

    @property
    def empty(self) -> bool:
        """Whether nothing was recorded."""
        return not (self.beside or self.running or any(thread.events for thread in self.threads))
