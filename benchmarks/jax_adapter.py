"""What the hooks of the JAX adapter cost a training step, as ratios of pairs of steps.

Blocks of steps with hooks and without take turns in one process, and each figure is of two
neighbours, so that what else the machine does falls on both. Printed are medians and, to tell them
from noise, quartiles: the ratio of wall times; what the hooks add to the CPU time of the thread
that trains, where all of them run; and that in per cent of a step.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import repeat
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from nvtrace.adapters.jax import jit

import nvtrace

PROGRAMS = {"1 ms": (64, 192, 2, 1), "8 ms": (128, 256, 3, 2), "60 ms": (256, 512, 3, 3)}


def program(batch: int, width: int, layers: int, rounds: int) -> Callable[[], None]:
    """Return one training step of an MLP: loader, copy, call, and reading the loss."""

    def loss_of(weights: Any, data: Any) -> Any:
        for _ in range(rounds):
            for weight in weights:
                data = jnp.tanh(data @ weight)
        return (data**2).mean()

    @jit
    def train_step(weights: Any, data: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(weights, data)
        return jax.tree.map(lambda w, g: w - 0.01 * g, weights, gradients), loss

    rng = np.random.default_rng(0)
    state = [[jnp.asarray(rng.normal(size=(width, width)), jnp.float32) for _ in range(layers)]]
    data = rng.normal(size=(batch, width)).astype(np.float32)
    loader = iter(nvtrace.dataloader(repeat(data)))

    def step() -> None:
        state[0], loss = train_step(state[0], jax.device_put(next(loader)))
        float(loss)

    return step


def hooked() -> AbstractContextManager[Any]:
    """Ranges to NVTX alone."""
    return nvtrace.instrument("jax", operators=False)


def recorded() -> AbstractContextManager[Any]:
    """Ranges recorded in the process."""
    return nvtrace.Profiler(targets=[nvtrace.ProfilerTarget.CPU], adapters=["jax"], operators=False)


def captured() -> AbstractContextManager[Any]:
    """Operators too, from a profiler session of JAX; without opening and closing it."""
    return nvtrace.Profiler(targets=[nvtrace.ProfilerTarget.CPU], adapters=["jax"])


MODES = {"hooks": hooked, "recorded": recorded, "with operators": captured}


def block(step: Callable[[], None], steps: int, context: AbstractContextManager[Any]) -> Any:
    """Return median wall time and median CPU time of this thread for a step, s."""
    walls, cpus = [], []
    with context:
        step()
        for _ in range(steps):
            start, cpu = time.perf_counter(), time.thread_time()
            step()
            cpus.append(time.thread_time() - cpu)
            walls.append(time.perf_counter() - start)
    return statistics.median(walls), statistics.median(cpus)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=8, help="for each row")
    seconds = parser.parse_args().seconds
    logging.getLogger("nvtrace").setLevel(logging.ERROR)
    print(
        f"{'step':>9} {'mode':>15} {'pairs':>6} {'wall ratio':>24} {'CPU added, us':>24} {'%':>6}"
    )
    for shape in PROGRAMS.values():
        step = program(*shape)
        for _ in range(5):
            step()
        usual = block(step, 10, nullcontext())[0]
        steps = max(3, min(50, round(0.05 / usual)))
        for name, mode in MODES.items():
            walls, added, plain = compare(step, steps, mode, seconds)
            share = 100 * statistics.median(added) / plain
            microseconds = [1e6 * one for one in added]
            print(
                f"{plain * 1e3:6.2f} ms {name:>15} {len(walls):6} {spread(walls, 3):>24}"
                f" {spread(microseconds, 1):>24} {share:6.2f}",
                flush=True,
            )


def compare(
    step: Callable[[], None], steps: int, mode: Callable[[], Any], seconds: float
) -> tuple[list[float], list[float], float]:
    """Return ratios of wall times, CPU time added, and the step without hooks, s."""
    walls, added, plains = [], [], []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(walls) < 8:
        order = [mode, nullcontext] if len(walls) % 2 else [nullcontext, mode]
        found = {one: block(step, steps, one()) for one in order}
        plain, ours = found[nullcontext], found[mode]
        walls.append(ours[0] / plain[0])
        added.append(ours[1] - plain[1])
        plains.append(plain[0])
    return walls, added, statistics.median(plains)


def spread(values: list[float], digits: int) -> str:
    """Return median and quartiles."""
    low, middle, high = (f"{one:.{digits}f}" for one in statistics.quantiles(values, n=4))
    return f"{middle} ({low}..{high})"


if __name__ == "__main__":
    main()
