"""What the Paddle adapter costs, beside a bare run and paddle.profiler, all in one run.

    python benchmarks/paddle_adapter.py

The first table is of one window with many operators. The second is of a step that is bound by the
framework: twenty small linear layers, forward, backward and Adam. Each round runs every mode, in
another order; a ratio is the median over rounds of a mode's median step by the bare one's of the
same round. What "bare again" differs by is the noise of the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import resource
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import paddle
    import paddle.profiler

import nvtrace

LAYERS, WIDTH, BATCH = 20, 16, 8
WARMUP = 10
CPU = {"targets": [nvtrace.ProfilerTarget.CPU], "adapters": "paddle"}

MODES: dict[str, Callable[[], Any]] = {
    "bare": contextlib.nullcontext,
    "bare again": contextlib.nullcontext,
    "phases and layers": lambda: nvtrace.Profiler(modules=True, operators=False, **CPU),
    "operators": lambda: nvtrace.Profiler(**CPU),
    "all three": lambda: nvtrace.Profiler(modules=True, **CPU),
    "paddle.profiler": lambda: paddle.profiler.Profiler(
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


def time_of(make: Callable[[], Any], step: Callable[[], None], steps: int) -> tuple[float, float]:
    """Median wall and main-thread CPU time of a step, ns; opening and closing windows left out."""
    walls, cpus = [], []
    with contextlib.redirect_stdout(io.StringIO()), make() as profiler:
        end = getattr(profiler, "step", lambda: None)
        for number in range(WARMUP + steps):
            wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
            step()
            end()
            if number >= WARMUP:
                walls.append(time.perf_counter_ns() - wall)
                cpus.append(time.thread_time_ns() - cpu)
    return statistics.median(walls), statistics.median(cpus)


def overhead(rounds: int, steps: int) -> None:
    step = training_step()
    for _ in range(30):
        step()
    times: dict[str, list[tuple[float, float]]] = {mode: [] for mode in MODES}
    order = list(MODES)
    for _ in range(rounds):
        random.shuffle(order)
        for mode in order:
            times[mode].append(time_of(MODES[mode], step, steps))
    print(f"{'mode':<20}{'wall ms':>10}{'CPU ms':>10}{'wall':>10}{'CPU':>10}   (of bare, paired)")
    for mode, found in times.items():
        shown = [1e-6 * statistics.median(one[side] for one in found) for side in (0, 1)]
        paired = [
            statistics.median(
                one[side] / bare[side] for one, bare in zip(found, times["bare"], strict=True)
            )
            for side in (0, 1)
        ]
        ratios = "".join(f"{100 * (ratio - 1):>+9.1f}%" for ratio in paired)
        print(f"{mode:<20}{shown[0]:>10.3f}{shown[1]:>10.3f}{ratios}")


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


@contextlib.contextmanager
def measured(what: str) -> Iterator[None]:
    before, start = peak_mb(), time.perf_counter()
    yield
    passed = time.perf_counter() - start
    print(f"{what:<44}{passed:>8.2f} s{peak_mb() - before:>+10.0f} MB peak")


def run_operators(count: int) -> Callable[[], None]:
    x = paddle.ones([4, 4])

    def run() -> None:
        for _ in range(count):
            paddle.nn.functional.relu(x)

    return run


def many_events(events: int, anchor_events: int) -> None:
    profiler = nvtrace.Profiler(**CPU)
    profiler.start()
    run_operators(events // 3)()  # an operator is three rows here: itself and two inner phases
    profiler.step()
    with contextlib.redirect_stdout(io.StringIO()):
        start = time.perf_counter()
        trace = profiler.stop()
        stopped = time.perf_counter() - start
    assert trace is not None
    print(f"\n{trace.ranges.rows:,} events: stop() {stopped:.2f} s")
    with measured("summary(), all tables, printed"), contextlib.redirect_stdout(io.StringIO()):
        profiler.summary()
    with measured("export_chrome_tracing"):
        profiler.export("/dev/null")
    anchor = paddle.profiler.Profiler(targets=[paddle.profiler.ProfilerTarget.CPU])
    anchor.start()
    run_operators(anchor_events // 4)()  # an operator is four events there
    anchor.step()
    anchor.stop()
    with (
        measured(f"paddle.profiler, {anchor_events:,} events: summary()"),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        anchor.summary()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--steps", type=int, default=30, help="steps of a mode in a round")
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--anchor-events", type=int, default=30_000)
    arguments = parser.parse_args()
    many_events(arguments.events, arguments.anchor_events)
    print()
    overhead(arguments.rounds, arguments.steps)


if __name__ == "__main__":
    main()
