"""Two training programs in plain JAX: an MLP, and a small transformer with remat and scan."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

WIDTH, LAYERS, LENGTH, BATCH = 64, 3, 16, 8


def mlp():
    """Return (train step, state, batch); the step returns (state, loss)."""

    @jax.named_scope("mlp")
    def loss_of(weights, batch):
        hidden = jnp.tanh(batch @ weights["in"])
        return ((hidden @ weights["out"]) ** 2).mean()

    rng = np.random.default_rng(0)
    weights = {
        "in": jnp.asarray(rng.normal(size=(256, 512)), jnp.float32),
        "out": jnp.asarray(rng.normal(size=(512, 16)), jnp.float32),
    }
    batch = rng.normal(size=(128, 256)).astype(np.float32)
    return _sgd_step(loss_of), weights, batch


def transformer():
    """Return the same of a transformer whose layers are scanned over and checkpointed."""
    rng = np.random.default_rng(0)

    def some(*shape):
        return jnp.asarray(rng.normal(size=shape) / np.sqrt(shape[-2]), jnp.float32)

    weights = {
        "qkv": some(LAYERS, WIDTH, 3 * WIDTH),
        "up": some(LAYERS, WIDTH, 4 * WIDTH),
        "down": some(LAYERS, 4 * WIDTH, WIDTH),
    }

    @jax.checkpoint
    def layer(hidden, one):
        q, k, v = jnp.split(hidden @ one["qkv"], 3, axis=-1)
        scores = jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2) / np.sqrt(WIDTH))
        hidden = hidden + scores @ v
        return hidden + jax.nn.gelu(hidden @ one["up"]) @ one["down"], None

    @jax.named_scope("transformer")
    def loss_of(weights, batch):
        hidden, _ = jax.lax.scan(layer, batch, weights)
        return (hidden**2).mean()

    batch = rng.normal(size=(BATCH, LENGTH, WIDTH)).astype(np.float32)
    return _sgd_step(loss_of), weights, batch


def _sgd_step(loss_of):
    def train_step(weights, batch):
        loss, gradients = jax.value_and_grad(loss_of)(weights, batch)
        return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, gradients), loss

    return train_step
