"""Which range a piece of GPU work belongs to.

A device row belongs to the call with its correlation id in its process; a call to the innermost
push/pop range on its thread that contains it. GPU work is never attributed by when the GPU ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.nesting import Nest
from nvtrace.model.arrays import distinct, factorize, renumbered
from nvtrace.model.explained import Level
from nvtrace.model.schema import Attribution
from nvtrace.model.table import Table

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


def launching_calls(calls: Table, device: Table) -> I32:
    """Return the row of the call that launched each device row, -1 unknown.

    The key is (process, correlation id): ids repeat across processes. Id 0 joins nothing. Of
    several calls with one id the first is taken.
    """
    if not calls.rows or not device.rows:
        return np.full(device.rows, -1, np.int32)
    ids, wanted = calls["correlation"], device["correlation"]
    of_call, of_device = calls["process"], device["process"]
    low, high = int(ids.min()), int(ids.max())
    least = np.int32(min(of_call.min(), of_device.min()))
    processes = int(max(of_call.max(), of_device.max()) - least) + 1
    width = high - low + 2
    if processes * width < 8 * calls.rows + 65536:
        # a place for each id of a process, and one for all others
        table = np.full(processes * width, -1, np.int32)
        rows = np.arange(calls.rows, dtype=np.int32)
        table[(ids + ((of_call - least) * np.int64(width) - low))[::-1]] = rows[::-1]
        if low <= 0 <= high:
            table[-low::width] = -1
        place = np.where((wanted < low) | (wanted > high), width - 1, wanted - low)
        placed: I32 = table.take(place + (of_device - least) * np.int64(width))
        return placed
    found = np.full(device.rows, -1, np.int32)
    for process in distinct(of_device).tolist():
        asked = np.flatnonzero((of_device == process) & (wanted != 0))
        candidates = np.flatnonzero((of_call == process) & (ids != 0))
        if len(asked) and len(candidates):
            found[asked] = _lookup(ids[candidates], candidates, wanted[asked])
    return found


def _lookup(ids: I64, rows: I64, wanted: I64) -> I64:
    """Return for each wanted id the row of its first occurrence in ``ids``, -1 none."""
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
    return np.where(ids[order][place] == wanted, rows[order][place], -1)


class _Open(NamedTuple):
    """The range open from each moment on; the first of ``rows`` is the one before all moments."""

    moments: I64
    rows: I32

    @classmethod
    def of(cls, moments: I64, rows: I32) -> _Open:
        return cls(moments, np.append(np.int32(-1), rows))

    def renumbered(self, before: np.int32) -> _Open:
        return self._replace(rows=renumbered(before, self.rows))

    def at(self, time: I64) -> I32:
        if len(self.moments) < len(time) and (time[1:] >= time[:-1]).all():
            # as rows stand mostly: then the few moments are looked up among the times
            until = np.searchsorted(time, self.moments)
            return np.repeat(self.rows, np.diff(until, prepend=0, append=len(time)))
        return self.rows[np.searchsorted(self.moments, time, side="right")]


@dataclass(frozen=True)
class OpenRanges:
    """Answers which step or phase is open in a process at a moment.

    Attributes:
        by_thread: by thread row, the innermost range open on it.
        by_process: by process row, the range open on the only thread that has any.
    """

    by_thread: dict[int, _Open]
    by_process: dict[int, _Open]

    @classmethod
    def build(cls, rows: I64, ranges: Table, process: I32) -> OpenRanges:
        """Return the answers for the chosen ``rows`` of ``ranges``.

        Args:
            rows: rows of steps, or of phases.
            ranges: the table.
            process: process row of each thread row.
        """
        thread, start, end = (ranges[name][rows] for name in ("thread", "start", "end"))
        nest = Nest.build(rows, thread, start, end)
        by_thread, by_process = {}, {}
        for one in distinct(thread).tolist():
            here = thread == one
            moments = distinct(np.concatenate([start[here], end[here] + 1]))
            found = nest.innermost(np.full(len(moments), one, np.int32), moments, moments)
            by_thread[one] = _Open.of(moments, found)
        for one in distinct(process[thread]).tolist():
            parts = [part for row, part in by_thread.items() if process[row] == one]
            by_process[one] = _on_one_thread(parts)
        return cls(by_thread, by_process)

    def renumbered(self, before: np.int32) -> OpenRanges:
        """Return the same for a table in which other rows now come before."""
        return OpenRanges(
            *(
                {row: part.renumbered(before) for row, part in parts.items()}
                for parts in (self.by_thread, self.by_process)
            )
        )

    def add(self, other: OpenRanges) -> None:
        """Add the answers for other processes."""
        self.by_thread.update(other.by_thread)
        self.by_process.update(other.by_process)

    def at(self, process: I32, thread: I32, time: I64) -> tuple[I32, I32]:
        """Return the row of the range open at each moment: on the thread itself, and elsewhere.

        Elsewhere is asked only where the thread itself has none open, and is -1 unless exactly one
        thread of the process has one: with two, there is no telling whose work it is.

        Args:
            process: process row, shape (m,).
            thread: thread row, shape (m,).
            time: ns, shape (m,).
        """
        own = np.full(len(time), -1, np.int32)
        elsewhere = own.copy()
        for row, part in self.by_thread.items():
            asked = np.flatnonzero(thread == row)
            own[asked] = part.at(time.take(asked))
        for row, part in self.by_process.items():
            asked = np.flatnonzero((process == row) & (own < 0))
            elsewhere[asked] = part.at(time.take(asked))
        return own, elsewhere

    def anywhere(self, process: I32, thread: I32, time: I64) -> I32:
        """Return the row of the range open on the thread itself or else elsewhere, as ``at``."""
        return np.maximum(*self.at(process, thread, time))


def _on_one_thread(threads: list[_Open]) -> _Open:
    """Return what is open at a time when one thread has a range open and the others have none."""
    moments = distinct(np.concatenate([thread.moments for thread in threads]))
    row, count = np.full(len(moments), -1, np.int32), np.zeros(len(moments), np.int32)
    for thread in threads:
        found = thread.at(moments)
        row[found >= 0] = found[found >= 0]
        count += found >= 0
    return _Open.of(moments, np.where(count == 1, row, np.int32(-1)))


def nearest_of(wanted: npt.NDArray[np.bool_], parent: I32, levels: Sequence[Level] = ()) -> I32:
    """Return for each range the nearest of itself and its ancestors that is wanted, -1 none.

    Args:
        wanted: shape (n,).
        parent: row of the parent, -1 none, shape (n,).
        levels: ranges by depth, as in ``Explained``: the quick way.
    """
    if not wanted.any():
        return np.full(len(parent), -1, np.int32)
    nearest = np.where(wanted, np.arange(len(parent), dtype=np.int32), np.int32(-1))
    for level in levels:
        if not level.depth:
            continue
        children = np.diff(level.heads, append=len(level.rows))
        own = nearest.take(level.rows)
        above = np.repeat(nearest.take(level.parents), children)
        nearest[level.rows] = np.where(own >= 0, own, above)
    if levels:
        return nearest
    ancestor = parent.copy()
    climbing = np.flatnonzero((nearest < 0) & (ancestor >= 0))
    while len(climbing):
        nearest[climbing] = nearest[ancestor[climbing]]
        ancestor[climbing] = ancestor[ancestor[climbing]]
        climbing = climbing[(nearest[climbing] < 0) & (ancestor[climbing] >= 0)]
    return nearest


def attributed(call_range: I32, call_phase: I32) -> tuple[I32, npt.NDArray[np.uint8]]:
    """Return the range that each call's GPU work belongs to, and how it was found.

    Args:
        call_range: row of the range that owns each call, -1 none.
        call_phase: row of the phase around or inferred for each call, -1 none.
    """
    owned, inferred = call_range >= 0, call_phase >= 0
    how = np.where(inferred, np.uint8(Attribution.INFERRED), np.uint8(Attribution.NONE))
    how[owned] = Attribution.THREAD
    return np.where(owned, call_range, call_phase), how


def capturing_ranges(device: Table, nodes: Table, nest: Nest) -> I32:
    """Return the range around the creation of each device row's graph node, -1 unknown.

    Nodes of an executable graph are clones; the captured node is at the root of the clones.
    """
    rows = np.flatnonzero(device["graph_node"] != 0) if nodes.rows else np.empty(0, np.int64)
    if not len(rows):
        return np.broadcast_to(np.int32(-1), device.rows)
    found = np.full(device.rows, -1, np.int32)
    owner = nest.innermost(nodes["thread"], nodes["start"], nodes["end"])
    keys: dict[tuple[int, int], int] = {}
    for row, key in enumerate(zip(nodes["process"].tolist(), nodes["node"].tolist(), strict=True)):
        keys.setdefault(key, row)
    originals = nodes["original"].tolist()
    known, codes = factorize(device["graph_node"][rows])
    of_row = device["process"][rows]
    for process in distinct(of_row).tolist():
        roots = [_root((process, node), keys, originals) for node in known.tolist()]
        by_node = np.array([owner[root] if root >= 0 else -1 for root in roots], np.int32)
        here = of_row == process
        found[rows[here]] = by_node[codes[here]]
    return found


def _root(key: tuple[int, int], rows: dict[tuple[int, int], int], originals: list[int]) -> int:
    process, node = key
    row = rows.get((process, node), -1)
    for _ in range(8):
        if row < 0 or not originals[row] or originals[row] == node:
            break
        above = rows.get((process, originals[row]), -1)
        if above < 0:
            break
        node, row = originals[row], above
    return row
