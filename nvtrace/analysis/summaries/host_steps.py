"""Host view of steps: what the thread that runs a step was busy with, or waiting for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.attribution import nearest_of
from nvtrace.analysis.intervals import by_start, sum_by, union_by
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.summaries.columns import text, time
from nvtrace.analysis.summaries.user_defined import process_label
from nvtrace.model.arrays import among
from nvtrace.model.schema import RangeKind, RangeStyle
from nvtrace.model.table import Table
from nvtrace.model.trace import TraceData
from nvtrace.report import ReportTable

I64 = npt.NDArray[np.int64]

# key of the column, and its title
_PARTS = {
    RangeKind.DATALOADER: ("dataloader_ns", "Dataloader"),
    RangeKind.H2D: ("host_to_device_ns", "H2D"),
    RangeKind.DISPATCH: ("dispatch_ns", "Dispatch"),
    RangeKind.COMPILE: ("compile_ns", "Compile"),
    RangeKind.SYNC: ("sync_ns", "Sync"),
    RangeKind.D2H: ("device_to_host_ns", "D2H"),
}
ALL = "all"


def has_host_steps(trace: TraceData) -> bool:
    """Return whether an adapter marked dispatches, which this view is about."""
    row = trace.categories.index("dispatch") if "dispatch" in trace.categories else -1
    return row >= 0 and bool((trace.ranges["category"] == row).any())


def host_steps_view(measures: Measures) -> ReportTable:
    """Return one row a step, and one for all: host time of each part, adding up to the step."""
    explained, ranges = measures.explained, measures.trace.ranges
    rows = explained.step_rows[measures.selection.steps]
    steps = by_start(ranges, rows).astype(np.int64)
    numbers = explained.step_numbers[np.searchsorted(explained.step_rows, steps)]
    wall = ranges["end"][steps] - ranges["start"][steps]
    kinds, owners, own = _own_times(measures, steps)
    parts = []
    for kind in _PARTS:
        chosen = kinds == kind
        parts.append(sum_by(owners[chosen], own[chosen], len(steps)))
    other = wall - np.sum(parts, axis=0, dtype=np.int64)
    columns = {
        **dict(zip(_PARTS.values(), parts, strict=True)),
        ("other_ns", "Other"): other,
        ("wall_ns", "Wall"): wall,
    }
    process = measures.trace.threads["process"][ranges["thread"][steps]]
    labels = [process_label(measures.trace, row) for row in process.tolist()]
    several = len(set(labels)) > 1
    names = [str(number) for number in numbers.tolist()]
    some = len(names) > 0
    return ReportTable(
        "host_steps",
        "Host Step Summary",
        (
            text("process", "Process", [ALL, *labels] if some else [], shown=several),
            text("step", "Step", [ALL, *names] if some else []),
            *(
                time(key, title, np.append(values.sum(), values)[: None if some else 0])
                for (key, title), values in columns.items()
            ),
        ),
        notes=(
            "Host time on the thread that runs the step, each nanosecond in the innermost part "
            "alone; the parts and Other add up to Wall. Dispatch is the call of a jitted function, "
            "which returns before the device is done; Sync is waiting for it.",
        ),
        empty="no steps here: call step() after each step, or name their ranges with --step-range",
    )


def _own_times(
    measures: Measures, steps: I64
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.intp], I64]:
    """Return kind, place of the step and time without inner parts of what lies in each step."""
    explained, ranges = measures.explained, measures.trace.ranges
    wanted = among(explained.range_kind, _PARTS) & (ranges["style"] == RangeStyle.PUSH_POP)
    rows = by_start(ranges, np.flatnonzero(wanted))
    parent = explained.range_parent[rows]
    nearest = nearest_of(wanted, explained.range_parent, explained.range_levels)
    above = np.where(parent >= 0, nearest[np.maximum(parent, 0)], -1)
    piece_row, piece_step = _pieces(ranges, rows, steps)
    row = rows[piece_row]
    start = np.maximum(ranges["start"][row], ranges["start"][steps[piece_step]])
    end = np.minimum(ranges["end"][row], ranges["end"][steps[piece_step]])
    width = max(len(steps), 1)
    keys = row * width + piece_step
    order = np.argsort(keys)
    outer = above[piece_row].astype(np.int64)
    wants = outer * width + piece_step
    place = np.minimum(np.searchsorted(keys, wants, sorter=order), max(len(keys) - 1, 0))
    inner = np.flatnonzero((outer >= 0) & (keys[order[place]] == wants) if len(keys) else [])
    hidden = union_by(order[place[inner]], start[inner], end[inner], len(keys))
    return explained.range_kind[row], piece_step, end - start - hidden


def _pieces(
    ranges: Table, rows: npt.NDArray[np.intp], steps: I64
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return pairs (place in ``rows``, place in ``steps``) that overlap on one thread."""
    found_rows, found_steps = [], []
    starts, ends, threads = (ranges[name][rows] for name in ("start", "end", "thread"))
    of_step = ranges["thread"][steps]
    for place, step in enumerate(steps.tolist()):
        first, last = ranges["start"][step], ranges["end"][step]
        upto = np.searchsorted(starts, last)
        there = np.flatnonzero((ends[:upto] > first) & (threads[:upto] == of_step[place]))
        found_rows.append(there)
        found_steps.append(np.full(len(there), place))
    if not found_rows:
        return np.empty(0, np.intp), np.empty(0, np.intp)
    return np.concatenate(found_rows), np.concatenate(found_steps)
