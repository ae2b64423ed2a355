"""What of one run is compared with others: a few small tables, however large the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.classification import Rule
from nvtrace.analysis.file_by_file import tabulated_in_turn
from nvtrace.analysis.frame import Frame
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.reporting import tabulated
from nvtrace.analysis.selection import Bounds, select
from nvtrace.analysis.views import Plan
from nvtrace.model.explained import Explained
from nvtrace.model.trace import TraceData
from nvtrace.report import Report, ReportTable

I64 = npt.NDArray[np.int64]

VIEWS = ("steps", "phases", "device", "kernel", "memory", "operator", "user_defined")

_SUMMARIES = {
    "phases": "model",
    "kernel": "kernel",
    "memory": "memory",
    "operator": "operator",
    "user_defined": "user_defined",
}
ON_GPU = ("kernel", "memory")
KEYS = {
    "phases": ("name",),
    "kernel": ("name",),
    "memory": ("name",),
    "operator": ("name",),
    "user_defined": ("name", "domain", "style"),
}


class Figures(NamedTuple):
    """Sums, or averages over steps, None where not recorded: a number, and ns."""

    calls: float | None
    cpu: float | None
    gpu: float | None


@dataclass(frozen=True)
class Digest:
    """What of one run is compared: small, however large the run.

    Attributes:
        steps: ns of each step, the longest of the processes that took part.
        whole: whether the figures are of all of the run, not of these steps alone.
        figures: by view and name.
        gpu_recorded: whether GPU work was.
        ranges_recorded: whether ranges were.
        gpus: number of GPUs, the time that they were busy, and the length of the window of each.
        report: notes, sources and headline.
    """

    steps: I64
    whole: bool
    figures: Mapping[str, Mapping[tuple[str, ...], Figures]]
    gpu_recorded: bool
    ranges_recorded: bool
    gpus: tuple[int, int, int]
    report: Report

    def holds(self, view: str) -> bool:
        """Return whether the run could have held rows of a view: then there being none is zero."""
        return self.gpu_recorded if view in ON_GPU else self.ranges_recorded


def digest(
    explained: Explained,
    views: Sequence[str] = VIEWS,
    *,
    whole: bool = False,
    steps: Bounds | None = None,
    time: Bounds | None = None,
    rank: int | None = None,
) -> Digest:
    """Return what of a run is compared.

    Args:
        explained: the run.
        views: which of VIEWS will be asked for.
        whole: take all of the run also where it has steps.
        steps: as for a summary; so are the rest.
        time: from and until, ns since the trace's zero.
        rank: one rank's processes only.
    """
    if steps is None and not whole and select(explained, time=time, rank=rank).steps.any():
        steps = (None, None)
    measures = Measures(explained, select(explained, steps=steps, time=time, rank=rank))
    return _digest(*tabulated(measures, _plan(views)), views, whole)


def digest_in_turn(
    traces: Iterable[TraceData],
    views: Sequence[str] = VIEWS,
    *,
    whole: bool = False,
    steps: Bounds | None = None,
    rank: int | None = None,
    rules: Sequence[Rule] = (),
    step_range: Sequence[str] = (),
) -> Digest:
    """Return what of a run of several files is compared, in the memory of one.

    Args:
        traces: come one by one, and none is held while the next is made.
        views: as for ``digest``, and so are the rest.
        whole: see there.
        steps: see there.
        rank: see there.
        rules: classification rules of the user's own, tried first.
        step_range: names of the ranges that are steps, instead of those recognised.

    Raises:
        NeedsAllRows: something in the traces does.
    """
    found = tabulated_in_turn(
        traces,
        _plan(views),
        in_steps=steps is None and not whole,
        steps=steps,
        rank=rank,
        rules=rules,
        step_range=step_range,
    )
    return _digest(*found, views, whole)


def _plan(views: Sequence[str]) -> Plan:
    return Plan(["device", *(summary for view, summary in _SUMMARIES.items() if view in views)])


def _digest(frame: Frame, report: Report, views: Sequence[str], whole: bool) -> Digest:
    recorded = frame.trace.recorded
    gpus = [row for row in report["device"] if not row["device"].startswith("CPU(")]
    return Digest(
        steps=frame.basis.step_times.figures[0].maximum,
        whole=whole or not frame.basis.steps,
        figures={
            view: _summed(report[summary], KEYS[view])
            for view, summary in _SUMMARIES.items()
            if view in views
        },
        gpu_recorded=recorded.device,
        ranges_recorded=recorded.ranges,
        gpus=(
            len(gpus),
            sum(row["busy_ns"] for row in gpus),
            sum(row["window_ns"] for row in gpus),
        ),
        report=Report({}, report.totals, report.notes, report.sources, report.headline),
    )


def _summed(table: ReportTable, keys: Sequence[str]) -> dict[tuple[str, ...], Figures]:
    """Return the figures of a view by name, added up over processes."""
    found: dict[tuple[str, ...], Figures] = {}
    for row in table:
        key = tuple(row[key] or "" for key in keys)
        own = Figures(row.get("calls"), row.get("cpu_total_ns"), row.get("gpu_total_ns"))
        found[key] = own if key not in found else Figures(*map(_plus, found[key], own))
    return found


def _plus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
