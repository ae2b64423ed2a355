"""Rows of one stretch of the program: what all ranks did in it, merged in order of time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nvtrace.demo.catalog import (
    CATEGORIES,
    CATEGORY_ROW,
    D2H,
    DOMAIN_ROW,
    H2D,
    KERNEL_TABLE,
    MEM_DEVICE,
    MEM_PAGEABLE,
    MEM_PINNED,
    NAMED_DOMAINS,
    THREADS,
    Label,
)
from nvtrace.demo.script import Ints, Played
from nvtrace.demo.tape import GRAPH, KERNEL, MEMCPY, MEMSET, NONE
from nvtrace.demo.writer import Writer

VM = 1 << 48
_FIRST_PID, _PID_STRIDE = 4_242, 20

WORK_TABLES = {
    KERNEL: "CUPTI_ACTIVITY_KIND_KERNEL",
    MEMCPY: "CUPTI_ACTIVITY_KIND_MEMCPY",
    MEMSET: "CUPTI_ACTIVITY_KIND_MEMSET",
    GRAPH: "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
}


def process_id(rank: int) -> int:
    """Return the process id of a rank."""
    return _FIRST_PID + _PID_STRIDE * rank


def global_pid(rank: int) -> int:
    """Return the process id of a rank as nsys serialises it."""
    return VM | process_id(rank) << 24


def thread_ids(rank: int) -> Ints:
    """Return the serialised ids of a rank's threads."""
    return np.array([global_pid(rank) | process_id(rank) + offset for offset, _ in THREADS])


class EventRows:
    """Writes the stretches one after the other and numbers what it writes.

    Args:
        writer: where the rows go.
        ranks: number of processes.
    """

    def __init__(self, writer: Writer, ranks: int) -> None:
        self.writer = writer
        self.labels: list[Label] = []
        self.apis: list[str] = []
        self._label_ids: dict[Label, int] = {}
        self._api_ids: dict[str, int] = {}
        self._correlation = [1] * ranks
        self._range_id = 0
        self._threads = [thread_ids(rank) for rank in range(ranks)]
        self._names = np.array(
            [(writer.string(k.full_name), writer.string(k.short_name)) for k in KERNEL_TABLE]
        )
        self._launch = np.array(
            [(k.registers, k.grid, k.block, k.shared_bytes) for k in KERNEL_TABLE]
        )
        self._label_columns: list[tuple[object, ...]] = []
        self._api_strings: list[int] = []

    def label_id(self, label: Label) -> int:
        """Return the number of a label."""
        if label not in self._label_ids:
            self._label_ids[label] = len(self.labels)
            self.labels.append(label)
            self._label_columns.append(self._static_columns(label))
        return self._label_ids[label]

    def api_id(self, api: str) -> int:
        """Return the number of an API name."""
        if api not in self._api_ids:
            self._api_ids[api] = len(self.apis)
            self.apis.append(api)
            self._api_strings.append(self.writer.string(api))
        return self._api_ids[api]

    def write(self, played: Sequence[Played]) -> tuple[list[Ints], dict[int, list[Ints]]]:
        """Write all rows of a stretch.

        Returns:
            For each rank, the NVTX rowids of its script's ranges; for each kind of work and each
            rank, the positions of its rows among those of the kind in this stretch.
        """
        base = self.writer.rows["NVTX_EVENTS"] + 1
        rowids = [base + at for at in self._insert("NVTX_EVENTS", self._range_rows(played))]
        correlations = [self._correlate(p) for p in played]
        self._insert(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            [self._call_rows(p, c) for p, c in zip(played, correlations, strict=True)],
        )
        places: dict[int, list[Ints]] = {}
        for kind, table in WORK_TABLES.items():
            blocks = [
                self._work_rows(kind, p, c) for p, c in zip(played, correlations, strict=True)
            ]
            places[kind] = self._insert(table, blocks)
        for p, c in zip(played, correlations, strict=True):
            self._side_rows(p, c)
        return rowids, places

    def _insert(self, table: str, blocks: Sequence[Sequence[NDArray[np.generic]]]) -> list[Ints]:
        """Insert the ranks' blocks of columns by start; return where each block's rows went."""
        columns = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        if order.size:
            self.writer.insert(table, [column[order].tolist() for column in columns])
        places = np.empty(order.size, np.int64)
        places[order] = np.arange(order.size)
        bounds = np.cumsum([block[0].size for block in blocks])[:-1]
        return list(np.split(places, bounds))

    def _static_columns(self, label: Label) -> tuple[object, ...]:
        inline = not label.domain or label.event_type in (DOMAIN_ROW, CATEGORY_ROW)
        return (
            label.event_type,
            CATEGORIES.index(label.category) + 1 if label.category else None,
            label.color,
            label.name if inline else None,
            None if inline else self.writer.string(label.name),
            NAMED_DOMAINS.index(label.domain) + 1 if label.domain else 0,
        )

    def _range_rows(self, played: Sequence[Played]) -> list[list[NDArray[np.generic]]]:
        static = [np.array(c, object) for c in zip(*self._label_columns, strict=True)]
        return [self._rank_range_rows(p, static) for p in played]

    def _rank_range_rows(
        self, played: Played, static: list[NDArray[np.object_]]
    ) -> list[NDArray[np.generic]]:
        script, threads = played.script, self._threads[played.rank]
        event_type, category, color, text, text_id, domain = (c[script.label] for c in static)
        end = np.where(script.close_tick == NONE, NONE, played.ticks[script.close_tick])
        range_id = np.full(end.size, NONE)
        range_id[script.is_start_end] = self._range_id + np.arange(script.is_start_end.sum())
        self._range_id += int(script.is_start_end.sum())
        elsewhere = script.range_end_thread != NONE
        return [
            played.ticks[script.open_tick],
            end,
            event_type,
            range_id,
            category,
            color,
            text,
            threads[script.range_thread],
            np.where(elsewhere, threads[script.range_end_thread], NONE),
            text_id,
            _domain_ids(domain, played.rank),
            np.where(script.has_step, played.step, NONE),
        ]

    def _correlate(self, played: Played) -> Ints:
        count = played.script.api.size
        first = self._correlation[played.rank]
        self._correlation[played.rank] += count
        return np.where(played.script.correlated, first + np.arange(count), 0)

    def _call_rows(self, played: Played, correlation: Ints) -> list[NDArray[np.generic]]:
        script = played.script
        return [
            played.ticks[script.begin_tick],
            played.ticks[script.end_tick],
            script.event_class,
            self._threads[played.rank][script.call_thread],
            correlation,
            np.array(self._api_strings, np.int64)[script.api],
        ]

    def _work_rows(self, kind: int, played: Played, correlation: Ints) -> list[NDArray[np.generic]]:
        script = played.script
        rows = np.flatnonzero(script.kind == kind)
        call, item, size = script.work_call[rows], script.item[rows], script.size[rows]
        # A launch that was not traced has an id all the same, one that no call carries.
        untraced = (1 << 31) + rows
        columns: list[NDArray[np.generic]] = [
            played.work_start[rows],
            played.work_end[rows],
            np.full(rows.size, played.rank),
            script.stream[rows],
            np.where(call == NONE, untraced, correlation[call]),
            np.full(rows.size, global_pid(played.rank)),
        ]
        if kind == KERNEL:
            columns += [*self._names[item].T, *self._launch[item].T, script.node[rows], call + 2]
        elif kind == MEMCPY:
            source = np.where(item == H2D, MEM_PINNED, MEM_DEVICE)
            target = np.where(item == D2H, MEM_PAGEABLE, MEM_DEVICE)
            columns += [size, item, source, target]
        else:
            columns.append(size if kind == MEMSET else item)
        return columns

    def _side_rows(self, played: Played, correlation: Ints) -> None:
        """Synchronisation, memory and graph-creation rows, which are few."""
        script, ticks, rank = played.script, played.ticks, played.rank
        pid = global_pid(rank)
        for call in np.flatnonzero(script.end_tick == script.sync_tick).tolist():
            begin, end = ticks[[script.begin_tick[call], script.sync_tick]].tolist()
            row = [begin, end, rank, int(correlation[call]), pid]
            self._insert_one("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", row)
        for call, address, size in script.allocations.tolist():
            time = int(ticks[script.end_tick[call]])
            row = [time, pid, rank, address, abs(size), int(size < 0), int(correlation[call])]
            self._insert_one("CUDA_GPU_MEMORY_USAGE_EVENTS", row)
        name = self.writer.string("CUDA graph node creation")
        for call, node, original in script.nodes.tolist():
            begin, end = ticks[[script.begin_tick[call], script.end_tick[call]]].tolist()
            thread = int(self._threads[rank][script.call_thread[call]])
            row = [begin, end, thread, name, node, original]
            self._insert_one("CUDA_GRAPH_EVENTS", row)

    def _insert_one(self, table: str, row: Sequence[object]) -> None:
        self.writer.insert(table, [[value] for value in row])


def _domain_ids(position: NDArray[np.generic], rank: int) -> NDArray[np.generic]:
    """Turn positions in NAMED_DOMAINS (from 1; 0 default) into ids, which vary by process."""
    positions = position.astype(np.int64)
    return np.where(positions == 0, 0, (positions - 1 + rank) % len(NAMED_DOMAINS) + 1)
