"""Memory that torch's allocators handed out and took back, from Kineto's events."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import factorize
from nvtrace.model.harvest import HarvestedMarks
from nvtrace.model.strings import Strings
from nvtrace.model.trace import Counter, Note

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Columns = dict[str, npt.NDArray[Any]]

EVENT = "[memory]"
_HOST = "cpu"
_CATEGORY = "allocation"

RELATIVE = Note(
    "memory_relative",
    "torch keeps no account of host memory outside a recording: its level counts from 0 at the "
    "start of the window, and what was allocated before is not seen to be freed",
)


def allocations(events: list[Any], rows: list[int], strings: Strings) -> tuple[I64, I32]:
    """Return bytes of the events that are about memory, and the row of the name of its place.

    Args:
        events: Kineto's.
        rows: which of them are about memory; of the others there are 0 bytes, and no place (-1).
        strings: takes the names: ``cpu``, ``cuda:0``.
    """
    size, place = np.zeros(len(events), np.int64), np.full(len(events), -1, np.int32)
    for row in rows:
        event = events[row]
        size[row] = event.nbytes()
        kind, index = event.device_type().name.lower(), event.device_index()
        place[row] = strings.intern(kind if index < 0 else f"{kind}:{index}")
    return size, place


class Memory:
    """Allocations and releases, in the order of time.

    Args:
        rows: which events are about memory.
        read: columns of all events.
        strings: what their places refer to.
        tree: returns torch's tree of events, which alone has the levels that allocators of devices
            state.
    """

    def __init__(
        self, rows: I64, read: Columns, strings: Strings, tree: Callable[[], list[Any]]
    ) -> None:
        rows = rows[np.argsort(read["start"][rows], kind="stable")]
        self._time, self._thread = read["start"][rows], read["thread"][rows]
        self._bytes, self._place = read["bytes"][rows], read["place"][rows]
        self._strings = strings
        self._tree = tree

    def within(self, start: I64, end: I64, thread: I64) -> I64:
        """Return the change of memory on the thread of each interval, bytes."""
        change = np.zeros(len(start), np.int64)
        for one in np.unique(self._thread).tolist():
            here, asked = self._thread == one, np.flatnonzero(thread == one)
            times = self._time[here]
            total = np.concatenate([[0], np.cumsum(self._bytes[here])])
            before = np.searchsorted(times, start[asked], side="left")
            after = np.searchsorted(times, end[asked], side="right")
            change[asked] = total[after] - total[before]
        return change

    def marks(self) -> HarvestedMarks:
        """Return a mark for each: ``allocate PLACE`` or ``free PLACE``, and how many bytes."""
        freed = self._bytes < 0
        pairs, codes = factorize(self._place.astype(np.int64) << 1 | freed)
        names = [
            self._strings.intern(f"{'free' if pair & 1 else 'allocate'} {self._strings[pair >> 1]}")
            for pair in pairs.tolist()
        ]
        return HarvestedMarks(
            time=self._time,
            name=np.array(names, np.int32)[codes],
            thread=self._thread,
            payload=np.abs(self._bytes),
            category=_CATEGORY,
        )

    def samples(self) -> tuple[tuple[Counter, ...], Columns, tuple[Note, ...]]:
        """Return the levels reached: of devices as their allocators state them."""
        names = Strings()
        host = self._place == self._strings.find(_HOST)
        rows = np.stack(
            [
                self._time[host],
                np.full(host.sum(), names.intern(f"Memory allocated {_HOST}") if host.any() else 0),
                np.cumsum(self._bytes[host]),
            ],
            axis=1,
        )
        if not host.all():
            rows = np.concatenate([rows, stated_levels(self._tree(), names)])
        counters = tuple(Counter(name, "bytes", process=0) for name in names)
        columns = {
            "time": rows[:, 0],
            "counter": rows[:, 1].astype(np.int32),
            "value": rows[:, 2].astype(np.float64),
        }
        return counters, columns, (RELATIVE,) if host.any() else ()


def stated_levels(tree: list[Any], names: Strings, leave_out: str = _HOST) -> I64:
    """Return the levels that allocators state: rows of Unix ns, row of ``names``, and bytes.

    Args:
        tree: torch's events that have no parent; the others are their children.
        names: takes the names of the levels.
        leave_out: the place to leave out.
    """
    from torch._C._profiler import _EventType

    found, pending = array("q"), list(tree)
    while pending:
        event = pending.pop()
        if event.tag != _EventType.Allocation:
            pending += event.children
            continue
        stated = event.extra_fields
        place, at = str(stated.device), event.start_time_ns
        if place != leave_out:
            for what in ("allocated", "reserved"):
                level = getattr(stated, f"total_{what}")
                found.extend((at, names.intern(f"Memory {what} {place}"), level))
    return np.array(found, np.int64).reshape(-1, 3)
