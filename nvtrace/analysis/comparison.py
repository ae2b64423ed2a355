"""Runs beside one another: what a change did to steps, phases, kernels, operators and ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.digest import KEYS, ON_GPU, VIEWS, Digest, Figures
from nvtrace.analysis.shift import Shift, shift
from nvtrace.analysis.summaries.columns import count, percent, text, time
from nvtrace.errors import UsageError
from nvtrace.model.trace import Note
from nvtrace.report import Column, Report, ReportTable, Unit

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

SAME_PERCENT = 1.0
BEFORE = "before"
SLOWER, FASTER, SAME, INCONCLUSIVE = "slower", "faster", "same", "inconclusive"

_TITLES = {
    "phases": "Phase Comparison",
    "kernel": "Kernel Comparison",
    "memory": "Memory Manipulation Comparison",
    "operator": "Operator Comparison",
    "user_defined": "UserDefined Comparison",
}
_NONE = Figures(None, None, None)
_NO_ROW = Figures(0, 0, 0)


def check_views(views: Sequence[str]) -> None:
    """Refuse what is none of VIEWS.

    Raises:
        UsageError: it names them.
    """
    for view in views:
        if view not in VIEWS:
            raise UsageError(f"unknown view {view!r}: choose from {', '.join(VIEWS)}")


def comparison(runs: Sequence[Digest], views: Sequence[str] = VIEWS) -> Report:
    """Return how each run differs from the first.

    Figures are per step where all runs were asked about their steps, else sums.

    Args:
        runs: two or more.
        views: of VIEWS, in printing order.
    """
    labels = [BEFORE, *_later(len(runs) - 1)]
    per_step = not any(run.whole for run in runs)
    changes = [None, *(_step_change(runs[0].steps, run.steps) for run in runs[1:])]
    tables = {}
    for view in views:
        if view == "steps":
            tables[view] = _steps(runs, labels, changes)
        elif view == "device":
            tables[view] = _devices(runs, labels, per_step)
        else:
            tables[view] = _names(view, runs, labels, per_step)
    return Report(
        tables,
        totals={"per_step": per_step},
        notes=_notes(runs, labels, per_step),
        sources=[
            {"run": label, **source}
            for label, run in zip(labels, runs, strict=True)
            for source in run.report.sources
        ],
        headline=_headline(runs, labels, changes),
    )


def _later(others: int) -> list[str]:
    return ["after"] if others == 1 else [f"after {number}" for number in range(1, others + 1)]


def verdict(found: Shift, *, alike: bool = False) -> str:
    """Return what a change of the step time is beside the spread of the steps.

    Args:
        found: the change.
        alike: each step took as long as before to the nanosecond: it is the same recording.
    """
    if alike:
        return SAME
    if found.low is None or found.high is None:
        return INCONCLUSIVE
    low, high = _percent(found.low), _percent(found.high)
    if max(-low, high) <= SAME_PERCENT:
        return SAME
    return SLOWER if low > 0 else FASTER if high < 0 else INCONCLUSIVE


def _percent(ratio: float) -> float:
    return (ratio - 1) * 100


class _StepChange(NamedTuple):
    """What became of the step time: throughput in per cent more than before."""

    found: Shift
    throughput: float
    verdict: str


def _step_change(before: I64, after: I64) -> _StepChange | None:
    if not len(before) or not len(after):
        return None
    found = shift(before, after)
    throughput = _percent(float(np.mean(before)) / max(float(np.mean(after)), 1.0))
    alike = np.array_equal(before, after)
    return _StepChange(found, throughput, verdict(found, alike=alike))


def _steps(
    runs: Sequence[Digest], labels: Sequence[str], changes: Sequence[_StepChange | None]
) -> ReportTable:
    chosen = [place for place, run in enumerate(runs) if len(run.steps)]
    times = [runs[place].steps for place in chosen]
    found = [changes[place] for place in chosen]
    uplift = [np.nan if one is None else one.throughput for one in found]
    return ReportTable(
        "steps",
        "Step Comparison",
        (
            text("run", "Run", [labels[place] for place in chosen]),
            count("steps", "Steps", np.array([len(own) for own in times])),
            time("median_ns", "Median", np.array([np.rint(np.median(own)) for own in times])),
            time("p95_ns", "p95", np.array([np.rint(np.percentile(own, 95)) for own in times])),
            time("mean_ns", "Mean", np.array([np.rint(np.mean(own)) for own in times])),
            *(
                percent(key, title, _changes(found, end), group="Step time")
                for key, title, end in (
                    ("change", "Change(%)", "ratio"),
                    ("change_low", "Low", "low"),
                    ("change_high", "High", "high"),
                )
            ),
            percent("throughput_change", "Throughput(%)", np.array(uplift)),
            text("verdict", "Verdict", [one and one.verdict for one in found]),
        ),
        notes=(
            "Step time: how much longer a step takes than one before, the median over all pairs; "
            "from Low to High is what the steps' own spread leaves open (95 %, by ranks), - where "
            "they are too few to tell.",
            "Throughput is steps per second of step time, against that before.",
        ),
        empty="no steps found: mark them with nvtrace.step(), or name them with --step-range NAME",
        whole=True,
    )


def _changes(found: Sequence[_StepChange | None], end: str) -> F64:
    ratios = [None if one is None else getattr(one.found, end) for one in found]
    return np.array([np.nan if one is None else _percent(one) for one in ratios], np.float64)


def _devices(runs: Sequence[Digest], labels: Sequence[str], per_step: bool) -> ReportTable:
    chosen = [place for place, run in enumerate(runs) if run.gpu_recorded and run.gpus[0]]
    busy, share = [], []
    for place in chosen:
        gpus, busy_ns, window_ns = runs[place].gpus
        busy.append(round(busy_ns / gpus / _divisor(runs[place], per_step)))
        share.append(100 * busy_ns / window_ns if window_ns else np.nan)
    return ReportTable(
        "device",
        "GPU Comparison",
        (
            text("run", "Run", [labels[place] for place in chosen]),
            count("gpus", "GPUs", np.array([runs[place].gpus[0] for place in chosen])),
            time("busy_ns", "Busy", np.array(busy)),
            percent("utilization", "Utilization (%)", np.array(share)),
        ),
        notes=(f"Averages over GPUs; busy is the union of GPU work, {_per(per_step)}.",),
        empty="GPU activity was not recorded in any of the runs, or there was none",
        whole=True,
    )


def _divisor(run: Digest, per_step: bool) -> int:
    return len(run.steps) if per_step else 1


def _per(per_step: bool) -> str:
    return "per step" if per_step else "of the whole run"


def _names(view: str, runs: Sequence[Digest], labels: Sequence[str], per_step: bool) -> ReportTable:
    """Return one row a name and later run: the name with the largest change of any run first."""
    held = [run.figures[view] for run in runs]
    rows = [
        _Row(key, place, _scaled(runs[0], view, key, per_step), _scaled(run, view, key, per_step))
        for key in dict.fromkeys(key for figures in held for key in figures)
        for place, run in enumerate(runs[1:], 1)
        if key in held[0] or key in held[place]
    ]
    if view != "phases":
        largest: dict[tuple[str, ...], tuple[float, float]] = {}
        for row in rows:
            largest[row.key] = max(row.size, largest.get(row.key, (0.0, 0.0)))
        rows.sort(key=lambda row: largest[row.key], reverse=True)
    parts = {key: [row.key[place] for row in rows] for place, key in enumerate(KEYS[view])}
    columns = [
        text("run", "Run", [labels[row.place] for row in rows], shown=len(runs) > 2),
        *(
            text(key, key.capitalize(), values, shown=key != "style" and any(values))
            for key, values in parts.items()
        ),
        text("status", "In", [_status(runs, view, row.key, row.place) for row in rows]),
        *_calls([(row.before.calls, row.after.calls) for row in rows]),
    ]
    for side in ("gpu",) if view in ON_GPU else ("cpu", "gpu"):
        pairs = [(getattr(row.before, side), getattr(row.after, side)) for row in rows]
        columns += _times(side, pairs)
    return ReportTable(
        view,
        _TITLES[view],
        tuple(columns),
        notes=(f"Calls and times are {_per(per_step)}, added up over processes and threads.",),
        empty="nothing of the kind in any of the runs",
        whole=view == "phases",
    )


class _Row(NamedTuple):
    """A name in the first run, and in a later one."""

    key: tuple[str, ...]
    place: int
    before: Figures
    after: Figures

    @property
    def size(self) -> tuple[float, float]:
        """How large the change is: ns on the GPU, and where there is none, on the CPU."""
        return _distance(self.before.gpu, self.after.gpu), _distance(
            self.before.cpu, self.after.cpu
        )


def _distance(before: float | None, after: float | None) -> float:
    return 0.0 if before is None or after is None else abs(after - before)


def _scaled(run: Digest, view: str, key: tuple[str, ...], per_step: bool) -> Figures:
    """Return what a name has in a run; zeros where the run could have held it."""
    found = run.figures[view].get(key)
    if found is None and not run.holds(view):
        return _NONE
    if found is None:
        return _NO_ROW if run.gpu_recorded else _NO_ROW._replace(gpu=None)
    parts = _divisor(run, per_step)
    return Figures(*(None if value is None else value / parts for value in found))


def _status(runs: Sequence[Digest], view: str, key: tuple[str, ...], place: int) -> str | None:
    before, after = runs[0], runs[place]
    if not (before.holds(view) and after.holds(view)):
        return None
    if key not in before.figures[view]:
        return "new"
    return "both" if key in after.figures[view] else "gone"


_Pairs = Sequence[tuple[float | None, float | None]]


def _columns_of(pairs: _Pairs) -> tuple[F64, F64]:
    """Return both sides as arrays, NaN where not recorded."""
    values = np.array(pairs, np.float64).reshape(len(pairs), 2)
    return values[:, 0], values[:, 1]


def _calls(pairs: _Pairs) -> tuple[Column, ...]:
    before, after = _columns_of(pairs)
    return (
        Column("calls_before", "Before", Unit.NUMBER, before, group="Calls"),
        Column("calls_after", "After", Unit.NUMBER, after, group="Calls"),
    )


def _times(side: str, pairs: _Pairs) -> tuple[Column, ...]:
    """Return before, after, and the change in ns and per cent."""
    before, after = _columns_of(pairs)
    there = np.isfinite(before), np.isfinite(after)
    both = there[0] & there[1]
    relative = np.full(len(pairs), np.nan)
    np.divide((after - before) * 100, before, out=relative, where=both & (before != 0))
    first, second = (np.rint(np.nan_to_num(one)) for one in (before, after))
    group = side.upper()
    return (
        time(f"{side}_before_ns", "Before", first, there[0], group=group),
        time(f"{side}_after_ns", "After", second, there[1], group=group),
        time(f"{side}_change_ns", "Change", second - first, both, group=group),
        percent(f"{side}_change", "Change(%)", relative, group=group),
    )


def _notes(runs: Sequence[Digest], labels: Sequence[str], per_step: bool) -> list[dict[str, str]]:
    own = []
    if not per_step:
        without = [label for label, run in zip(labels, runs, strict=True) if not len(run.steps)]
        why = f"no steps in {', '.join(without)}" if without else "asked for"
        own.append(
            Note(
                "compared_totals",
                f"sums of the whole runs are compared, not steps ({why}): runs of different "
                "length differ in everything",
            )
        )
    found = [{"code": note.code, "message": note.message} for note in own]
    for label, run in zip(labels, runs, strict=True):
        found += [{**note, "message": f"{label}: {note['message']}"} for note in run.report.notes]
    return found


def _headline(
    runs: Sequence[Digest], labels: Sequence[str], changes: Sequence[_StepChange | None]
) -> list[str]:
    lines = [f"{label}: {run.report.headline[0]}" for label, run in zip(labels, runs, strict=True)]
    for label, change in zip(labels[1:], changes[1:], strict=True):
        if change is None:
            lines.append(f"{label}: step times cannot be compared, there are no steps")
            continue
        found, span = change.found, "too few steps to tell how sure that is"
        if found.low is not None and found.high is not None:
            span = f"{_percent(found.low):+.1f} to {_percent(found.high):+.1f} %"
        lines.append(
            f"{label}: step time {_percent(found.ratio):+.1f} % ({span}), "
            f"throughput {change.throughput:+.1f} %: {change.verdict}"
        )
    return lines
