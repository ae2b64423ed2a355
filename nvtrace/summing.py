"""Summaries of several reports, read one after the other: none is held while the next is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from nvtrace.analysis.classification import parse_rules
from nvtrace.analysis.file_by_file import NeedsAllRows, tabulated_in_turn
from nvtrace.analysis.selection import Bounds
from nvtrace.analysis.views import DEFAULT_VIEWS, Plan
from nvtrace.loading import PathLike, Progress, each, load, reports
from nvtrace.model.trace import TraceData
from nvtrace.report import Report
from nvtrace.trace import Rules


def summarize(
    path: PathLike | Sequence[PathLike],
    views: Sequence[str] | str | None = None,
    *,
    sorted_by: str = "gpu_total",
    top: int | None = None,
    op_detail: bool = False,
    thread_sep: bool = False,
    steps: Bounds | None = None,
    time: Bounds | None = None,
    rank: int | None = None,
    step_range: Iterable[str] = (),
    rules: Rules = (),
    progress: Progress | None = None,
) -> Report:
    """Return what ``load(path).summary(...)`` does: of several reports, in the memory of one.

    All are held at once for ``time``, for the views ``allocations``, ``host_steps``,
    ``device_phases`` and ``hlo``, and where steps are told by name in one report and marked in
    another. Rows of equal figures may come in another order.

    Args:
        path: as for ``load``.
        views: as for ``Trace.summary``, and so are those that follow.
        sorted_by: see there.
        top: see there.
        op_detail: see there.
        thread_sep: see there.
        steps: see there.
        time: see there.
        rank: see there.
        step_range: see there.
        rules: see there.
        progress: as for ``load``.

    Raises:
        UsageError: as ``Trace.summary`` does.
        SourceError: as ``load`` does.
    """
    files, names, parsed = reports(path), tuple(step_range), parse_rules(rules)
    shown: dict[str, Any] = {
        "sorted_by": sorted_by,
        "op_detail": op_detail,
        "thread_sep": thread_sep,
    }
    chosen: dict[str, Any] = {"steps": steps, "rank": rank, "rules": parsed, "step_range": names}
    report = None
    if len(files) > 1 and time is None:
        report = _in_turn(each(files, False, progress), views, shown, chosen)
    if report is None:
        trace = load(files, details=False, progress=progress)
        report = trace.summary(views, time=time, **shown, **chosen)
    return report if top is None else report.head(top)


def _in_turn(
    traces: Iterable[TraceData],
    views: Sequence[str] | str | None,
    shown: Mapping[str, Any],
    chosen: Mapping[str, Any],
) -> Report | None:
    """Return the summary of traces that come one by one, None where it takes all at once."""
    wanted = [views] if isinstance(views, str) else views
    plan = Plan(DEFAULT_VIEWS if wanted is None else wanted, **shown)
    plan.check()
    with suppress(NeedsAllRows):
        return tabulated_in_turn(traces, plan, recorded=views is None, **chosen)[1]
    return None
