"""Reads runs one after the other, keeps what is compared of each, and compares."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from nvtrace.analysis.classification import Rule, parse_rules
from nvtrace.analysis.comparison import check_views, comparison
from nvtrace.analysis.digest import VIEWS, Digest, digest, digest_in_turn
from nvtrace.analysis.explanation import explain
from nvtrace.analysis.file_by_file import NeedsAllRows
from nvtrace.analysis.selection import Bounds
from nvtrace.errors import UsageError
from nvtrace.loading import PathLike, Progress, each, load, reports
from nvtrace.report import Report
from nvtrace.trace import Rules, Trace

Run = Trace | PathLike | Sequence[PathLike]


def compare(
    before: Run,
    *after: Run,
    views: Sequence[str] | str | None = None,
    whole: bool = False,
    steps: Bounds | None = None,
    time: Bounds | None = None,
    rank: int | None = None,
    step_range: Iterable[str] = (),
    rules: Rules = (),
    progress: Progress | None = None,
) -> Report:
    """Return how runs differ from the first: steps, phases, GPUs, kernels, operators, ranges.

    Runs are read one after the other, and of each only small tables are kept. Figures are of the
    steps and per step where all runs have steps, else sums over whole runs.

    Args:
        before: a Trace, or what ``load`` takes.
        *after: likewise, one or several.
        views: of steps, phases, device, kernel, memory, operator and user_defined; all by default.
        whole: compare sums over whole runs also where there are steps.
        steps: as for ``Trace.summary``; so are the rest.
        time: (from, until) in ns since each run's zero.
        rank: one rank's processes only.
        step_range: as for ``Trace.explain``.
        rules: as for ``Trace.explain``.
        progress: called with a line of text while long work goes on.

    Raises:
        UsageError: there is nothing to compare with, an unknown view, or a selection with nothing
            in it.
        SourceError: a path is nothing that can be read.
    """
    if not after:
        raise UsageError("one run alone: name what it is to be compared with")
    chosen = (views,) if isinstance(views, str) else tuple(views or VIEWS)
    check_views(chosen)
    names = tuple(step_range)
    parsed = parse_rules(rules)

    def read(run: Run, whole: bool) -> Digest:
        options = {"whole": whole, "steps": steps, "rank": rank}
        try:
            return _digest(run, chosen, time, options, parsed, names, progress)
        except UsageError as error:
            raise UsageError(f"{_named(run)}: {error}") from None

    runs = (before, *after)
    found = [read(run, whole) for run in runs]
    if any(one.whole for one in found):  # what cannot be per step in one is not in any
        found = [
            one if one.whole else read(run, True) for run, one in zip(runs, found, strict=True)
        ]
    return comparison(found, chosen)


def _digest(
    run: Run,
    views: Sequence[str],
    time: Bounds | None,
    options: Mapping[str, Any],
    rules: Sequence[Rule],
    names: Sequence[str],
    progress: Progress | None,
) -> Digest:
    if isinstance(run, Trace):
        return digest(run.explain(step_range=names, rules=rules), views, time=time, **options)
    files = reports(run)
    if len(files) > 1 and time is None:
        with suppress(NeedsAllRows):
            traces = each(files, False, progress)
            return digest_in_turn(traces, views, rules=rules, step_range=names, **options)
    # not by the Trace, which keeps what it explained: the two would wait for the collector
    explained = explain(
        load(files, details=False, progress=progress), rules=rules, step_names=names
    )
    return digest(explained, views, time=time, **options)


def _named(run: Run) -> str:
    if isinstance(run, Trace):
        return ", ".join(source.name for source in run.sources)
    paths = [run] if isinstance(run, str | os.PathLike) else run
    return ", ".join(os.fspath(path) for path in paths)
