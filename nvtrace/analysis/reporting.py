"""From an explained trace to reports: the views, the totals, and what a reader should know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nvtrace.analysis.checks import figure_notes
from nvtrace.analysis.listing import ranges_table
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.selection import Bounds, select
from nvtrace.analysis.summaries.allocations import allocations_view, has_allocations
from nvtrace.analysis.summaries.columns import SORT_KEYS, sort_order
from nvtrace.analysis.summaries.device import device_view
from nvtrace.analysis.summaries.distributed import distributed_view
from nvtrace.analysis.summaries.hlo import device_phases_view, has_programs, hlo_view
from nvtrace.analysis.summaries.host_steps import has_host_steps, host_steps_view
from nvtrace.analysis.summaries.kernel import kernel_view, memory_view
from nvtrace.analysis.summaries.kernels_by_range import kernels_by_range_view
from nvtrace.analysis.summaries.model import model_view
from nvtrace.analysis.summaries.operator import operator_view
from nvtrace.analysis.summaries.overview import overview_view
from nvtrace.analysis.summaries.user_defined import user_defined_view
from nvtrace.errors import UsageError
from nvtrace.model.explained import Explained
from nvtrace.model.schema import Attribution
from nvtrace.model.trace import TraceData
from nvtrace.report import Report, ReportTable

View = Callable[[Measures], ReportTable]

_VIEWS: dict[str, View] = {
    "device": device_view,
    "overview": overview_view,
    "model": model_view,
    "distributed": distributed_view,
    "operator": operator_view,  # type: ignore[dict-item]
    "kernel": kernel_view,
    "memory": memory_view,
    "user_defined": user_defined_view,
    "kernels_by_range": kernels_by_range_view,
    "allocations": allocations_view,
    "host_steps": host_steps_view,
    "device_phases": device_phases_view,
    "hlo": hlo_view,
}
VIEWS = tuple(_VIEWS)
DEFAULT_VIEWS = VIEWS[:8]

# views whose rows have an order of their own
_FIXED = {
    *("device", "overview", "model", "distributed", "operator", "allocations"),
    *("host_steps", "device_phases", "hlo"),
}

_WHERE_RECORDED: tuple[tuple[str, Callable[[TraceData], bool]], ...] = (
    ("allocations", has_allocations),
    ("host_steps", has_host_steps),
    ("device_phases", has_programs),
)


def summarize(
    explained: Explained,
    views: Sequence[str] | None = None,
    *,
    sorted_by: str = "gpu_total",
    op_detail: bool = False,
    thread_sep: bool = False,
    steps: Bounds | None = None,
    time: Bounds | None = None,
    rank: int | None = None,
) -> Report:
    """Return the chosen views of a trace.

    Args:
        explained: the trace.
        views: keys of VIEWS in printing order; by default the eight standard ones, and
            ``allocations``, ``host_steps`` and ``device_phases`` where an adapter recorded them.
        sorted_by: one of SORT_KEYS; ``_min`` sorts ascending, the others descending.
        op_detail: inner phases and kernels in the operator view.
        thread_sep: the operator view thread by thread.
        steps: first step and the one after the last.
        time: from and until, ns since the trace's zero.
        rank: one rank's processes only.

    Raises:
        UsageError: an unknown view or sort key, or a selection with nothing in it.
    """
    if views is None:
        views = (*DEFAULT_VIEWS, *(view for view, has in _WHERE_RECORDED if has(explained.trace)))
    _check(views, sorted_by)
    measures = Measures(explained, select(explained, steps=steps, time=time, rank=rank))
    tables = {}
    for key in views:
        if key == "operator":
            table = operator_view(
                measures, op_detail=op_detail, thread_sep=thread_sep, sorted_by=sorted_by
            )
        else:
            table = _VIEWS[key](measures)
        tables[key] = table if key in _FIXED else _sorted(table, sorted_by)
    return _report(measures, tables)


def list_ranges(
    explained: Explained,
    *,
    marks: bool = False,
    steps: Bounds | None = None,
    time: Bounds | None = None,
    rank: int | None = None,
) -> Report:
    """Return every range as a row of one table, ``"ranges"``; arguments as for ``summarize``."""
    measures = Measures(explained, select(explained, steps=steps, time=time, rank=rank))
    return _report(measures, {"ranges": ranges_table(measures, marks=marks)})


def _check(views: Sequence[str], sorted_by: str) -> None:
    unknown = [view for view in views if view not in _VIEWS]
    if unknown:
        raise UsageError(f"unknown view {unknown[0]!r}: choose from {', '.join(VIEWS)}")
    if sorted_by not in SORT_KEYS:
        raise UsageError(f"unknown sort key {sorted_by!r}: choose from {', '.join(SORT_KEYS)}")


def _sorted(table: ReportTable, sorted_by: str) -> ReportTable:
    """Return the rows by the chosen figure; the row of what is unattributed stays last."""
    if not len(table):
        return table
    order = sort_order(table.columns, sorted_by)
    rest = table.columns[0].values[order] == "unattributed"
    order = np.concatenate([order[~rest], order[rest]])
    return replace(table, columns=tuple(column.take(order) for column in table.columns))


def _report(measures: Measures, tables: dict[str, ReportTable]) -> Report:
    trace, selection = measures.trace, measures.selection
    totals = _totals(measures)
    notes = [*trace.notes, *figure_notes(measures)]
    return Report(
        tables=tables,
        totals=totals,
        notes=[{"code": note.code, "message": note.message} for note in notes],
        sources=[
            {
                "name": source.name,
                "product": source.product,
                "schema": source.schema,
                "offset_ns": source.offset_ns,
            }
            for source in trace.sources
        ],
        headline=_headline(measures, totals, bool(selection.steps.any())),
    )


def _totals(measures: Measures) -> dict[str, Any]:
    recorded = measures.trace.recorded.device
    by_how = measures.by_how
    return {
        "gpu_ns": int(by_how.sum()) if recorded else None,
        "attributed_gpu_ns": int(by_how[Attribution.THREAD]) if recorded else None,
        "inferred_gpu_ns": int(by_how[Attribution.INFERRED]) if recorded else None,
        "unattributed_gpu_ns": int(by_how[Attribution.NONE]) if recorded else None,
        "steps": int(measures.selection.steps.sum()),
        "window_ns": measures.selection.window_ns,
    }


def _headline(measures: Measures, totals: dict[str, Any], has_steps: bool) -> list[str]:
    trace = measures.trace
    names = ", ".join(
        f"{source.name} ({source.product or 'no version stated'})" for source in trace.sources
    )
    window = f"{totals['window_ns'] / 1e6:,.2f} ms"
    what = (
        f"{totals['steps']} step ranges, {window}"
        if has_steps
        else f"no steps found, window {window}"
    )
    lines = [
        names,
        f"{_counted(trace.processes, 'process', 'es')}, {_counted(trace.devices, 'GPU')}; {what}",
    ]
    gpu = totals["gpu_ns"]
    if gpu is None:
        lines.append("GPU time: not recorded")
    elif gpu:
        lines.append(
            f"GPU time {gpu / 1e6:,.2f} ms: "
            f"{totals['attributed_gpu_ns'] / gpu:.1%} in a range, "
            f"{totals['inferred_gpu_ns'] / gpu:.1%} inferred to a phase, "
            f"{totals['unattributed_gpu_ns'] / gpu:.1%} unattributed"
        )
    return lines


def _counted(things: Sequence[Any], name: str, plural: str = "s") -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else plural}"
