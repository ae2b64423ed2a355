"""Which range a piece of GPU work belongs to.

A device row belongs to the call with its correlation id in its process; a call to the innermost
push/pop range on its thread that contains it. GPU work is never attributed by when the GPU ran.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.nesting import Nest
from nvtrace.model.arrays import factorize
from nvtrace.model.schema import Attribution
from nvtrace.model.table import Table

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


def launching_calls(calls: Table, device: Table) -> I32:
    """Return the row of the call that launched each device row, -1 unknown.

    The key is (process, correlation id): ids repeat across processes. Id 0 joins nothing. Of
    several calls with one id the first is taken.
    """
    found = np.full(device.rows, -1, np.int32)
    for process in np.unique(device["process"]).tolist():
        rows = np.flatnonzero((device["process"] == process) & (device["correlation"] != 0))
        candidates = np.flatnonzero((calls["process"] == process) & (calls["correlation"] != 0))
        if len(rows) and len(candidates):
            ids = calls["correlation"][candidates]
            found[rows] = _lookup(ids, candidates, device["correlation"][rows])
    return found


def _lookup(ids: I64, rows: I64, wanted: I64) -> I64:
    """Return for each wanted id the row of its first occurrence in ``ids``, -1 none."""
    low, high = int(ids.min()), int(ids.max())
    if high - low < 8 * len(ids) + 65536:
        table = np.full(high - low + 2, -1, np.int64)
        table[ids[::-1] - low] = rows[::-1]
        inside = (wanted >= low) & (wanted <= high)
        return table[np.where(inside, wanted - low, high - low + 1)]
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
    return np.where(ids[order][place] == wanted, rows[order][place], -1)


@dataclass(frozen=True)
class OpenRanges:
    """Answers which step or phase is open in a process at a moment.

    Attributes:
        nests: one forest a thread, by (process row, thread row).
    """

    nests: dict[tuple[int, int], Nest]

    @classmethod
    def build(cls, rows: I64, ranges: Table, process: I32) -> OpenRanges:
        """Return the answers for the chosen ``rows`` of ``ranges``.

        Args:
            rows: rows of steps, or of phases.
            ranges: the table.
            process: process row of each thread row.
        """
        nests = {}
        threads = ranges["thread"][rows]
        for thread in np.unique(threads).tolist():
            chosen = rows[threads == thread]
            nests[int(process[thread]), thread] = Nest.build(
                chosen, ranges["thread"][chosen], ranges["start"][chosen], ranges["end"][chosen]
            )
        return cls(nests)

    def at(self, process: I32, thread: I32, time: I64) -> tuple[I64, I64]:
        """Return the row of the range open at each moment: on the thread itself, and elsewhere.

        Elsewhere is asked only where the thread itself has none open, and is -1 unless exactly one
        thread of the process has one: with two, there is no telling whose work it is.

        Args:
            process: process row, shape (m,).
            thread: thread row, shape (m,).
            time: ns, shape (m,).
        """
        own = np.full(len(time), -1, np.int64)
        other = np.full(len(time), -1, np.int64)
        threads_open = np.zeros(len(time), np.int32)
        for (owner, on_thread), nest in self.nests.items():
            asked = np.flatnonzero(process == owner)
            moments = time[asked]
            there = np.full(len(asked), on_thread, np.int32)
            rows = nest.innermost(there, moments, moments)
            mine = (rows >= 0) & (thread[asked] == on_thread)
            own[asked[mine]] = rows[mine]
            foreign = (rows >= 0) & ~mine
            other[asked[foreign]] = rows[foreign]
            threads_open[asked[foreign]] += 1
        return own, np.where((own < 0) & (threads_open == 1), other, -1)


def nearest_of(wanted: npt.NDArray[np.bool_], parent: I32) -> I32:
    """Return for each range the nearest of itself and its ancestors that is wanted, -1 none.

    Args:
        wanted: shape (n,).
        parent: row of the parent, -1 none, shape (n,).
    """
    if not wanted.any():
        return np.full(len(parent), -1, np.int32)
    nearest = np.where(wanted, np.arange(len(parent), dtype=np.int32), np.int32(-1))
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
    how = np.select([owned, inferred], [Attribution.THREAD, Attribution.INFERRED], Attribution.NONE)
    return np.where(owned, call_range, call_phase), how.astype(np.uint8)


def capturing_ranges(device: Table, nodes: Table, nest: Nest) -> I32:
    """Return the range around the creation of each device row's graph node, -1 unknown.

    Nodes of an executable graph are clones; the captured node is at the root of the clones.
    """
    found = np.full(device.rows, -1, np.int32)
    rows = np.flatnonzero(device["graph_node"] != 0)
    if not len(rows) or not nodes.rows:
        return found
    owner = nest.innermost(nodes["thread"], nodes["start"], nodes["end"])
    keys: dict[tuple[int, int], int] = {}
    for row, key in enumerate(zip(nodes["process"].tolist(), nodes["node"].tolist(), strict=True)):
        keys.setdefault(key, row)
    originals = nodes["original"].tolist()
    distinct, codes = factorize(device["graph_node"][rows])
    for process in np.unique(device["process"][rows]).tolist():
        roots = [_root((process, node), keys, originals) for node in distinct.tolist()]
        by_node = np.array([owner[root] if root >= 0 else -1 for root in roots], np.int32)
        here = device["process"][rows] == process
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
