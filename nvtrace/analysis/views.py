"""The views: what each finds in the rows of a file, and the table made of what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from nvtrace.analysis.frame import Frame
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.summaries import (
    device,
    distributed,
    kernel,
    kernels_by_range,
    memory,
    model,
    operator,
    overview,
    user_defined,
)
from nvtrace.analysis.summaries.allocations import allocations_view, has_allocations
from nvtrace.analysis.summaries.columns import SORT_KEYS, sort_order
from nvtrace.analysis.summaries.hlo import device_phases_view, has_programs, hlo_view
from nvtrace.analysis.summaries.host_steps import has_host_steps, host_steps_view
from nvtrace.errors import UsageError
from nvtrace.model.trace import TraceData
from nvtrace.report import ReportTable


class _View(NamedTuple):
    """A view: what it finds in the rows of a file, and the table made of what was found."""

    gather: Callable[..., Any]
    table: Callable[..., ReportTable]


def _itself(measures: Measures) -> Measures:
    return measures


def _of_all_rows(view: Callable[[Measures], ReportTable]) -> _View:
    return _View(_itself, lambda measures, frame: view(measures))


_VIEWS: dict[str, _View] = {
    "device": _View(device.gather, device.table),
    "overview": _View(overview.gather, overview.table),
    "model": _View(model.gather, model.table),
    "distributed": _View(distributed.gather, distributed.table),
    "operator": _View(operator.gather, operator.table),
    "kernel": _View(kernel.gather, kernel.table),
    "memory": _View(memory.gather, memory.table),
    "user_defined": _View(user_defined.gather, user_defined.table),
    "kernels_by_range": _View(kernels_by_range.gather, kernels_by_range.table),
    "allocations": _of_all_rows(allocations_view),
    "host_steps": _of_all_rows(host_steps_view),
    "device_phases": _of_all_rows(device_phases_view),
    "hlo": _of_all_rows(hlo_view),
}
VIEWS = tuple(_VIEWS)
DEFAULT_VIEWS = VIEWS[:8]
APART = frozenset(key for key, view in _VIEWS.items() if view.gather is not _itself)
"""Views that gather file by file; the others look at all rows at once."""

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


class Plan(NamedTuple):
    """What tables are asked for, and how.

    Attributes:
        views: keys of VIEWS in printing order.
        sorted_by: one of SORT_KEYS; ``_min`` sorts ascending, the others descending.
        op_detail: inner phases and kernels in the operator view.
        thread_sep: the operator view thread by thread.
    """

    views: Sequence[str]
    sorted_by: str = "gpu_total"
    op_detail: bool = False
    thread_sep: bool = False

    def check(self) -> None:
        """Raise UsageError where there is no such view or key."""
        unknown = [view for view in self.views if view not in _VIEWS]
        if unknown:
            raise UsageError(f"unknown view {unknown[0]!r}: choose from {', '.join(VIEWS)}")
        if self.sorted_by not in SORT_KEYS:
            raise UsageError(
                f"unknown sort key {self.sorted_by!r}: choose from {', '.join(SORT_KEYS)}"
            )

    def gather(self, view: str, measures: Measures) -> Any:
        """Return what a view finds."""
        if view == "operator":
            return operator.gather(measures, op_detail=self.op_detail, thread_sep=self.thread_sep)
        return _VIEWS[view].gather(measures)

    def table(self, view: str, found: Any, frame: Frame) -> ReportTable:
        """Return the table of what a view found, sorted."""
        if view == "operator":
            return operator.table(found, frame, sorted_by=self.sorted_by)
        table = _VIEWS[view].table(found, frame)
        return table if view in _FIXED else _sorted(table, self.sorted_by)


def recorded_views(trace: TraceData) -> list[str]:
    """Return the views that come by themselves where an adapter recorded what they are of."""
    return [view for view, has in _WHERE_RECORDED if has(trace)]


def _sorted(table: ReportTable, sorted_by: str) -> ReportTable:
    """Return the rows by the chosen figure; the row of what is unattributed stays last."""
    if not len(table):
        return table
    order = sort_order(table.columns, sorted_by)
    rest = table.columns[0].values[order] == "unattributed"
    order = np.concatenate([order[~rest], order[rest]])
    return replace(table, columns=tuple(column.take(order) for column in table.columns))
