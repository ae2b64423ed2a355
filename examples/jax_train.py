"""Train a small model with JAX, and see where each step goes.

    python examples/jax_train.py                  the tables of a few steps
    nvtrace run examples/jax_train.py --plain     the same, without a line of nvtrace in it
    nsys profile -t cuda,nvtx python examples/jax_train.py

With ``--sleep`` the loader is slow, and Dataloader says so.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import nvtrace

WIDTH, LAYERS, BATCH = 256, 4, 128


def batches(steps: int, sleep: float) -> Iterator[np.ndarray]:
    """Yield random data, after a rest as for reading a file."""
    rng = np.random.default_rng(0)
    for _ in range(steps):
        time.sleep(sleep)
        yield rng.normal(size=(BATCH, WIDTH)).astype(np.float32)


@jax.checkpoint
def layer(hidden: Any, weights: Any) -> tuple[Any, None]:
    """One layer; scopes name it in every table of operators."""
    with jax.named_scope("layer"):
        return hidden + jnp.tanh(hidden @ weights), None


@jax.named_scope("model")
def loss_of(weights: Any, batch: Any) -> Any:
    """Scan over layers: compiled once, however many there are."""
    hidden, _ = jax.lax.scan(layer, batch, weights)
    return ((hidden - batch) ** 2).mean()


def train_step(weights: Any, momentum: Any, batch: Any) -> tuple[Any, Any, Any]:
    """Forward, backward and optimizer, which XLA makes one program of."""
    loss, gradient = jax.value_and_grad(loss_of)(weights, batch)
    with jax.named_scope("optimizer"):
        momentum = 0.9 * momentum + gradient
        weights = weights - 0.01 * momentum
    return weights, momentum, loss


def train(steps: int, sleep: float, profiler: nvtrace.Profiler | None) -> float:
    """Train for some steps; returns the last loss."""
    step = partial(jax.jit, donate_argnums=(0, 1))(train_step)
    key = jax.random.PRNGKey(0)
    weights = jax.random.normal(key, (LAYERS, WIDTH, WIDTH)) / WIDTH**0.5
    momentum = jnp.zeros_like(weights)
    loss = jnp.zeros(())
    for number, batch in enumerate(nvtrace.dataloader(batches(steps, sleep))):
        weights, momentum, loss = step(weights, momentum, jax.device_put(batch))
        if number % 4 == 3:
            print(f"step {number}: loss {float(loss):.4f}")  # waits for the device: see Sync
        if profiler is not None:
            profiler.step()
    return float(loss)


def main() -> None:
    """Train, profiled or not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--sleep", type=float, default=0.002, help="seconds, for each batch")
    parser.add_argument("--plain", action="store_true", help="without a Profiler")
    options = parser.parse_args()
    if options.plain:
        train(options.steps, options.sleep, None)
        return
    with nvtrace.Profiler() as profiler:  # before jit: calls are marked of what is jitted later
        train(options.steps, options.sleep, profiler)
    profiler.summary(views=["host_steps", "device_phases", "hlo"])


if __name__ == "__main__":
    main()
