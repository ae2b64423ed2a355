"""What the Paddle adapter costs, beside a bare run and paddle.profiler, all in one run.

    python benchmarks/paddle_adapter.py

The step is one that is bound by the framework: twenty small linear layers, each with a ReLU,
forward, backward and Adam, some 3 ms. Every mode is a process forked from one that has trained
already; they take turns, some steps at a time, in an order that changes, and are forked anew now
and then, for some are lucky with their memory. A ratio is the median over the turns of a mode's CPU
time of the training thread by the mean of the two bare ones in the same turn. What these differ by
is the noise of the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import resource
import statistics
import struct
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads do not live on in a fork

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import paddle
    import paddle.profiler
    from paddle.base import core

from bench import Bench
from goals import Goal, table

import nvtrace

LAYERS, WIDTH, BATCH = 20, 16, 8
WARMUP, FORKS, TURNS, STEPS = 40, 10, 24, 4
TURN, OVER = b"t", b"o"
EVENTS = 300_000
CPU = {"targets": [nvtrace.ProfilerTarget.CPU], "adapters": "paddle"}


@contextlib.contextmanager
def paddles_tracer() -> Iterator[None]:
    """What operators cannot cost less than."""
    options = core.ProfilerOptions()
    options.trace_switch = 1
    tracer = core._Profiler.create(options, [])
    tracer.prepare()
    tracer.start()
    yield


ONE, OTHER, BARE = "one bare process", "another", "bare"
PHASES, LAYERED = "phases", "phases and layers"
TRACER, ALL, ANCHOR = "Paddle's tracer alone", "phases, layers and operators", "paddle.profiler"
MODES: dict[str, Callable[[], Any]] = {
    ONE: contextlib.nullcontext,
    OTHER: contextlib.nullcontext,
    PHASES: lambda: nvtrace.Profiler(operators=False, **CPU),
    LAYERED: lambda: nvtrace.Profiler(modules=True, operators=False, **CPU),
    TRACER: paddles_tracer,
    ALL: lambda: nvtrace.Profiler(modules=True, **CPU),
    ANCHOR: lambda: paddle.profiler.Profiler(
        targets=[paddle.profiler.ProfilerTarget.CPU], on_trace_ready=lambda _: None
    ),
}


def training_step() -> Callable[[], None]:
    layers: list[Any] = []
    for _ in range(LAYERS):
        layers += [paddle.nn.Linear(WIDTH, WIDTH), paddle.nn.ReLU()]
    net = paddle.nn.Sequential(*layers)
    optimizer = paddle.optimizer.Adam(parameters=net.parameters())
    x = paddle.randn([BATCH, WIDTH])

    def step() -> None:
        net(x).mean().backward()
        optimizer.step()
        optimizer.clear_grad()

    return step


class Process:
    """A fork of this one that trains in one mode, a turn whenever it is asked to."""

    def __init__(self, mode: str, step: Callable[[], None]) -> None:
        asked, self._ask = os.pipe()
        self._answers, answer = os.pipe()
        self._id = os.fork()
        if self._id:
            os.close(asked), os.close(answer)
            return
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                self._train(mode, step, asked, answer)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)  # what was recorded is of no use

    @staticmethod
    def _train(mode: str, step: Callable[[], None], asked: int, answer: int) -> None:
        profiler = MODES[mode]()
        profiler.__enter__()
        end = getattr(profiler, "step", lambda: None)
        for _ in range(WARMUP):
            step(), end()
        while os.read(asked, 1) == TURN:
            step(), end()  # warms the caches, which another process had
            start = time.thread_time_ns()
            for _ in range(STEPS):
                step(), end()
            os.write(answer, struct.pack("d", (time.thread_time_ns() - start) / STEPS))

    def turn(self) -> float:
        """CPU time of a step, ns."""
        os.write(self._ask, TURN)
        (cost,) = struct.unpack("d", os.read(self._answers, 8))
        return float(cost)

    def end(self) -> None:
        """Let the process end."""
        os.write(self._ask, OVER)
        os.waitpid(self._id, 0)


def measured() -> dict[str, list[float]]:
    """CPU time of a step in ns, for each turn, by mode."""
    step = training_step()
    for _ in range(WARMUP):
        step()
    found: dict[str, list[float]] = {mode: [] for mode in MODES}
    for _ in range(FORKS):
        take_turns(found, step)
    found[BARE] = [(one + other) / 2 for one, other in zip(found[ONE], found[OTHER], strict=True)]
    return found


def take_turns(found: dict[str, list[float]], step: Callable[[], None]) -> None:
    processes: dict[str, Process] = {}
    order = list(MODES)
    try:
        for mode in MODES:
            processes[mode] = Process(mode, step)
        for _ in range(TURNS):
            random.shuffle(order)
            for mode in order:
                found[mode].append(processes[mode].turn())
    finally:
        for process in processes.values():
            process.end()


def ratios(found: dict[str, list[float]], mode: str, by: str = BARE) -> list[float]:
    return [one / other for one, other in zip(found[mode], found[by], strict=True)]


def goals(bench: Bench) -> list[Goal]:
    """The rows of the table of goals; a value is its peer's times the median of the ratios."""
    found = measured()
    say(found)

    def row(mode: str, by: str, goal: float) -> Goal:
        peer = 1e-6 * statistics.median(found[by])
        value = peer * statistics.median(ratios(found, mode, by))
        return Goal(f"Paddle step: {mode}", value, "ms CPU", by, peer, goal)

    rows = [
        row(LAYERED, BARE, 1.05),
        row(LAYERED, ANCHOR, 1.0),
        row(ALL, BARE, 1.10),
        row(ALL, TRACER, 1.05),
        row(ALL, ANCHOR, 1.0),
    ]
    return [*rows, *summary_of_many()]


def say(found: dict[str, list[float]]) -> None:
    print(f"{'a step':<32}{'CPU ms':>8}{'of bare':>10}   quartiles")
    for mode, costs in found.items():
        low, middle, high = (
            100 * (ratio - 1) for ratio in statistics.quantiles(ratios(found, mode), n=4)
        )
        shown = 1e-6 * statistics.median(costs)
        print(f"{mode:<32}{shown:>8.3f}{middle:>+9.1f}%   {low:+.1f} to {high:+.1f}%", flush=True)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def summary_of_many() -> Sequence[Goal]:
    """All tables of one window with many operators, and what they take of memory."""
    x = paddle.ones([4, 4])
    profiler = nvtrace.Profiler(**CPU)
    profiler.start()
    for _ in range(EVENTS // 3):  # an operator is three rows here: itself and two inner phases
        paddle.nn.functional.relu(x)
    profiler.step()
    with contextlib.redirect_stdout(io.StringIO()):
        start = time.process_time()
        trace = profiler.stop()
        stopped, before = time.process_time(), peak_mb()
        profiler.summary()
        ended = time.process_time()
    assert trace is not None
    shown = f"Paddle, {trace.ranges.rows:,} events"
    return (
        Goal(f"{shown}: stop()", stopped - start, "s CPU", "", None, 5),
        Goal(f"{shown}: summary()", ended - stopped, "s CPU", "", None, 5),
        Goal(f"{shown}: peak that adds", peak_mb() - before, "MB", "", None, 100),
    )


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    print(f"\n{table(goals(Bench(Path(), Path())))}")


if __name__ == "__main__":
    main()
