"""What the PyTorch adapter costs, in pairs within one run; and its tables beside torch.profiler's.

    python benchmarks/torch_adapter.py cost       a step, over the same step without
    python benchmarks/torch_adapter.py tables     400,000 operator events to a table: time, memory
    python benchmarks/torch_adapter.py            both

Times are CPU time of the training thread. Two ways to run a step take turns, a few steps each, and
change places from round to round. Of a turn the median step counts, of the rounds the median of the
ratios of two turns next to each other: whatever else the machine does weighs on both. The bare loop
beside itself says how far noise goes. Ends with 1 where a goal is missed.
"""

from __future__ import annotations

import logging
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from bench import Bench
from goals import Goal, table

import nvtrace

ROUNDS = 40
TURN_S = 0.04
EVENTS = 400_000
Step = Callable[[], None]
Variant = Callable[[], Any]


def cnn() -> Step:
    net = torch.nn
    blocks = [
        layer
        for width in (3, 16, 16, 16)
        for layer in (net.Conv2d(width, 16, 3, padding=1), net.BatchNorm2d(16), net.ReLU())
    ]
    model = net.Sequential(*blocks, net.AdaptiveAvgPool2d(1), net.Flatten(), net.Linear(16, 10))
    return training(model, torch.randn(16, 3, 32, 32))


def transformer() -> Step:
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    return training(model, torch.randn(8, 32, 64))


def mlp() -> Step:
    layers = [layer for _ in range(24) for layer in (torch.nn.Linear(32, 32), torch.nn.ReLU())]
    return training(torch.nn.Sequential(*layers), torch.randn(8, 32))


def training(model: Any, x: Any) -> Step:
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


@contextmanager
def adapter(**options: bool) -> Iterator[None]:
    """The adapter at work in a recording, without what is made of it at the end."""
    profiler = nvtrace.Profiler(adapters=["torch"], targets=[nvtrace.ProfilerTarget.CPU], **options)
    with profiler:
        yield


@contextmanager
def kineto() -> Iterator[None]:
    """What operators cannot cost less than: torch's own tracer."""
    from torch._C._profiler import _ExperimentalConfig
    from torch.autograd import (
        ProfilerConfig,
        ProfilerState,
        _disable_profiler,
        _enable_profiler,
        _prepare_profiler,
    )

    config = ProfilerConfig(
        ProfilerState.KINETO, False, False, False, False, False,
        _ExperimentalConfig(profile_all_threads=True), "",
    )  # fmt: skip
    activities = {torch.profiler.ProfilerActivity.CPU}
    _prepare_profiler(config, activities)
    _enable_profiler(config, activities)
    yield
    _disable_profiler()


PAIRS: tuple[tuple[str, Variant, str, Variant, float], ...] = (
    ("bare loop again", nullcontext, "bare loop", nullcontext, 1.02),
    ("phases", lambda: adapter(operators=False), "bare loop", nullcontext, 1.02),
    ("modules", lambda: adapter(operators=False, modules=True), "bare loop", nullcontext, 1.10),
    ("operators", adapter, "raw Kineto", kineto, 1.02),
)


def turn(step: Step, variant: Variant, steps: int) -> float:
    """Return the CPU time of a step, s: the median of a few, after as many.

    What is put into torch's classes makes the interpreter forget what it learned of them.
    """
    clock, taken = time.thread_time, []
    with variant():
        for _ in range(steps):
            step()
        for _ in range(steps):
            start = clock()
            step()
            taken.append(clock() - start)
    return statistics.median(taken)


def paired(step: Step, first: Variant, second: Variant, steps: int) -> tuple[float, float]:
    """Return the median of the second's step, s, and of the ratios of the first's to it."""
    ratios, seconds = [], []
    for number in range(ROUNDS):
        order = (first, second) if number % 2 else (second, first)
        taken = [turn(step, variant, steps) for variant in order]
        above, below = taken if number % 2 else reversed(taken)
        ratios.append(above / below)
        seconds.append(below)
    return statistics.median(seconds), statistics.median(ratios)


def cost() -> list[Goal]:
    """Return what a step of each model costs in each way."""
    torch.set_num_threads(1)
    found = []
    for make in (cnn, transformer, mlp):
        step = make()
        steps = max(5, int(TURN_S / turn(step, nullcontext, 5)))
        for name, first, peer, second, goal in PAIRS:
            taken, ratio = paired(step, first, second, steps)
            figure = f"PyTorch, {make.__name__}: {name}"
            found.append(Goal(figure, ratio * taken * 1e3, "ms", peer, taken * 1e3, goal))
    return found


def record(count: int) -> tuple[Step, int]:
    """A step, and how many of it make so many events."""
    step = transformer()
    step()
    with torch.profiler.profile(acc_events=True) as profiler:
        step()
    return step, -(-count // len(profiler.events()))


@contextmanager
def stop_timed() -> Iterator[list[float]]:
    """Collect what torch's tracer itself takes to stop: the same for whoever reads it."""
    taken: list[float] = []
    original = torch.autograd._disable_profiler

    def stop() -> Any:
        start = time.process_time()
        result = original()
        taken.append(time.process_time() - start)
        return result

    modules = torch.autograd, torch.autograd.profiler
    for module in modules:
        module._disable_profiler = stop
    yield taken
    for module in modules:
        module._disable_profiler = original


def by_nvtrace(count: int) -> None:
    step, steps = record(count)
    profiler = nvtrace.Profiler(adapters=["torch"], targets=[nvtrace.ProfilerTarget.CPU])
    profiler.start()
    for _ in range(steps):
        step()
    with stop_timed() as stopping:
        start = time.process_time()
        profiler.stop()
        assert profiler.trace is not None
        rows = profiler.trace.summary("operator")["operator"].rows()
        say(start, stopping, sum(row["calls"] for row in rows))


def by_torch(count: int) -> None:
    step, steps = record(count)
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    profiler.start()
    for _ in range(steps):
        step()
    with stop_timed() as stopping:
        start = time.process_time()
        profiler.stop()
        say(start, stopping, sum(row.count for row in profiler.key_averages()))


def by_nobody(count: int) -> None:
    step, steps = record(count)
    with kineto():
        for _ in range(steps):
            step()
    say(time.process_time(), [], 0)


def say(start: float, stopping: list[float], events: int) -> None:
    import resource

    taken = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(taken, sum(stopping), events, peak)


def tables() -> list[Goal]:
    """Return time and memory from the end of recording to a table of operators.

    They are of what is done with the events. Torch's tracer takes time to stop, and memory, before
    anybody reads it.
    """
    found = {}
    for name in CHILDREN:
        command = [sys.executable, __file__, name]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        found[name] = [float(word) for word in run.stdout.split()[-4:]]
    tracer_mb = found["by_nobody"][3]
    seconds, megabytes = (
        [figure(*found[name]) for name in ("by_nvtrace", "by_torch")]
        for figure in (
            lambda taken, stopping, events, peak: taken - stopping,
            lambda taken, stopping, events, peak: peak - tracer_mb,
        )
    )
    what, peer = f"PyTorch, {EVENTS:,} operator events to a table", "torch.profiler"
    return [
        Goal(what, seconds[0], "s", peer, seconds[1], 0.1),
        Goal(f"{what}: memory", megabytes[0], "MiB", peer, megabytes[1], 0.333),
    ]


CHILDREN = {
    "by_nobody": by_nobody,
    "by_nvtrace": by_nvtrace,
    "by_torch": by_torch,
}


def goals(bench: Bench) -> list[Goal]:
    """Return every figure beside what it is held against."""
    return [*cost(), *tables()]


def main() -> int:
    logging.getLogger("nvtrace").setLevel(logging.ERROR)
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what in CHILDREN:
        CHILDREN[what](EVENTS)
        return 0
    found = [*(cost() if what != "tables" else []), *(tables() if what != "cost" else [])]
    print(table(found))
    return 0 if all(goal.held for goal in found) else 1


if __name__ == "__main__":
    sys.exit(main())
