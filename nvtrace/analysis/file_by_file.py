"""The summary of several files, of which no more than one is at hand at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis import checks, frame, reporting
from nvtrace.analysis.classification import Rule
from nvtrace.analysis.events import Events
from nvtrace.analysis.explanation import check_named, explain
from nvtrace.analysis.frame import Frame
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.parts import added, with_events
from nvtrace.analysis.selection import Bounds, astray, check_rank, check_steps, select
from nvtrace.analysis.views import APART, Plan, recorded_views
from nvtrace.model.arrays import distinct
from nvtrace.model.explained import Explained
from nvtrace.model.merging import Whole
from nvtrace.model.trace import TraceData
from nvtrace.report import Report

I64 = npt.NDArray[np.int64]


class NeedsAllRows(Exception):
    """What was asked for cannot be gathered file by file."""


def tabulated_in_turn(
    traces: Iterable[TraceData],
    plan: Plan,
    *,
    recorded: bool = False,
    in_steps: bool = False,
    steps: Bounds | None = None,
    rank: int | None = None,
    rules: Sequence[Rule] = (),
    step_range: Sequence[str] = (),
) -> tuple[Frame, Report]:
    """Return what ``tabulated`` says of all traces as one, in the memory of one.

    Rows of equal figures may come in another order.

    Args:
        traces: come one by one, and none is held while the next is made.
        plan: what tables are asked for.
        recorded: whether views are to come by themselves where an adapter recorded what they are
            of.
        in_steps: choose all steps where there are any.
        steps: first step and the one after the last.
        rank: one rank's processes only.
        rules: classification rules of the user's own, tried first.
        step_range: names of the ranges that are steps, instead of those recognised.

    Raises:
        NeedsAllRows: one of the views, or something in the traces, does.
        UsageError: no process has the rank, no step the number, or no range the name.
    """
    if not APART.issuperset(plan.views):
        raise NeedsAllRows
    whole, parts = Whole(), _Parts(plan, recorded, in_steps, steps, rank)
    for trace in traces:
        placed = whole.place(trace)
        del trace
        parts.add(explain(placed, rules=rules, step_names=step_range, whole=False))
        del placed  # before the next one is made
    offsets = whole.offsets
    return parts.report(whole.finished(), offsets, step_range)


class _Part(NamedTuple):
    """What was found in one file, or in several."""

    basis: frame.Basis
    signs: checks.Signs
    views: dict[str, Any]


class _Parts:
    """What was found in each file so far."""

    def __init__(
        self, plan: Plan, recorded: bool, in_steps: bool, steps: Bounds | None, rank: int | None
    ) -> None:
        self._plan, self._recorded, self._rank = plan, recorded, rank
        self._in_steps, self._steps = in_steps, steps
        self._parts: list[_Part] = []
        self._guessed: set[bool] = set()
        self._numbers: list[I64] = []  # of all steps there are, of the rank

    def add(self, explained: Explained) -> None:
        """Take what is needed of a file, whose rows are numbered as among all files."""
        if self._recorded and recorded_views(explained.trace):
            raise NeedsAllRows
        if len(steps := explained.step_rows):
            self._guessed.add(bool(explained.range_guessed[steps].any()))
        if len(self._guessed) > 1:  # guesses at steps count where none are marked, in any file
            raise NeedsAllRows
        chosen = select(explained, rank=self._rank, whole=False)
        if self._in_steps and chosen.steps.any():
            if self._parts and self._steps is None:  # those before were taken whole
                raise NeedsAllRows
            self._steps = (None, None)
        self._numbers.append(distinct(explained.step_numbers[chosen.steps]))
        if self._steps is not None:
            if astray(explained):
                raise NeedsAllRows
            chosen = select(explained, steps=self._steps, rank=self._rank, whole=False)
        measures = Measures(explained, chosen)
        basis = frame.gather(measures)
        nothing = np.empty(0, np.int64)
        window = basis.in_steps.intervals() if basis.steps else (nothing, nothing)
        keep = partial(Events.kept, window=window)
        views = {
            key: with_events(self._plan.gather(key, measures), keep) for key in self._plan.views
        }
        self._parts.append(_Part(with_events(basis, keep), checks.gather(measures), views))

    def report(
        self, trace: TraceData, offsets: Sequence[int], step_names: Sequence[str]
    ) -> tuple[Frame, Report]:
        """Return the tables of all files together, and what they are of.

        Args:
            trace: all files, without their rows.
            offsets: what is to be added to the times of each, ns.
            step_names: as above.
        """
        if self._rank is not None:
            check_rank(trace, self._rank)
        if self._steps is not None:
            check_steps(np.concatenate(self._numbers), self._steps)
        moved = [
            with_events(part, partial(Events.moved, offset=offset))
            for part, offset in zip(self._parts, offsets, strict=True)
        ]
        self._parts.clear()
        basis, signs, views = added(moved)
        check_named(step_names, signs.steps)
        narrowed = self._steps is not None or self._rank is not None
        around = Frame.around(trace, basis, narrowed=narrowed)
        tables = {key: self._plan.table(key, found, around) for key, found in views.items()}
        return around, reporting.report(around, signs, tables)
