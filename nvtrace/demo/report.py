"""Generate a report in the form of an nsys export, with the truth about it beside it."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nvtrace.demo import workload
from nvtrace.demo.edges import edges
from nvtrace.demo.events import EventRows
from nvtrace.demo.metadata import write_metadata
from nvtrace.demo.script import Ints, Played, Script, compile_tape, play
from nvtrace.demo.tape import KERNEL, NONE, Tape
from nvtrace.demo.truth import Truth
from nvtrace.demo.writer import Writer
from nvtrace.errors import OutputError, UsageError

MAX_RANKS = 8

_START_NS = 150_000_000  # a capture begins before its program does
_BETWEEN_NS = 20_000
_SLOWER = 0.02  # host time of each rank against the one before it
_SMALL = 50_000  # kernels; below, the model has few layers so that there are steps enough to see


def write_report(
    path: str | os.PathLike[str],
    *,
    kernels: int = 4_000,
    ranks: int = 2,
    seed: int = 0,
    graph: bool = False,
    graph_trace: bool = False,
    edge: bool = False,
    unfinished: bool = False,
    truth: bool = True,
) -> Path:
    """Write a synthetic report of distributed training, the same for the same arguments.

    Args:
        path: the SQLite file to write; it is replaced when the new one is complete.
        kernels: write at least this many kernels (whole training steps).
        ranks: number of processes, each with a device of its own, 1 to 8.
        seed: of the variation in times.
        graph: the optimizer replays a CUDA graph, traced node by node.
        graph_trace: gradient clipping replays a CUDA graph, traced as a whole.
        edge: add hand-placed cases that break a careless attribution.
        unfinished: add a range that never ends.
        truth: write ``PATH.truth.json`` and ``PATH.truth.npz`` beside it.

    Returns:
        The path of the report.

    Raises:
        UsageError: a number is out of range.
        OutputError: a file cannot be written.
    """
    if kernels < 1:
        raise UsageError(f"kernels must be at least 1, not {kernels}")
    if not 1 <= ranks <= MAX_RANKS:
        raise UsageError(f"ranks must be from 1 to {MAX_RANKS}, not {ranks}")
    options = {"kernels": kernels, "ranks": ranks, "seed": seed, "graph": graph}
    options |= {"graph_trace": graph_trace, "edge": edge, "unfinished": unfinished}
    target = Path(path)
    try:
        with _replacing(target) as partial, Writer(partial) as writer:
            run = _Run(writer, ranks, seed)
            run.train(kernels, graph=graph, graph_trace=graph_trace)
            if edge:
                run.stretch(run.compile(edges()))
            if unfinished:
                run.stretch(run.compile(workload.unfinished()))
            write_metadata(writer, ranks, run.now)
            writer.commit()
            if truth:
                run.write_truth(target, options)
    except (OSError, sqlite3.Error) as error:
        raise OutputError(f"cannot write {target}: {error}") from error
    return target


class _Run:
    """The program running: the clock, the rows written so far, the truth so far."""

    def __init__(self, writer: Writer, ranks: int, seed: int) -> None:
        self.writer = writer
        self.rows = EventRows(writer, ranks)
        self.truth = Truth(ranks)
        self.ranks = ranks
        self.rng = np.random.Generator(np.random.PCG64(seed))
        self.now = _START_NS

    def compile(self, tape: Tape) -> Script:
        return compile_tape(tape, self.rows.label_id, self.rows.api_id)

    def train(self, kernels: int, *, graph: bool, graph_trace: bool) -> None:
        """Set up, train for as many steps as give the kernels, and tear down."""
        layers = 2 if kernels < _SMALL else 12
        setup = self.compile(workload.setup(layers, graph=graph))
        step = self.compile(workload.step(layers, graph=graph, graph_trace=graph_trace))
        missing = kernels - self.ranks * _kernel_count(setup)
        steps = max(2, math.ceil(missing / (self.ranks * _kernel_count(step))))
        played, rowids = self.stretch(setup, self.ranks)
        for number in range(steps):
            self.stretch(step, self.ranks, number)
        self._end_training(played, rowids)
        self.stretch(self.compile(workload.teardown(layers)), self.ranks)

    def stretch(
        self, script: Script, ranks: int = 1, step: int = NONE
    ) -> tuple[list[Played], list[Ints]]:
        """Let the first ranks play a script side by side, and wait for the last of them."""
        played = [
            play(script, rank, step, self.now, self.rng, 1 + _SLOWER * rank)
            for rank in range(ranks)
        ]
        rowids, places = self.rows.write(played)
        self.truth.add(played, rowids, places, in_step=step != NONE)
        self.now = max(p.end for p in played) + _BETWEEN_NS
        return played, rowids

    def _end_training(self, played: Sequence[Played], rowids: Sequence[Ints]) -> None:
        """Close the ranges that the set-up left open, the innermost first."""
        for p, ids in zip(played, rowids, strict=True):
            script = p.script
            end = self.now
            for index in np.flatnonzero(script.never_closed)[::-1].tolist():
                self.writer.close_range(int(ids[index]), end)
                start = int(p.ticks[script.open_tick[index]])
                self.truth.ranks[p.rank].add_around(int(script.label[index]), start, end)
                end += 500
        self.now += _BETWEEN_NS

    def write_truth(self, target: Path, options: dict[str, int]) -> None:
        facts: dict[str, Any] = {
            "schema": 1,
            "synthetic": True,
            "options": options,
            "rows": {table: rows for table, rows in self.writer.rows.items() if rows},
            **self.truth.to_dict(self.rows.labels, self.rows.apis),
        }
        with _replacing(Path(f"{target}.truth.json")) as partial:
            partial.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        with _replacing(Path(f"{target}.truth.npz")) as partial, partial.open("wb") as file:
            arrays: dict[str, Any] = self.truth.arrays()  # numpy's own signature is too narrow
            np.savez_compressed(file, **arrays)


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """Give a temporary name beside the target, and move what was written there when it is whole."""
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _kernel_count(script: Script) -> int:
    return int((script.kind == KERNEL).sum())
