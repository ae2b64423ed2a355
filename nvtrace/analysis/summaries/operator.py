"""Operator view: the frameworks' operators, with their inner phases and kernels on request."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.attribution import nearest_of
from nvtrace.analysis.frame import Frame
from nvtrace.analysis.intervals import sum_at, sum_by
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.parts import Figures, Groups
from nvtrace.analysis.summaries.columns import (
    count,
    everywhere,
    figures,
    share,
    sort_order,
    text,
    time,
)
from nvtrace.model.arrays import constant, grouped, taken
from nvtrace.model.schema import Attribution, RangeKind, RangeStyle
from nvtrace.model.trace import TraceData
from nvtrace.report import Column, ReportTable, Unit

I64 = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

_MERGED = "All threads merged"


class Found(NamedTuple):
    """Operators, and what is in them where that was asked for.

    Figures are of CPU and GPU, sums of CPU Self and GPU Self; kernels have the GPU alone.

    Attributes:
        operators: by thread (-1 merged) and name.
        inner: inner phases, by thread, name of the operator, and name.
        kernels: by thread, name of the operator, of the inner phase (-1 none), and name.
    """

    operators: Groups
    inner: Groups | None
    kernels: Groups | None


def gather(measures: Measures, *, op_detail: bool = False, thread_sep: bool = False) -> Found:
    """Return operators by name.

    Args:
        measures: the trace.
        op_detail: inner phases, and the kernels of each, too.
        thread_sep: by thread and name.
    """
    operators, ranges = measures.operators, measures.trace.ranges
    thread = (
        ranges["thread"][operators.rows]
        if thread_sep
        else constant(-1, len(operators.rows), np.int32)
    )
    keys, codes = grouped(thread, measures.explained.range_name[operators.rows])
    found = _operators(measures, keys, codes)
    if not op_detail:
        return Found(found, None, None)
    group_of = np.full(ranges.rows, -1, np.int64)
    group_of[operators.rows] = codes
    inner, inner_of = _inner(measures, group_of, keys)
    return Found(found, inner, _kernels(measures, group_of, inner_of, keys))


def _operators(measures: Measures, keys: I64, codes: Codes) -> Groups:
    operators, rows, groups = measures.operators, measures.operators.rows, len(keys)
    once = measures.outermost(rows, codes)
    gpu_time = measures.contained_gpu
    return Groups(
        keys,
        (
            Figures.once(codes, measures.range_time(rows), once, groups),
            Figures.once(codes, gpu_time[rows], once, groups),
        ),
        (
            sum_by(codes, operators.self_time, groups),
            sum_by(codes, _nearest_gpu(measures)[rows], groups),
        ),
    )


def _nearest_gpu(measures: Measures) -> I64:
    """Return GPU time whose nearest operator is each range, ns."""
    return sum_at(measures.operators.nearest, measures.owned_gpu, measures.trace.ranges.rows)


def _inner(measures: Measures, group_of: I64, operators: I64) -> tuple[Groups, I64]:
    """Return the inner phases of operators, and the name of that which each range lies in, -1."""
    explained, ranges = measures.explained, measures.trace.ranges
    nearest = measures.operators.nearest
    inner = measures.selection.ranges & (explained.range_kind == RangeKind.OPERATOR_INNER)
    inner &= (nearest >= 0) & (ranges["style"] == RangeStyle.PUSH_POP)
    rows = np.flatnonzero(inner)
    names = explained.range_name[rows]
    keys, codes = grouped(*operators[group_of[nearest[rows]]].T, names)
    groups = len(keys)
    once = measures.outermost(rows, codes)
    gpu_time = measures.contained_gpu
    level = Groups(
        keys,
        (
            Figures.once(codes, measures.range_time(rows), once, groups),
            Figures.once(codes, gpu_time[rows], once, groups),
        ),
        (
            sum_by(codes, explained.range_self[rows], groups),
            sum_by(codes, measures.owned_gpu[rows], groups),
        ),
    )
    innermost = nearest_of(inner, explained.range_parent, explained.range_levels)
    known = innermost >= 0
    # an inner phase around a further operator is not the inner phase of that operator's kernels
    known[known] = nearest[innermost[known]] == nearest[known]
    return level, np.where(known, taken(explained.range_name, innermost), -1).astype(np.int64)


def _kernels(measures: Measures, group_of: I64, inner_of: I64, operators: I64) -> Groups:
    """Return the kernels, copies and sets by operator and inner phase."""
    explained, device = measures.explained, measures.trace.device
    rows = np.flatnonzero(measures.selection.device & (explained.device_how == Attribution.THREAD))
    operator = measures.operators.nearest[explained.device_range[rows]]
    rows, operator = rows[operator >= 0], operator[operator >= 0]
    keys, codes = grouped(
        *operators[group_of[operator]].T,
        inner_of[explained.device_range[rows]],
        device["name"][rows],
    )
    return Groups(keys, (Figures.of(codes, measures.device_time[rows], len(keys)),))


class _Rows(NamedTuple):
    """Rows of one level of the view.

    Attributes:
        group: the operator each row belongs to, a row of level 0.
        inner: the inner phase each row belongs to, a row of level 1, -1 none.
        thread: row of threads, -1 merged.
        name: row of strings.
        cpu: figures, None where the level has no CPU side.
        gpu: figures.
        cpu_self: ns.
        gpu_self: ns.
    """

    group: I64
    inner: I64
    thread: I64
    name: I64
    cpu: Figures | None
    gpu: Figures
    cpu_self: I64
    gpu_self: I64


def table(found: Found, frame: Frame, *, sorted_by: str) -> ReportTable:
    """Return one row an operator name; with details also inner phases and kernels, indented.

    Args:
        found: operators, and what is in them.
        frame: names and threads.
        sorted_by: one of SORT_KEYS, at every level.
    """
    levels = _levels(found)
    top = levels[0]
    cpu_whole, gpu_whole = int(top.cpu_self.sum()), int(top.gpu_self.sum())
    recorded = frame.trace.recorded.device
    parts = [_level(frame.trace, top, 0, cpu_whole, gpu_whole, recorded)]
    for depth, level in enumerate(levels[1:], 1):
        above_cpu, above_gpu = _above(levels, level, depth)
        shown_depth = np.where(level.inner >= 0, depth, 1)
        parts.append(_level(frame.trace, level, shown_depth, above_cpu, above_gpu, recorded))
    columns = _joined(parts)
    order = _tree_order(levels, parts, sorted_by)
    columns = tuple(column.take(order) for column in columns)
    depths = next(column for column in columns if column.key == "depth").values
    threads = next(column for column in columns if column.key == "thread").values
    sections = np.array([f"Thread: {thread or _MERGED}" for thread in threads], object)
    return ReportTable(
        "operator",
        "Operator Summary",
        columns,
        indent=depths,
        sections=sections if len(sections) else None,
        notes=(
            "Totals hold the operators inside, recursion once; Self is without them. GPU is the "
            "work launched inside on the same thread, kernels, copies and sets.",
            "Ratios are of the sum of Self over all operators, of an inner row of the row above.",
        ),
        empty=_why_empty(frame.trace),
    )


def _levels(found: Found) -> list[_Rows]:
    names = found.operators.keys
    places, none = np.arange(len(names)), np.full(len(names), -1)
    levels = [_rows(found.operators, places, none)]
    if found.inner is not None and found.kernels is not None and len(names):
        inner, kernels = found.inner.keys, found.kernels.keys
        places = np.arange(len(inner))
        levels.append(_rows(found.inner, _places(inner[:, :2], names), places))
        within = _places(kernels[:, :3], inner)
        levels.append(_rows(found.kernels, _places(kernels[:, :2], names), within))
    return levels


def _rows(groups: Groups, group: I64, inner: I64) -> _Rows:
    *cpu, gpu = groups.figures
    cpu_self, gpu_self = groups.sums or (np.zeros(len(groups), np.int64), gpu.total)
    thread, name = groups.keys[:, 0], groups.keys[:, -1]
    return _Rows(group, inner, thread, name, cpu[0] if cpu else None, gpu, cpu_self, gpu_self)


def _places(rows: I64, keys: I64) -> I64:
    """Return which of ``keys`` each of ``rows`` is, -1 none: shapes (n, k) and (m, k)."""
    known = {key: place for place, key in enumerate(map(tuple, keys.tolist()))}
    return np.array([known.get(row, -1) for row in map(tuple, rows.tolist())], np.int64)


def _why_empty(trace: TraceData) -> str:
    if not trace.recorded.ranges:
        return "NVTX ranges were not recorded: trace them with nsys profile -t cuda,nvtx"
    return (
        "no operator ranges found: use an adapter, torch.autograd.profiler.emit_nvtx(), or name "
        "your own with --rule NAME=operator"
    )


def _above(levels: list[_Rows], level: _Rows, depth: int) -> tuple[I64, I64]:
    """Return CPU and GPU totals of the row above each row."""
    top = levels[0]
    assert top.cpu is not None
    cpu, gpu = top.cpu.total[level.group], top.gpu.total[level.group]
    if depth == 2 and len(levels[1].name):
        inner = levels[1]
        assert inner.cpu is not None
        within = level.inner >= 0
        place = np.maximum(level.inner, 0)
        cpu = np.where(within, inner.cpu.total[place], cpu)
        gpu = np.where(within, inner.gpu.total[place], gpu)
    return cpu, gpu


def _level(
    trace: TraceData,
    level: _Rows,
    depth: int | I64,
    cpu_whole: int | I64,
    gpu_whole: int | I64,
    recorded: bool,
) -> tuple[Column, ...]:
    rows = len(level.name)
    has_cpu = everywhere(level.cpu is not None, rows)
    cpu = level.cpu or Figures.none(rows)
    calls = level.gpu.calls if level.cpu is None else level.cpu.calls
    has_gpu = everywhere(recorded, rows)
    threads = [_thread_label(trace, row) for row in level.thread.tolist()]
    return (
        text("thread", "Thread", threads, shown=False),
        text("name", "Name", trace.strings.take(level.name)),
        Column(
            "depth", "Depth", Unit.COUNT, np.broadcast_to(depth, rows).astype(np.int64), shown=False
        ),
        count("calls", "Calls", calls),
        *figures("cpu", cpu, share(cpu.total, cpu_whole), has_cpu),
        time("cpu_self_ns", "CPU Self", level.cpu_self, has_cpu),
        *figures("gpu", level.gpu, share(level.gpu.total, gpu_whole), has_gpu),
        time("gpu_self_ns", "GPU Self", level.gpu_self, has_gpu),
    )


def _thread_label(trace: TraceData, row: int) -> str | None:
    if row < 0:
        return None
    threads = trace.threads
    process = trace.processes[int(threads["process"][row])]
    name = trace.strings[threads["name"][row]] if threads["name"][row] >= 0 else ""
    label = f"{int(threads['tid'][row])} {name}".strip()
    return f"{label} (pid {process.pid})" if len(trace.processes) > 1 else label


def _joined(parts: list[tuple[Column, ...]]) -> tuple[Column, ...]:
    return tuple(
        replace(
            same[0],
            values=np.concatenate([column.values for column in same]),
            valid=None
            if same[0].unit is Unit.TEXT
            else np.concatenate([column.recorded() for column in same]),
        )
        for same in zip(*parts, strict=True)
    )


def _tree_order(levels: list[_Rows], parts: list[tuple[Column, ...]], sorted_by: str) -> I64:
    """Return rows so that each operator is followed by its inner phases, each by its kernels."""
    ranks = []
    for part in parts:
        rank = np.empty(len(part[0].values), np.int64)
        rank[sort_order(part, sorted_by)] = np.arange(len(rank))
        ranks.append(rank)
    top = levels[0]
    keys: list[tuple[I64, I64, I64, I64]] = [
        (top.thread, ranks[0], ranks[0] * 0 - 1, ranks[0] * 0 - 1)
    ]
    if len(levels) > 1:
        inner, kernels = levels[1], levels[2]
        own = ranks[1]
        keys.append((inner.thread, ranks[0][inner.group], own, own * 0 - 1))
        # kernels outside any inner phase come last, as the anchor prints them
        last = len(inner.name)
        within = np.where(
            kernels.inner >= 0, own[np.maximum(kernels.inner, 0)] if last else 0, last
        )
        keys.append((kernels.thread, ranks[0][kernels.group], within, ranks[2]))
    columns = [np.concatenate(column) for column in zip(*keys, strict=True)]
    return np.lexsort(columns[::-1])
