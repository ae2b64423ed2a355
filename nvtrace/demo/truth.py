"""What is true of a generated report, summed up while it is laid out.

Nothing here is measured on the file: owners, phases and containment come from the scripts, times
from the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nvtrace.demo.catalog import KERNEL_TABLE, Label
from nvtrace.demo.events import process_id
from nvtrace.demo.script import Ints, Played
from nvtrace.demo.tape import GRAPH, KERNEL, MEMCPY, MEMSET, NONE

_KINDS = {KERNEL: "kernel", MEMCPY: "memcpy", MEMSET: "memset", GRAPH: "graph"}
_COPY_NAMES = {1: "HtoD", 2: "DtoH", 8: "DtoD"}
_IS_NCCL = np.array([kernel.communication for kernel in KERNEL_TABLE])
_TALLY_SIZE = 4_096  # more labels than any script has


class Tally:
    """Count, total, least and greatest of integer values, by key."""

    def __init__(self, size: int) -> None:
        self.calls = np.zeros(size, np.int64)
        self.total = np.zeros(size, np.int64)
        self.min = np.full(size, np.iinfo(np.int64).max)
        self.max = np.full(size, np.iinfo(np.int64).min)

    def add(self, keys: Ints, values: Ints) -> None:
        """Count one value for each key."""
        np.add.at(self.calls, keys, 1)
        np.add.at(self.total, keys, values)
        np.minimum.at(self.min, keys, values)
        np.maximum.at(self.max, keys, values)

    def row(self, key: int, prefix: str = "") -> dict[str, int | None]:
        """Return the figures of a key; none but the count where nothing was counted."""
        calls = int(self.calls[key])
        figures = {
            f"{prefix}{what}_ns": int(getattr(self, what)[key]) if calls else None
            for what in ("total", "min", "max")
        }
        return {f"{prefix}calls": calls, **figures}


class RankTruth:
    """The truth about one process and its device."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.cpu = Tally(_TALLY_SIZE)
        self.gpu = Tally(_TALLY_SIZE)
        self.unfinished = np.zeros(_TALLY_SIZE, np.int64)
        self.own_gpu = np.zeros(_TALLY_SIZE, np.int64)
        self.inferred = np.zeros(_TALLY_SIZE, np.int64)
        self.kernels = np.zeros(_TALLY_SIZE, np.int64)
        self.kernel_ns = np.zeros(_TALLY_SIZE, np.int64)
        self.device = dict.fromkeys(
            ("busy_ns", "busy_in_steps_ns", "compute_ns", "communication_ns", "overlap_ns"), 0
        )
        self.totals = dict.fromkeys(("gpu_ns", "attributed_gpu_ns", "inferred_gpu_ns"), 0)
        self.memory = self.peak_memory = 0
        self.around_gpu = self.around_kernels = self.around_kernel_ns = 0

    def add(self, played: Played, *, in_step: bool) -> None:
        """Count one played script.

        Args:
            played: the run.
            in_step: it is a training step, so the ranges around the training contain what its
                main thread does.
        """
        script = played.script
        duration = played.work_end - played.work_start
        self._add_ranges(played, duration)
        self.totals["gpu_ns"] += int(duration.sum())
        self.totals["attributed_gpu_ns"] += int(duration[script.owner != NONE].sum())
        self.totals["inferred_gpu_ns"] += int(duration[script.phase != NONE].sum())
        for _, _, size in script.allocations.tolist():
            self.memory += size
            self.peak_memory = max(self.peak_memory, self.memory)
        if in_step:
            main = script.call_thread[script.work_call] == 0
            kernels = main & (script.kind == KERNEL)
            self.around_gpu += int(duration[main].sum())
            self.around_kernels += int(kernels.sum())
            self.around_kernel_ns += int(duration[kernels].sum())
        self._add_device(played, in_step=in_step)

    def add_around(self, label: int, start: int, end: int) -> None:
        """Count a range around the training, once it is over."""
        self.cpu.add(np.array([label]), np.array([end - start]))
        self.gpu.add(np.array([label]), np.array([self.around_gpu]))
        self.unfinished[label] -= 1
        self.kernels[label] += self.around_kernels
        self.kernel_ns[label] += self.around_kernel_ns

    def _add_ranges(self, played: Played, duration: Ints) -> None:
        script, label = played.script, played.script.label
        ended = np.flatnonzero(script.close_tick != NONE)
        span = played.ticks[script.close_tick[ended]] - played.ticks[script.open_tick[ended]]
        self.cpu.add(label[ended], span)
        np.add.at(self.unfinished, label[script.never_closed], 1)
        inside = np.zeros(label.size, np.int64)
        np.add.at(inside, script.inside_range, duration[script.inside_work])
        # What the set-up leaves open is counted when it is over, by `add_around`.
        counted = (script.close_tick != NONE) | (inside > 0)
        self.gpu.add(label[counted], inside[counted])
        pairs = script.kind[script.inside_work] == KERNEL
        keys, works = label[script.inside_range[pairs]], script.inside_work[pairs]
        np.add.at(self.kernels, keys, 1)
        np.add.at(self.kernel_ns, keys, duration[works])
        owned, inferred = script.owner != NONE, script.phase != NONE
        np.add.at(self.own_gpu, label[script.owner[owned]], duration[owned])
        np.add.at(self.inferred, label[script.phase[inferred]], duration[inferred])

    def _add_device(self, played: Played, *, in_step: bool) -> None:
        script, start, end = played.script, played.work_start, played.work_end
        kernel = script.kind == KERNEL
        nccl = kernel & _IS_NCCL[np.where(kernel, script.item, 0)]
        busy = _union(start, end)
        compute = _union(start[kernel & ~nccl], end[kernel & ~nccl])
        communication = _union(start[nccl], end[nccl])
        both = _union(start[kernel], end[kernel])
        self.device["busy_ns"] += busy
        self.device["busy_in_steps_ns"] += busy if in_step else 0
        self.device["compute_ns"] += compute
        self.device["communication_ns"] += communication
        self.device["overlap_ns"] += compute + communication - both


class Truth:
    """The truth about a whole report.

    Args:
        ranks: number of processes.
    """

    def __init__(self, ranks: int) -> None:
        self.ranks = [RankTruth(rank) for rank in range(ranks)]
        self.kernels = Tally(len(KERNEL_TABLE))
        self.copies = Tally(16)
        self.copied_bytes = np.zeros(16, np.int64)
        self.sets = Tally(1)
        self.set_bytes = 0
        self.graphs = Tally(1)
        self.calls = Tally(_TALLY_SIZE)
        self.steps: list[dict[str, int]] = []
        self.owners: dict[str, list[Ints]] = {}

    def add(
        self,
        played: Sequence[Played],
        rowids: Sequence[Ints],
        places: dict[int, list[Ints]],
        *,
        in_step: bool,
    ) -> None:
        """Count one stretch; `rowids` and `places` as `EventRows.write` returns them."""
        for p in played:
            self.ranks[p.rank].add(p, in_step=in_step)
            self._add_rows(p)
            if in_step:
                ticks, script = p.ticks, p.script
                begin, end = int(ticks[script.open_tick[0]]), int(ticks[script.close_tick[0]])
                pid = process_id(p.rank)
                self.steps.append(
                    {"process": pid, "step": p.step, "start_ns": begin, "end_ns": end}
                )
        nodes = [
            np.append(ids, 0)[p.script.node_owner] for p, ids in zip(played, rowids, strict=True)
        ]
        self.owners.setdefault("graph_node_owner", []).extend(nodes)
        for kind, name in _KINDS.items():
            self._add_owners(f"{name}_owner", "owner", kind, played, rowids, places[kind])
            self._add_owners(f"{name}_phase", "phase", kind, played, rowids, places[kind])

    def _add_rows(self, played: Played) -> None:
        script, duration = played.script, played.work_end - played.work_start
        kernel, copy, fill, graph = (script.kind == k for k in (KERNEL, MEMCPY, MEMSET, GRAPH))
        self.kernels.add(script.item[kernel], duration[kernel])
        self.copies.add(script.item[copy], duration[copy])
        np.add.at(self.copied_bytes, script.item[copy], script.size[copy])
        self.sets.add(script.item[fill] * 0, duration[fill])
        self.set_bytes += int(script.size[fill].sum())
        self.graphs.add(script.item[graph] * 0, duration[graph])
        spans = played.ticks[script.end_tick] - played.ticks[script.begin_tick]
        self.calls.add(script.api, spans)

    def _add_owners(
        self,
        key: str,
        column: str,
        kind: int,
        played: Sequence[Played],
        rowids: Sequence[Ints],
        places: Sequence[Ints],
    ) -> None:
        """Append the NVTX rowids (0 none) of one kind of row, in the order of the file."""
        stretch = np.zeros(sum(place.size for place in places), np.int64)
        for p, ids, place in zip(played, rowids, places, strict=True):
            local = getattr(p.script, column)[p.script.kind == kind]
            stretch[place] = np.where(local == NONE, 0, np.append(ids, 0)[local])
        self.owners.setdefault(key, []).append(stretch)

    def arrays(self) -> dict[str, Ints]:
        """Return the NVTX rowids (0 none) that belong to the device rows, in the order of the file.

        For each kind of row: its owner, and the phase it is inferred to. For graph nodes: the range
        in which they were made.
        """
        return {key: np.concatenate(parts) for key, parts in self.owners.items()}

    def to_dict(self, labels: Sequence[Label], apis: Sequence[str]) -> dict[str, Any]:
        """Return all figures, times in integer ns, in a form that JSON can hold."""
        totals = {key: sum(r.totals[key] for r in self.ranks) for key in self.ranks[0].totals}
        found = totals["attributed_gpu_ns"] + totals["inferred_gpu_ns"]
        return {
            "totals": {
                **totals,
                "unattributed_gpu_ns": totals["gpu_ns"] - found,
            },
            "window": self._window(),
            "kernels": [
                {"name": k.full_name, "short_name": k.short_name, **self.kernels.row(i)}
                for i, k in enumerate(KERNEL_TABLE)
                if self.kernels.calls[i]
            ],
            "calls": [{"name": api, **self.calls.row(i)} for i, api in enumerate(apis)],
            "memory": self._memory(),
            "graph_runs": self.graphs.row(0),
            "ranges": [
                _range_row(rank, i, label)
                for rank in self.ranks
                for i, label in enumerate(labels)
                if rank.cpu.calls[i] or rank.unfinished[i]
            ],
            "devices": [
                {
                    "device": r.rank,
                    "process": process_id(r.rank),
                    **r.device,
                    "peak_memory_bytes": r.peak_memory,
                }
                for r in self.ranks
            ],
            "steps": self.steps,
        }

    def _window(self) -> dict[str, int]:
        """Figures of the steps as a whole, in the ways in which one may count them."""
        numbers = {step["step"] for step in self.steps}
        first = np.array([step["start_ns"] for step in self.steps])
        last = np.array([step["end_ns"] for step in self.steps])
        return {
            "steps": len(numbers),
            "steps_of_all_processes": len(self.steps),
            "first_to_last_ns": int(last.max() - first.min()),
            "union_ns": _union(first, last),
        }

    def _memory(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = [
            {"name": name, "bytes": int(self.copied_bytes[kind]), **self.copies.row(kind)}
            for kind, name in _COPY_NAMES.items()
            if self.copies.calls[kind]
        ]
        return [*rows, {"name": "memset", "bytes": self.set_bytes, **self.sets.row(0)}]


def _range_row(rank: RankTruth, index: int, label: Label) -> dict[str, Any]:
    return {
        "process": process_id(rank.rank),
        "name": label.name,
        "domain": label.domain,
        "category": label.category,
        "style": label.event_type,
        **rank.cpu.row(index),
        "unfinished": int(rank.unfinished[index]),
        "kernels": int(rank.kernels[index]),
        "kernel_ns": int(rank.kernel_ns[index]),
        **{k: v for k, v in rank.gpu.row(index, "gpu_").items() if k != "gpu_calls"},
        "own_gpu_ns": int(rank.own_gpu[index]),
        "inferred_gpu_ns": int(rank.inferred[index]),
    }


def _union(start: Ints, end: Ints) -> int:
    """Total time covered by half-open intervals."""
    if not start.size:
        return 0
    order = np.argsort(start, kind="stable")
    reach = np.maximum.accumulate(end[order])
    begin = np.maximum(start[order], np.concatenate(([start.min()], reach[:-1])))
    return int(np.maximum(reach - begin, 0).sum())
