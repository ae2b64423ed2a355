"""From an explained trace to reports: tables, totals, and what a reader should know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvtrace.analysis import checks
from nvtrace.analysis.frame import Frame
from nvtrace.analysis.listing import ranges_table
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.selection import Bounds, select
from nvtrace.analysis.views import DEFAULT_VIEWS, Plan, recorded_views
from nvtrace.model.explained import Explained
from nvtrace.model.schema import Attribution
from nvtrace.model.trace import TraceData
from nvtrace.report import Report, ReportTable


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
        views = (*DEFAULT_VIEWS, *recorded_views(explained.trace))
    plan = Plan(views, sorted_by, op_detail, thread_sep)
    plan.check()
    measures = Measures(explained, select(explained, steps=steps, time=time, rank=rank))
    return tabulated(measures, plan)[1]


def tabulated(measures: Measures, plan: Plan) -> tuple[Frame, Report]:
    """Return the tables that are asked for, and what they are of."""
    frame = Frame.of(measures)
    tables = {key: plan.table(key, plan.gather(key, measures), frame) for key in plan.views}
    return frame, report(frame, checks.gather(measures), tables)


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
    tables = {"ranges": ranges_table(measures, marks=marks)}
    return report(Frame.of(measures), checks.gather(measures), tables)


def report(frame: Frame, signs: checks.Signs, tables: dict[str, ReportTable]) -> Report:
    """Return the tables with what is said of the trace as a whole."""
    trace = frame.trace
    totals = _totals(frame)
    notes = [*trace.notes, *checks.figure_notes(signs, frame)]
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
        headline=_headline(trace, totals),
    )


def _totals(frame: Frame) -> dict[str, Any]:
    recorded = frame.trace.recorded.device
    by_how = frame.basis.by_how
    return {
        "gpu_ns": int(by_how.sum()) if recorded else None,
        "attributed_gpu_ns": int(by_how[Attribution.THREAD]) if recorded else None,
        "inferred_gpu_ns": int(by_how[Attribution.INFERRED]) if recorded else None,
        "unattributed_gpu_ns": int(by_how[Attribution.NONE]) if recorded else None,
        "steps": frame.basis.steps,
        "window_ns": frame.window_ns,
    }


def _headline(trace: TraceData, totals: dict[str, Any]) -> list[str]:
    names = ", ".join(
        f"{source.name} ({source.product or 'no version stated'})" for source in trace.sources
    )
    window = f"{totals['window_ns'] / 1e6:,.2f} ms"
    what = (
        f"{totals['steps']} step ranges, {window}"
        if totals["steps"]
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
