"""Trace: what ``nvtrace.load`` returns. The tables, and the questions one asks of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO

from nvtrace.analysis import reporting
from nvtrace.analysis.classification import Rule, parse_rules
from nvtrace.analysis.explanation import explain
from nvtrace.analysis.links import forward_backward
from nvtrace.analysis.selection import Bounds, select
from nvtrace.analysis.utilization import with_utilization
from nvtrace.model.explained import Explained
from nvtrace.model.merging import in_order_of_time
from nvtrace.model.trace import TraceData
from nvtrace.report import Report

if TYPE_CHECKING:
    from nvtrace.sinks.chrome import Written

Rules = Iterable[str | Rule]


@dataclass(frozen=True, eq=False, repr=False)
class Trace(TraceData):
    """The events of one run, and what they say.

    Tables (``ranges``, ``calls``, ``device``, ...) are numpy columns, read-only; the catalogue of
    columns and units is ``nvtrace.model.schema``. Times are int64 ns since the trace's zero.
    """

    @classmethod
    def of(cls, data: TraceData) -> Trace:
        """Return ``data`` as a Trace."""
        return cls(**{one.name: getattr(data, one.name) for one in fields(TraceData)})

    @cached_property
    def _explained(self) -> dict[tuple[object, ...], Explained]:
        return {}

    def explain(self, *, step_range: Iterable[str] = (), rules: Rules = ()) -> Explained:
        """Return the trace with its ranges nested and classified and its GPU work attributed.

        Args:
            step_range: names of the ranges that are steps, ``*`` and ``?`` as in a shell, instead
                of those recognised.
            rules: classification rules tried before nvtrace's own, ``"PATTERN=KIND"``.

        Raises:
            UsageError: a rule cannot be read.
        """
        names = tuple(step_range)
        parsed = parse_rules(rules)
        if (names, parsed) not in self._explained:
            self._explained[names, parsed] = explain(self, rules=parsed, step_names=names)
        return self._explained[names, parsed]

    def summary(
        self,
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
    ) -> Report:
        """Return the tables that say where the time went.

        Args:
            views: keys of views in order, the eight standard ones by default: device, overview,
                model, distributed, operator, kernel, memory, user_defined; also kernels_by_range
                and hlo; and allocations, host_steps and device_phases, which come by default where
                an adapter recorded them.
            sorted_by: ``cpu_`` or ``gpu_`` with ``total``, ``avg``, ``max`` or ``min`` (ascending),
                or ``calls`` or ``name``.
            top: keep only this many rows a table.
            op_detail: show inner phases and kernels of operators.
            thread_sep: show the operators of each thread apart.
            steps: (first, stop) step numbers; None leaves a side open.
            time: (from, until) in ns since the trace's zero; None leaves a side open.
            rank: one rank's processes only.
            step_range: as for ``explain``.
            rules: as for ``explain``.

        Raises:
            UsageError: an unknown view or sort key, or a selection with nothing in it.
        """
        report = reporting.summarize(
            self.explain(step_range=step_range, rules=rules),
            [views] if isinstance(views, str) else views,
            sorted_by=sorted_by,
            op_detail=op_detail,
            thread_sep=thread_sep,
            steps=steps,
            time=time,
            rank=rank,
        )
        return report if top is None else report.head(top)

    def ranges_report(
        self,
        *,
        marks: bool = False,
        steps: Bounds | None = None,
        time: Bounds | None = None,
        rank: int | None = None,
        step_range: Iterable[str] = (),
        rules: Rules = (),
    ) -> Report:
        """Return every range as a row of one table, ``"ranges"``.

        Args:
            marks: list marks too.
            steps: as for ``summary``.
            time: as for ``summary``.
            rank: as for ``summary``.
            step_range: as for ``explain``.
            rules: as for ``explain``.
        """
        return reporting.list_ranges(
            self.explain(step_range=step_range, rules=rules),
            marks=marks,
            steps=steps,
            time=time,
            rank=rank,
        )

    def info(self) -> Report:
        """Return what the trace holds: sources, processes, devices, counts, what is missing."""
        from nvtrace.analysis import inventory

        return inventory.info(self.explain())

    def export(
        self,
        path: str | os.PathLike[str] | BinaryIO,
        *,
        layers: Collection[str] | None = None,
        minimum_ns: int = 0,
        steps: Bounds | None = None,
        time: Bounds | None = None,
        rank: int | None = None,
        step_range: Iterable[str] = (),
        rules: Rules = (),
        progress: Callable[[str], None] | None = None,
    ) -> Written:
        """Write the timeline for Perfetto and chrome://tracing.

        Args:
            path: a file in JSON, or in Perfetto's own format where the name ends in ``.pftrace``;
                gzipped with ``.gz`` behind. Or an open binary file, for JSON.
            layers: of ranges, calls, device, marks, counters and flows; all by default.
            minimum_ns: leave out what is shorter.
            steps: as for ``summary``.
            time: as for ``summary``.
            rank: as for ``summary``.
            step_range: as for ``explain``.
            rules: as for ``explain``.
            progress: called with a line of text while the file is written.

        Returns:
            How many events the file holds, and how many were left out.

        Raises:
            OutputError: the file cannot be written; nothing is left under its name.
        """
        from nvtrace.sinks import chrome

        ordered = Trace.of(in_order_of_time(self)) if self.files else self
        explained = ordered.explain(step_range=step_range, rules=rules)
        chosen = select(explained, steps=steps, time=time, rank=rank)
        links = forward_backward(explained)
        explained = with_utilization(explained)
        return chrome.write(
            explained,
            path,
            layers=layers,
            minimum_ns=minimum_ns,
            rows={
                "ranges": chosen.ranges,
                "calls": chosen.calls,
                "device": chosen.device,
                "samples": chosen.covers(explained.trace.samples["time"]),
            },
            links=(links.forward, links.backward),
            progress=progress,
        )

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write everything to an SQLite file that ``nvtrace.load`` and ``nsys stats`` read.

        Args:
            path: the file; it appears when it is whole.
            overwrite: replace a file that is there.

        Raises:
            OutputError: there is a file already, or it cannot be written.
        """
        from nvtrace.sinks import nsys_sqlite

        nsys_sqlite.write(in_order_of_time(self), path, overwrite=overwrite)

    def __repr__(self) -> str:
        return (
            f"<Trace of {', '.join(source.name for source in self.sources)}: "
            f"{self.ranges.rows:,} ranges, {self.calls.rows:,} CUDA calls, "
            f"{self.device.rows:,} device events>"
        )
