"""Model view: the phases of the steps, CPU and GPU."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.frame import Frame
from nvtrace.analysis.intervals import clipped, merged, sum_at, sum_by, union_by
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.parts import Figures, Groups
from nvtrace.analysis.summaries.columns import count, everywhere, figures, share, text
from nvtrace.analysis.summaries.overview import STEP_NAME
from nvtrace.model.arrays import among, contained, distinct, grouped, taken
from nvtrace.model.schema import PHASES, RangeKind, RangeStyle
from nvtrace.report import Column, ReportTable, Unit

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Found(NamedTuple):
    """Steps and phases: a phase within one of its own kind is a part of that one.

    Figures are of the CPU, phases of other kinds inside taken out, and of the GPU, inferred work
    included; the sum is how much of that was inferred from other threads.

    Attributes:
        steps: one group where there are steps, without a sum.
        phases: by RangeKind, those that start in a step.
        outside: likewise, those that start in none.
        threads: number of threads with phases.
        others_ns: time of the steps in no phase.
        guessed: kinds recognised by name alone.
    """

    steps: Groups
    phases: Groups
    outside: Groups
    threads: int
    others_ns: int
    guessed: frozenset[int]


def gather(measures: Measures) -> Found:
    """Return the steps, their phases, and phases in no step."""
    guessed = measures.explained.range_guessed & measures.selection.ranges
    phases, outside = _phases(measures)
    return Found(
        steps=_steps(measures),
        phases=phases,
        outside=outside,
        threads=_phase_threads(measures),
        others_ns=_others_ns(measures),
        guessed=frozenset(distinct(measures.explained.range_kind[guessed]).tolist()),
    )


def table(found: Found, frame: Frame) -> ReportTable:
    """Return the steps, their phases, and what is in no phase."""
    has_steps = frame.basis.steps > 0
    phases = found.phases if has_steps else found.outside
    order = [place for kind in PHASES for place in np.flatnonzero(phases.keys[:, 0] == kind)]
    phases = phases.take(np.array(order, np.int64))
    names = [RangeKind(kind).name.capitalize() for kind in phases.keys[:, 0].tolist()]
    cpu, gpu = phases.figures
    inferred = phases.sums[0]
    if has_steps:
        names = [STEP_NAME, *names, _OTHERS]
        step_cpu, step_gpu = found.steps.figures
        gpu_left = max(int(step_gpu.total.sum()) - int(gpu.total.sum()), 0)
        cpu = Figures.joined([step_cpu, cpu, _alone(found.others_ns)])
        gpu = Figures.joined([step_gpu, gpu, _alone(gpu_left)])
        inferred = np.concatenate([[0], inferred, [0]])
    bases = (
        (int(cpu.total[0]), int(gpu.total[0]))
        if has_steps
        else (frame.window_ns * found.threads, frame.gpu_ns)
    )
    columns = _columns(names, (cpu, gpu), bases, inferred, frame.trace.recorded.device)
    if not names:
        return ReportTable("model", "Model Summary", columns, empty=_NO_PHASES)
    return ReportTable(
        "model",
        "Model Summary",
        columns,
        indent=np.array([0, *[int(has_steps)] * (len(names) - 1)], np.int64),
        notes=_notes(found, phases, has_steps),
        whole=True,
    )


_OTHERS = "Others"
_NO_PHASES = (
    "no steps and no phases found: mark them with nvtrace.step() and nvtrace.phase(), use an "
    "adapter, or name your own ranges with --step-range NAME and --rule NAME=forward"
)


def _columns(
    names: list[str],
    sides: tuple[Figures, Figures],
    bases: tuple[int, int],
    inferred: I64,
    gpu_recorded: bool,
) -> tuple[Column, ...]:
    others = np.array([name == _OTHERS for name in names], np.bool_)
    always, recorded = everywhere(True, len(names)), everywhere(gpu_recorded, len(names))
    cpu, gpu = sides
    return (
        text("name", "Name", names),
        count("calls", "Calls", cpu.calls, ~others),
        *figures("cpu", cpu, share(cpu.total, bases[0]), always, spread_valid=~others),
        *figures("gpu", gpu, share(gpu.total, bases[1]), recorded, spread_valid=~others),
        Column(
            "inferred_gpu_ns",
            "GPU inferred",
            Unit.NS,
            inferred,
            recorded & ~others,
            shown=False,
        ),
    )


def _alone(total: int) -> Figures:
    """Return the figures of one row of which only a total is known."""
    zero, one = np.zeros(1, np.int64), np.array([total], np.int64)
    return Figures(zero, one, one, one, one)


def _phase_threads(measures: Measures) -> int:
    chosen = measures.selection.ranges & among(measures.explained.range_kind, PHASES)
    return len(distinct(measures.trace.ranges["thread"][chosen]))


def _steps(measures: Measures) -> Groups:
    """Return the figures of the steps: their times, and the GPU work launched in them."""
    explained = measures.explained
    steps = explained.step_rows[measures.selection.steps]
    gpu = sum_at(explained.call_step_row, measures.call_gpu, measures.trace.ranges.rows)[steps]
    keys, codes = grouped(np.zeros(len(steps), np.int64))
    sides = (measures.range_time(steps), gpu)
    return Groups(keys, tuple(Figures.of(codes, values, len(keys)) for values in sides))


def _phases(measures: Measures) -> tuple[Groups, Groups]:
    """Return the phases that start in a step, and the others."""
    explained, ranges = measures.explained, measures.trace.ranges
    rows = _phase_rows(measures)
    parent = explained.range_parent[rows]
    above = np.where(parent >= 0, explained.range_phase[np.maximum(parent, 0)], -1)
    inner = contained(above, rows)
    within, outer = rows[inner], np.searchsorted(rows, above[inner])
    hidden = union_by(outer, ranges["start"][within], ranges["end"][within], len(rows))
    merged_into = _instances(explained.range_kind, rows, above)
    instances, codes = np.unique(merged_into, return_inverse=True)
    cpu, gpu, inferred = (
        sum_by(codes, values, len(instances))
        for values in (
            measures.range_time(rows) - hidden,
            _phase_gpu(measures)[rows],
            measures.inferred[rows],
        )
    )
    counted = _in_steps(measures, instances)

    def groups(chosen: Mask) -> Groups:
        keys, codes = grouped(explained.range_kind[instances[chosen]])
        sides = tuple(Figures.of(codes, side[chosen], len(keys)) for side in (cpu, gpu))
        return Groups(keys, sides, (sum_by(codes, inferred[chosen], len(keys)),))

    return groups(counted), groups(~counted)


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


def _notes(found: Found, phases: Groups, has_steps: bool) -> tuple[str, ...]:
    notes = []
    if has_steps:
        notes.append(
            "Times are sums over steps, processes and threads; ratios are of ProfileStep, and none "
            "where threads add up to more. Others is the steps less the union of their phases."
        )
    else:
        notes.append(
            "No steps here. CPU ratios are of the window, times the threads that have phases; GPU "
            "ratios are of all GPU time."
        )
    notes.append(
        "GPU time is all device work launched in a phase, summed also where it overlaps; a phase "
        "inside another counts for itself alone."
    )
    if inferred := int(phases.sums[0].sum()):
        notes.append(
            f"{inferred / 1e6:,.2f} ms of GPU time was launched by threads without a range while "
            "one thread had a phase open (as autograd does), and is counted in that phase."
        )
    if has_steps and len(found.outside):
        cpu = found.outside.figures[0]
        notes.append(
            f"{int(cpu.calls.sum()):,} phases ({int(cpu.total.sum()) / 1e6:,.2f} ms) start outside "
            "the steps and are not counted."
        )
    if found.guessed:
        names = ", ".join(RangeKind(kind).name.lower() for kind in sorted(found.guessed))
        notes.append(f"Recognised by name alone: {names}.")
    return tuple(notes)
