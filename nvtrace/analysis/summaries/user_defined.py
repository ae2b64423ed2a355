"""UserDefined view: ranges by name, and the kernels inside them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.intervals import sum_by, union_by
from nvtrace.analysis.measures import Figures, Measures
from nvtrace.analysis.summaries.columns import (
    count,
    everywhere,
    figures,
    grouped,
    share,
    text,
    time,
    with_row,
)
from nvtrace.model.arrays import among, factorize
from nvtrace.model.schema import PHASES, Attribution, DeviceKind, RangeKind, RangeStyle
from nvtrace.report import ReportTable

I64 = npt.NDArray[np.int64]

UNATTRIBUTED = "unattributed"


def process_label(measures: Measures, process: int) -> str:
    """Return what to call a process: its pid, with its rank and file where they are needed."""
    processes = measures.trace.processes
    one = processes[process]
    label = str(one.pid)
    if one.rank is not None:
        label += f" (rank {one.rank})"
    if sum(other.pid == one.pid and other.rank == one.rank for other in processes) > 1:
        label += f" [{one.source}]"
    return label


def user_defined_view(measures: Measures) -> ReportTable:
    """Return one row a (name, domain, process, style) of ranges that are no framework operators.

    Steps and phases recognised by name alone are users' ranges too, and appear here as well. GPU
    work in no range at all is one row at the end.
    """
    rows = _chosen(measures)
    ranges, explained, trace = measures.trace.ranges, measures.explained, measures.trace
    process = trace.threads["process"][ranges["thread"][rows]]
    keys, codes = grouped(
        explained.range_name[rows], ranges["domain"][rows], process, ranges["style"][rows]
    )
    groups = len(keys)
    once = measures.outermost(rows, codes)
    graphs = sum_by(codes, measures.contained_graphs[rows], groups)
    cpu = Figures.once(codes, measures.range_time(rows), once, groups)
    gpu = Figures.once(codes, measures.contained_gpu[rows], once, groups)
    nested = keys[:, 3] == RangeStyle.PUSH_POP
    domains = [trace.domains[row].name for row in keys[:, 1].tolist()]
    processes = [process_label(measures, row) for row in keys[:, 2].tolist()]
    cpu_ratio = share(cpu.total, _marked_ns(measures, rows))
    gpu_ratio = share(gpu.total, int(measures.device_time.sum()))
    kernels = sum_by(codes, measures.contained_kernels[rows] * once, groups)
    always, recorded = everywhere(True, groups), measures.gpu_known[keys[:, 2]]
    counted = recorded & (graphs == 0)
    table = ReportTable(
        "user_defined",
        "UserDefined Summary",
        (
            text("name", "Name", trace.strings.take(keys[:, 0])),
            text("domain", "Domain", domains, shown=any(domains)),
            text("process", "Process", processes, shown=len(set(processes)) > 1),
            text(
                "style", "Style", [_STYLES[s] for s in keys[:, 3].tolist()], shown=not all(nested)
            ),
            count("calls", "Calls", cpu.calls),
            *figures("cpu", cpu, cpu_ratio, always, ratio_valid=nested),
            time("cpu_self_ns", "CPU Self", sum_by(codes, explained.range_self[rows], groups)),
            *figures("gpu", gpu, gpu_ratio, recorded, ratio_valid=nested),
            time(
                "gpu_self_ns", "GPU Self", sum_by(codes, measures.owned_gpu[rows], groups), recorded
            ),
            count("kernels", "Kernels", kernels, counted),
        ),
        notes=_NOTES,
        empty="no ranges of this kind"
        if trace.recorded.ranges
        else "NVTX ranges were not recorded: trace them with nsys profile -t cuda,nvtx",
    )
    rest = _unattributed(measures)
    return with_row(table, rest) if rest else table


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


def _unattributed(measures: Measures) -> dict[str, object]:
    """Return the row of GPU work in no range; empty when there is none."""
    rows = measures.selection.device & (measures.explained.device_how == Attribution.NONE)
    if not rows.any():
        return {}
    kinds = measures.trace.device["kind"][rows]
    total = int(measures.device_time[rows].sum())
    return {
        "name": UNATTRIBUTED,
        "calls": int(rows.sum()),
        "gpu_total_ns": total,
        "gpu_ratio": float(share(np.array([total]), int(measures.device_time.sum()))[0]),
        "gpu_self_ns": total,
        "kernels": None
        if (kinds == DeviceKind.GRAPH).any()
        else int((kinds == DeviceKind.KERNEL).sum()),
    }
