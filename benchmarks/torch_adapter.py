"""What the PyTorch adapter costs, in pairs within one run; and its tables beside torch.profiler's.

    python benchmarks/torch_adapter.py cost       step times, over those of the plain loop
    python benchmarks/torch_adapter.py tables     400,000 operator events to a table: time, memory
    python benchmarks/torch_adapter.py            both

Times are CPU time of the training thread, and of each variant's rounds the one at a fifth from
below, so that what else the machine does weighs less. A round runs every variant in turn; ``plain
again`` says how far noise alone goes. Exits with 1 where a bound is missed.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

import nvtrace

ROUNDS = 40
EVENTS = 400_000
Step = Callable[[], None]


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


VARIANTS: dict[str, Callable[[], Any]] = {
    "plain": nullcontext,
    "plain again": nullcontext,
    "phases": lambda: adapter(operators=False),
    "modules": lambda: adapter(operators=False, modules=True),
    "raw Kineto": kineto,
    "operators": adapter,
}
BOUNDS = {"phases": ("plain", 1.03), "modules": ("plain", 1.10), "operators": ("raw Kineto", 1.02)}


def seconds(step: Step, variant: Callable[[], Any], steps: int) -> float:
    with variant():
        step()
        start = time.thread_time()
        for _ in range(steps):
            step()
        return (time.thread_time() - start) / steps


def cost() -> bool:
    """Print step times of every variant over the plain loop's; returns whether bounds are kept."""
    torch.set_num_threads(1)
    kept = True
    for make in (cnn, transformer, mlp):
        step = make()
        steps = max(3, int(0.1 / seconds(step, nullcontext, 3)))
        times: dict[str, list[float]] = {name: [] for name in VARIANTS}
        for round_ in range(ROUNDS):
            for name in list(VARIANTS)[:: 1 if round_ % 2 else -1]:
                times[name].append(seconds(step, VARIANTS[name], steps))
        low = {name: sorted(found)[ROUNDS // 5] for name, found in times.items()}
        print(f"{make.__name__}: {low['plain'] * 1e3:.2f} ms a step")
        for name in VARIANTS:
            print(f"  {name:12} {low[name] / low['plain']:6.3f}")
        noise = abs(low["plain again"] / low["plain"] - 1)
        for name, (over, bound) in BOUNDS.items():
            ratio = low[name] / low[over]
            missed = ratio > bound + noise
            kept &= not missed
            print(f"  {name} over {over}: {ratio:.3f}, at most {bound}{' MISSED' * missed}")
    return kept


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


def nothing(count: int) -> None:
    step, steps = record(count)
    for _ in range(steps):
        step()
    say(time.process_time(), [], 0)


def say(start: float, stopping: list[float], events: int) -> None:
    import resource

    taken = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(taken, sum(stopping), events, peak)


def tables() -> bool:
    """Print time and memory from the end of recording to a table; returns whether bounds are kept.

    The bounds are for what is done with the events. Torch's tracer takes time to stop, and memory,
    before anybody reads it; both are shown too.
    """
    found = {}
    for name in CHILDREN:
        command = [sys.executable, __file__, name]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        found[name] = [float(word) for word in run.stdout.split()[-4:]]
    nothing_mb, tracer_mb = found["nothing"][3], found["by_nobody"][3]
    print(f"torch's tracer alone: {tracer_mb - nothing_mb:.0f} MiB")
    for name in ("by_nvtrace", "by_torch"):
        taken, stopping, events, peak = found[name]
        print(
            f"{name:11} {taken - stopping:6.2f} s CPU after {stopping:.2f} s to stop, "
            f"{(taken - stopping) / events * 1e6:5.1f} us an event; "
            f"{peak - tracer_mb:5.0f} MiB beside the tracer's"
        )
    ours, theirs = found["by_nvtrace"], found["by_torch"]
    faster = (theirs[0] - theirs[1]) / (ours[0] - ours[1])
    smaller = (theirs[3] - tracer_mb) / (ours[3] - tracer_mb)
    print(
        f"{faster:.1f} times faster, at least 10 ({theirs[0] / ours[0]:.1f} with the stop); "
        f"memory 1/{smaller:.1f}, at most 1/3 "
        f"(1/{(theirs[3] - nothing_mb) / (ours[3] - nothing_mb):.1f} with the tracer's)"
    )
    return faster >= 10 and smaller >= 3


CHILDREN = {
    "nothing": nothing,
    "by_nobody": by_nobody,
    "by_nvtrace": by_nvtrace,
    "by_torch": by_torch,
}


def main() -> int:
    logging.getLogger("nvtrace").setLevel(logging.ERROR)
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what in CHILDREN:
        CHILDREN[what](EVENTS)
        return 0
    kept = what == "tables" or cost()
    if what != "cost":
        kept &= tables()
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
