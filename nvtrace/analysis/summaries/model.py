"""Model view: the phases of the steps, CPU and GPU."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.intervals import clipped, merged, sum_at, sum_by, union_by
from nvtrace.analysis.measures import Figures, Measures
from nvtrace.analysis.summaries.columns import count, everywhere, figures, share, text
from nvtrace.analysis.summaries.overview import STEP_NAME
from nvtrace.model.arrays import among, contained, distinct, taken
from nvtrace.model.schema import PHASES, RangeKind, RangeStyle
from nvtrace.report import Column, ReportTable, Unit

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class _Phases(NamedTuple):
    """Instances of phases: a phase within one of its own kind is a part of that one.

    Attributes:
        kind: RangeKind of each instance.
        cpu: ns of each instance, phases of other kinds inside it taken out.
        gpu: ns of GPU work of each instance, inferred work included.
        inferred: how much of ``gpu`` was inferred from other threads.
        outside: instances left out since they start outside the steps: count and ns.
    """

    kind: npt.NDArray[np.uint8]
    cpu: I64
    gpu: I64
    inferred: I64
    outside: tuple[int, int]


def model_view(measures: Measures) -> ReportTable:
    """Return the steps, their phases, and what is in no phase."""
    has_steps = bool(measures.selection.steps.any())
    phases = _phases(measures, within_steps=has_steps)
    rows: list[tuple[str, Figures, Figures, int]] = []
    if has_steps:
        steps = _step_figures(measures)
        rows.append((STEP_NAME, *steps, 0))
    for kind in PHASES:
        chosen = np.flatnonzero(phases.kind == kind)
        if len(chosen):
            zeros = np.zeros(len(chosen), np.int8)
            rows.append(
                (
                    kind.name.capitalize(),
                    Figures.of(zeros, phases.cpu[chosen], 1),
                    Figures.of(zeros, phases.gpu[chosen], 1),
                    int(phases.inferred[chosen].sum()),
                )
            )
    if not rows:
        return ReportTable("model", "Model Summary", _columns(measures, [], 0), empty=_NO_PHASES)
    if has_steps:
        gpu_left = max(int(rows[0][2].total[0]) - int(phases.gpu.sum()), 0)
        rows.append(("Others", _total(_others_ns(measures)), _total(gpu_left), 0))
    return ReportTable(
        "model",
        "Model Summary",
        _columns(measures, rows, measures.selection.window_ns),
        indent=np.array([0, *[1] * (len(rows) - 1)] if has_steps else [0] * len(rows), np.int64),
        notes=_notes(measures, phases, has_steps),
        whole=True,
    )


_NO_PHASES = (
    "no steps and no phases found: mark them with nvtrace.step() and nvtrace.phase(), use an "
    "adapter, or name your own ranges with --step-range NAME and --rule NAME=forward"
)


def _columns(
    measures: Measures, rows: list[tuple[str, Figures, Figures, int]], window_ns: int
) -> tuple[Column, ...]:
    names = [row[0] for row in rows]
    others = np.array([name == "Others" for name in names], np.bool_)
    cpu, gpu = _stacked([row[1] for row in rows]), _stacked([row[2] for row in rows])
    with_steps = bool(rows) and names[0] == STEP_NAME
    cpu_base = int(cpu.total[0]) if with_steps else window_ns * _phase_threads(measures)
    gpu_base = int(gpu.total[0]) if with_steps else int(measures.device_time.sum())
    recorded = measures.trace.recorded.device
    inferred = np.array([row[3] for row in rows], np.int64)
    cpu_columns = figures(
        "cpu", cpu, share(cpu.total, cpu_base), everywhere(True, len(rows)), spread_valid=~others
    )
    gpu_columns = figures(
        "gpu",
        gpu,
        share(gpu.total, gpu_base),
        everywhere(recorded, len(rows)),
        spread_valid=~others,
    )
    return (
        text("name", "Name", names),
        count("calls", "Calls", cpu.calls, ~others),
        *cpu_columns,
        *gpu_columns,
        Column(
            "inferred_gpu_ns",
            "GPU inferred",
            Unit.NS,
            inferred,
            everywhere(recorded, len(rows)) & ~others,
            shown=False,
        ),
    )


def _phase_threads(measures: Measures) -> int:
    chosen = measures.selection.ranges & among(measures.explained.range_kind, PHASES)
    return len(distinct(measures.trace.ranges["thread"][chosen]))


def _stacked(parts: list[Figures]) -> Figures:
    empty = [np.empty(0, np.int64)]
    return Figures(
        np.concatenate([part.calls for part in parts] or empty),
        np.concatenate([part.total for part in parts] or empty),
        np.concatenate([part.maximum for part in parts] or empty),
        np.concatenate([part.minimum for part in parts] or empty),
    )


def _total(value: int) -> Figures:
    one = np.array([value], np.int64)
    return Figures(np.zeros(1, np.int64), one, one, one)


def _step_figures(measures: Measures) -> tuple[Figures, Figures]:
    """Return the figures of the steps: their times, and the GPU work launched in them."""
    explained = measures.explained
    steps = explained.step_rows[measures.selection.steps]
    zeros = np.zeros(len(steps), np.int8)
    gpu = sum_at(explained.call_step_row, measures.call_gpu, measures.trace.ranges.rows)[steps]
    return Figures.of(zeros, measures.range_time(steps), 1), Figures.of(zeros, gpu, 1)


def _phases(measures: Measures, *, within_steps: bool) -> _Phases:
    explained, ranges = measures.explained, measures.trace.ranges
    rows = _phase_rows(measures)
    parent = explained.range_parent[rows]
    above = np.where(parent >= 0, explained.range_phase[np.maximum(parent, 0)], -1)
    inner = contained(above, rows)
    within, outer = rows[inner], np.searchsorted(rows, above[inner])
    hidden = union_by(outer, ranges["start"][within], ranges["end"][within], len(rows))
    merged_into = _instances(explained.range_kind, rows, above)
    gpu = _phase_gpu(measures)
    instances, codes = np.unique(merged_into, return_inverse=True)
    count_ = len(instances)
    cpu_of = sum_by(codes, measures.range_time(rows) - hidden, count_)
    counted = np.ones(count_, np.bool_)
    if within_steps:
        counted = _in_steps(measures, instances)
    return _Phases(
        kind=explained.range_kind[instances[counted]],
        cpu=cpu_of[counted],
        gpu=sum_by(codes, gpu[rows], count_)[counted],
        inferred=sum_by(codes, measures.inferred[rows], count_)[counted],
        outside=(int((~counted).sum()), int(cpu_of[~counted].sum())),
    )


def _phase_rows(measures: Measures) -> I64:
    """Return the rows of the phases that are selected."""
    chosen = measures.selection.ranges & among(measures.explained.range_kind, PHASES)
    return np.flatnonzero(chosen & (measures.trace.ranges["style"] != RangeStyle.MARK))


def _in_steps(measures: Measures, rows: I64) -> Mask:
    """Return which ``rows`` of ranges start in a step that is counted."""
    explained, ranges = measures.explained, measures.trace.ranges
    process = measures.trace.threads["process"].astype(np.int64)
    steps = measures.selection.steps
    of_step = process[ranges["thread"][explained.step_rows[steps]]]
    counted = of_step << 32 | explained.step_numbers[steps]
    of_row = process[ranges["thread"][rows]]
    return contained(of_row << 32 | explained.steps_of(rows), counted)


def _instances(kinds: npt.NDArray[np.uint8], rows: I64, above: I64) -> I64:
    """Return for each phase the outermost phase it belongs to: up while the kind stays the same."""
    same = (above >= 0) & (kinds[np.maximum(above, 0)] == kinds[rows])
    phases = distinct(np.concatenate([rows, above[same]]))
    into = np.arange(len(phases))
    into[np.searchsorted(phases, rows[same])] = np.searchsorted(phases, above[same])
    while True:
        further = into[into]
        if (further == into).all():
            found: I64 = phases[into[np.searchsorted(phases, rows)]]
            return found
        into = further


def _phase_gpu(measures: Measures) -> I64:
    """Return GPU time of each phase, phases inside it excluded, inferred work included, ns.

    GPU work that the steps do not count is left out where there are steps.
    """
    explained = measures.explained
    phase, steps = explained.call_phase, explained.step_rows[measures.selection.steps]
    ranges = measures.trace.ranges
    if len(steps):
        counted = np.zeros(ranges.rows, np.bool_)
        counted[steps] = True
        phase = np.where(taken(counted, explained.call_step_row, False), phase, np.int32(-1))
    return sum_at(phase, measures.call_gpu, ranges.rows)


def _others_ns(measures: Measures) -> int:
    """Return the time of the steps less the union of their phases, process by process."""
    explained, ranges = measures.explained, measures.trace.ranges
    process = measures.trace.threads["process"]
    steps = explained.step_rows[measures.selection.steps]
    phases = _phase_rows(measures)
    phases = phases[_in_steps(measures, phases)]
    left = 0
    of_step, of_phase = (process[ranges["thread"][rows]] for rows in (steps, phases))
    for one in distinct(of_step).tolist():
        here = steps[of_step == one]
        window = merged(ranges["start"][here], ranges["end"][here])
        rows = phases[of_phase == one]
        pieces = clipped(ranges["start"][rows], ranges["end"][rows], window)
        left += int((window[1] - window[0]).sum() - (pieces[1] - pieces[0]).sum())
    return left


def _notes(measures: Measures, phases: _Phases, has_steps: bool) -> tuple[str, ...]:
    found = []
    if has_steps:
        found.append(
            "Times are sums over steps, processes and threads; ratios are of ProfileStep, and none "
            "where threads add up to more. Others is the steps less the union of their phases."
        )
    else:
        found.append(
            "No steps here. CPU ratios are of the window, times the threads that have phases; GPU "
            "ratios are of all GPU time."
        )
    found.append(
        "GPU time is all device work launched in a phase, summed also where it overlaps; a phase "
        "inside another counts for itself alone."
    )
    if inferred := int(phases.inferred.sum()):
        found.append(
            f"{inferred / 1e6:,.2f} ms of GPU time was launched by threads without a range while "
            "one thread had a phase open (as autograd does), and is counted in that phase."
        )
    if phases.outside[0]:
        found.append(
            f"{phases.outside[0]:,} phases ({phases.outside[1] / 1e6:,.2f} ms) start outside the "
            "steps and are not counted."
        )
    guessed = measures.explained.range_guessed & measures.selection.ranges
    kinds = distinct(measures.explained.range_kind[guessed]).tolist()
    if kinds:
        names = ", ".join(RangeKind(kind).name.lower() for kind in kinds)
        found.append(f"Recognised by name alone: {names}.")
    return tuple(found)
