"""UserDefined view: ranges by name, and the kernels inside them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.frame import Frame
from nvtrace.analysis.intervals import sum_by, union_by
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.parts import Figures, Groups
from nvtrace.analysis.summaries.columns import (
    count,
    everywhere,
    figures,
    share,
    text,
    time,
    with_row,
)
from nvtrace.model.arrays import among, factorize, grouped
from nvtrace.model.schema import PHASES, Attribution, DeviceKind, RangeKind, RangeStyle
from nvtrace.model.trace import TraceData
from nvtrace.report import ReportTable

I64 = npt.NDArray[np.int64]

UNATTRIBUTED = "unattributed"


class Found(NamedTuple):
    """Ranges by name, domain, process and RangeStyle.

    Attributes:
        groups: figures of CPU and GPU; sums of CPU Self, GPU Self, kernels and graph runs inside.
        marked_ns: the union of push/pop ranges on each thread, summed over threads.
        rest: GPU work in no range by DeviceKind.
    """

    groups: Groups
    marked_ns: int
    rest: Groups


def process_label(trace: TraceData, process: int) -> str:
    """Return what to call a process: its pid, with its rank and file where they are needed."""
    processes = trace.processes
    one = processes[process]
    label = str(one.pid)
    if one.rank is not None:
        label += f" (rank {one.rank})"
    if sum(other.pid == one.pid and other.rank == one.rank for other in processes) > 1:
        label += f" [{one.source}]"
    return label


def gather(measures: Measures) -> Found:
    """Return the ranges that are no framework operators.

    Steps and phases recognised by name alone are users' ranges too, and among them as well.
    """
    rows = _chosen(measures)
    explained, trace = measures.explained, measures.trace
    ranges = trace.ranges
    keys, codes = grouped(
        explained.range_name[rows],
        ranges["domain"][rows],
        trace.threads["process"][ranges["thread"][rows]],
        ranges["style"][rows],
    )
    groups = len(keys)
    once = measures.outermost(rows, codes)
    return Found(
        Groups(
            keys,
            (
                Figures.once(codes, measures.range_time(rows), once, groups),
                Figures.once(codes, measures.contained_gpu[rows], once, groups),
            ),
            (
                sum_by(codes, explained.range_self[rows], groups),
                sum_by(codes, measures.owned_gpu[rows], groups),
                sum_by(codes, measures.contained_kernels[rows] * once, groups),
                sum_by(codes, measures.contained_graphs[rows], groups),
            ),
        ),
        _marked_ns(measures, rows),
        _rest(measures),
    )


def table(found: Found, frame: Frame) -> ReportTable:
    """Return one row a (name, domain, process, style); GPU work in no range is one at the end."""
    trace, keys = frame.trace, found.groups.keys
    (cpu, gpu), (cpu_self, gpu_self, kernels, graphs) = found.groups.figures, found.groups.sums
    nested = keys[:, 3] == RangeStyle.PUSH_POP
    domains = [trace.domains[row].name for row in keys[:, 1].tolist()]
    processes = [process_label(trace, row) for row in keys[:, 2].tolist()]
    styles = [_STYLES[style] for style in keys[:, 3].tolist()]
    cpu_ratio, gpu_ratio = share(cpu.total, found.marked_ns), share(gpu.total, frame.gpu_ns)
    always, recorded = everywhere(True, len(keys)), frame.gpu_known[keys[:, 2]]
    shown = ReportTable(
        "user_defined",
        "UserDefined Summary",
        (
            text("name", "Name", trace.strings.take(keys[:, 0])),
            text("domain", "Domain", domains, shown=any(domains)),
            text("process", "Process", processes, shown=len(set(processes)) > 1),
            text("style", "Style", styles, shown=not all(nested)),
            count("calls", "Calls", cpu.calls),
            *figures("cpu", cpu, cpu_ratio, always, ratio_valid=nested),
            time("cpu_self_ns", "CPU Self", cpu_self),
            *figures("gpu", gpu, gpu_ratio, recorded, ratio_valid=nested),
            time("gpu_self_ns", "GPU Self", gpu_self, recorded),
            count("kernels", "Kernels", kernels, recorded & (graphs == 0)),
        ),
        notes=_NOTES,
        empty="no ranges of this kind"
        if trace.recorded.ranges
        else "NVTX ranges were not recorded: trace them with nsys profile -t cuda,nvtx",
    )
    return with_row(shown, _unattributed(found.rest, frame)) if len(found.rest) else shown


_STYLES = {RangeStyle.PUSH_POP: "push/pop", RangeStyle.START_END: "start/end"}
_NOTES = (
    "Totals hold what is nested inside, recursion once; Self is without it. GPU is the work "
    "launched inside on the same thread, whenever it ran.",
    "CPU ratios are of the union of these ranges on each thread, summed over threads; GPU ratios "
    "of all GPU time. Start/end ranges may overlap and have no ratio.",
)


def _chosen(measures: Measures) -> I64:
    kinds = measures.explained.range_kind
    other = ~among(kinds, (RangeKind.OPERATOR, RangeKind.OPERATOR_INNER, RangeKind.STEP, *PHASES))
    chosen = measures.selection.ranges & (other | measures.explained.range_guessed)
    return np.flatnonzero(chosen & (measures.trace.ranges["style"] != RangeStyle.MARK))


def _marked_ns(measures: Measures, rows: I64) -> int:
    """Return the union of push/pop ranges on each thread, summed over threads."""
    ranges = measures.trace.ranges
    rows = rows[ranges["style"][rows] == RangeStyle.PUSH_POP]
    threads, codes = factorize(ranges["thread"][rows])
    return int(union_by(codes, ranges["start"][rows], ranges["end"][rows], len(threads)).sum())


def _rest(measures: Measures) -> Groups:
    rows = measures.selection.device & (measures.explained.device_how == Attribution.NONE)
    keys, codes = grouped(measures.trace.device["kind"][rows])
    return Groups(keys, (Figures.of(codes, measures.device_time[rows], len(keys)),))


def _unattributed(rest: Groups, frame: Frame) -> dict[str, object]:
    """Return the row of GPU work in no range."""
    kinds, (gpu,) = rest.keys[:, 0], rest.figures
    total = int(gpu.total.sum())
    return {
        "name": UNATTRIBUTED,
        "calls": int(gpu.calls.sum()),
        "gpu_total_ns": total,
        "gpu_ratio": float(share(np.array([total]), frame.gpu_ns)[0]),
        "gpu_self_ns": total,
        "kernels": None
        if (kinds == DeviceKind.GRAPH).any()
        else int(gpu.calls[kinds == DeviceKind.KERNEL].sum()),
    }
