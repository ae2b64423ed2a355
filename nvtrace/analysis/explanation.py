"""From a trace to an Explained: every derived column, each computed once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.attribution import (
    OpenRanges,
    attributed,
    capturing_ranges,
    launching_calls,
    nearest_of,
)
from nvtrace.analysis.classification import DOMAIN, Rule, classify
from nvtrace.analysis.gathering import Derived, gathered
from nvtrace.analysis.intervals import sum_at
from nvtrace.analysis.nesting import Nest
from nvtrace.errors import UsageError
from nvtrace.model.arrays import among, distinct, taken
from nvtrace.model.explained import Explained
from nvtrace.model.schema import PHASES, Attribution, PayloadType, RangeFlag, RangeKind, RangeStyle
from nvtrace.model.table import Table
from nvtrace.model.trace import TraceData

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_NUMBER = re.compile(r"(\d+)\D*$")


def explain(
    trace: TraceData,
    *,
    rules: Sequence[Rule] = (),
    step_names: Iterable[str] = (),
    whole: bool = True,
) -> Explained:
    """Return the trace with its ranges nested and classified, and its GPU work attributed.

    Args:
        trace: what a source read.
        rules: classification rules of the user's own, tried first.
        step_names: names of the ranges that are steps, instead of those recognised.
        whole: whether the trace is all there is: else steps may be in another file.

    Raises:
        UsageError: no range has any of ``step_names``.
    """
    step_names = tuple(step_names)
    classified = classify(trace, rules, step_names)
    columns, levels, steps = gathered(
        trace, lambda file, rows: _derived(file, classified.kind[rows])
    )
    if whole:
        check_named(step_names, len(columns["step_rows"]))
    return Explained(
        trace=trace,
        **columns,
        range_kind=classified.kind,
        range_guessed=classified.guessed,
        range_name=classified.name,
        range_attributes=classified.attributes,
        range_levels=levels,
        step_numbers=_step_numbers(trace, columns["step_rows"], classified.name),
        step_open=steps.anywhere,
    )


def _derived(trace: TraceData, kind: npt.NDArray[np.uint8]) -> Derived:
    """Return what is derived of a file, whose ranges are of these kinds."""
    ranges, calls, device = trace.ranges, trace.calls, trace.device
    nest = _nest(trace, np.flatnonzero(ranges["style"] == RangeStyle.PUSH_POP))
    nested, levels = _nested(trace, nest), nest.levels()
    parent = nested["range_parent"]
    process = trace.threads["process"]
    timed = ranges["style"] != RangeStyle.MARK
    step_rows = np.flatnonzero(timed & (kind == RangeKind.STEP))
    step_rows = _not_beside(_outermost(step_rows, parent), ranges)
    steps = OpenRanges.build(step_rows, ranges, process)
    phase_rows = np.flatnonzero(timed & among(kind, PHASES))
    phases = OpenRanges.build(phase_rows, ranges, process)
    range_phase = nearest_of(_mask(ranges.rows, phase_rows), parent, levels)
    call_range = nest.innermost(calls["thread"], calls["start"], calls["end"])
    around = taken(range_phase, call_range)
    beside = _nest(trace, phase_rows[ranges["style"][phase_rows] == RangeStyle.START_END])
    call_phase, inferred, step_row = _places(calls, around, beside, phases, steps)
    device_call = launching_calls(calls, device)
    target, how = attributed(call_range, inferred)
    columns = {
        **nested,
        "range_phase": range_phase,
        "call_range": call_range,
        "call_phase": call_phase,
        "call_step_row": step_row,
        "device_call": device_call,
        "device_range": taken(target, device_call),
        "device_how": taken(how, device_call, Attribution.NONE),
        "device_capture": capturing_ranges(device, trace.graph_nodes, nest),
        "step_rows": step_rows.astype(np.int32),
    }
    return Derived(columns, levels, steps)


def check_named(step_names: Sequence[str], steps: int) -> None:
    """Raise UsageError where there is no step among the ranges named."""
    if step_names and not steps:
        raise UsageError(f"no range is named {' or '.join(map(repr, step_names))}: no steps")


def _nested(trace: TraceData, nest: Nest) -> dict[str, Any]:
    """Return the columns of Explained that the nest decides."""
    ranges = trace.ranges
    parent = np.full(ranges.rows, -1, np.int32)
    flags = ranges["flags"]
    crossing = nest.crossing()
    parent[nest.rows] = taken(nest.rows, nest.parent)
    self_time = ranges["end"] - ranges["start"]
    if crossing.any():
        flags = flags.copy()
        flags[nest.rows[crossing]] |= np.uint8(RangeFlag.CROSSING)
        self_time[nest.rows] = nest.self_time(crossing)
    else:
        self_time -= sum_at(parent, self_time, ranges.rows)
    return {
        "range_parent": parent,
        "range_self": self_time,
        "range_flags": flags,
    }


def _places(
    calls: Table, around: I32, beside: Nest, phases: OpenRanges, steps: OpenRanges
) -> tuple[I32, I32, I32]:
    """Return the rows of phase, inferred phase and step that each call belongs to, -1 none.

    Args:
        calls: the table.
        around: row of the phase around the owner of each call, -1 none.
        beside: phases that stand beside the nest.
        phases: all phases.
        steps: all steps.
    """
    process, thread, start = calls["process"], calls["thread"], calls["start"]
    own_step, step_elsewhere = steps.at(process, thread, start)
    inferred = np.full(calls.rows, -1, np.int32)
    # a thread in a step of its own, between phases, does not work for another thread's phase
    asked = np.flatnonzero((around < 0) & (own_step < 0))
    inferred[asked] = phases.at(process[asked], thread[asked], start[asked])[1]
    phase = np.maximum(around, inferred)
    if len(beside.rows):
        containing = beside.innermost(thread, start, calls["end"])
        phase = np.where((around < 0) & (containing >= 0), containing, phase)
    return phase, inferred, np.maximum(own_step, step_elsewhere)


def _nest(trace: TraceData, rows: I64) -> Nest:
    thread = trace.ranges["thread"][rows]
    return Nest.build(rows, thread, trace.ranges["start"][rows], trace.ranges["end"][rows])


def _outermost(rows: I64, parent: I32) -> I64:
    """Return those of ``rows`` with none of them above: a step in a step is a part of it."""
    chosen = _mask(len(parent), rows)
    inner = np.zeros(len(rows), np.bool_)
    above = parent[rows]
    climbing = np.flatnonzero(above >= 0)
    while len(climbing):
        found = chosen[above[climbing]]
        inner[climbing[found]] = True
        above[climbing] = parent[above[climbing]]
        climbing = climbing[~found & (above[climbing] >= 0)]
    return rows[~inner]


def _not_beside(rows: I64, ranges: Table) -> I64:
    """Leave out steps of the nest that lie in one beside it on their thread, a Profiler's say."""
    beside = ranges["style"][rows] == RangeStyle.START_END
    inner = np.zeros(len(rows), np.bool_)
    start, end, thread = (ranges[name][rows] for name in ("start", "end", "thread"))
    for one in distinct(thread[beside]):
        outer, nested = beside & (thread == one), np.flatnonzero(~beside & (thread == one))
        latest = np.maximum.accumulate(end[outer])  # of those that start no later
        place = np.searchsorted(start[outer], start[nested], "right") - 1
        inner[nested] = (place >= 0) & (end[nested] <= latest[place])
    return rows[~inner]


def _mask(count: int, rows: I64) -> npt.NDArray[np.bool_]:
    mask = np.zeros(count, np.bool_)
    mask[rows] = True
    return mask


def _step_numbers(trace: TraceData, rows: I32, names: I32) -> I64:
    """Return the number of each step: its payload, the number in its name, or its place.

    The payload counts in nvtrace's own domain only; elsewhere it may mean anything. Places count
    within the process, from 0, when any step of the process has no number of its own, or all
    names state the same.
    """
    ranges = trace.ranges
    numbers = np.full(len(rows), -1, np.int64)
    by_name = np.zeros(len(rows), np.bool_)
    texts = trace.strings.take(names[rows])
    own = np.array([domain.name == DOMAIN for domain in trace.domains], np.bool_)
    counts = among(ranges["payload_type"][rows], (PayloadType.INT, PayloadType.UINT))
    counts &= own[ranges["domain"][rows]]
    numbers[counts] = ranges["payload"][rows[counts]]
    for place in np.flatnonzero(~counts).tolist():
        if found := _NUMBER.search(texts[place]):
            numbers[place] = int(found[1][:18])
            by_name[place] = True
    numbers[numbers > np.iinfo(np.int32).max] = -1
    thread = ranges["thread"][rows]
    process = trace.threads["process"][thread]
    for one in distinct(process).tolist():
        here = np.flatnonzero(process == one)
        # a name that repeats on a thread with the same number in it (train_v2) counts nothing
        repeats = len(here) > len(distinct(thread[here])) and by_name[here].all()
        if (numbers[here] < 0).any() or (repeats and len(distinct(numbers[here])) == 1):
            numbers[here] = np.arange(len(here))
    return numbers
