"""Trains a small network on the CPU with numpy, its steps and phases marked with nvtrace.

    nvtrace run examples/numpy_train.py

Nothing but the marks knows of a profiler: ``python examples/numpy_train.py`` does the same work.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

import nvtrace

Array = npt.NDArray[np.float32]

STEPS = 50
BATCH, INPUTS, HIDDEN, CLASSES = 256, 64, 256, 10
LEARNING_RATE = 0.1

rng = np.random.default_rng(seed=0)


def batches(truth: Array) -> Iterator[tuple[Array, npt.NDArray[np.int64]]]:
    """Yield inputs and labels; the labels are what a random linear map says of the inputs."""
    for _ in range(STEPS):
        inputs = rng.standard_normal((BATCH, INPUTS), np.float32)
        yield inputs, (inputs @ truth).argmax(axis=1)


class Network:
    """Two linear layers with a ReLU between them, and a softmax on top."""

    def __init__(self) -> None:
        self.weights = [
            rng.standard_normal((INPUTS, HIDDEN), np.float32) * np.float32(INPUTS**-0.5),
            rng.standard_normal((HIDDEN, CLASSES), np.float32) * np.float32(HIDDEN**-0.5),
        ]

    def forward(self, inputs: Array) -> tuple[Array, Array]:
        """Return the hidden layer, and the probability of each class."""
        with nvtrace.range("linear 1"):
            hidden = np.maximum(inputs @ self.weights[0], 0)
        with nvtrace.range("linear 2"):
            scores = hidden @ self.weights[1]
        with nvtrace.range("softmax"):
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            return hidden, scores / scores.sum(axis=1, keepdims=True)

    def backward(self, inputs: Array, hidden: Array, error: Array) -> list[Array]:
        """Return the gradients of the weights."""
        with nvtrace.range("linear 2 backward"):
            second = hidden.T @ error
            error = (error @ self.weights[1].T) * (hidden > 0)
        with nvtrace.range("linear 1 backward"):
            return [inputs.T @ error, second]


@nvtrace.range
def cross_entropy(probabilities: Array, labels: npt.NDArray[np.int64]) -> tuple[float, Array]:
    """Return the mean loss, and its gradient by the scores."""
    rows = np.arange(len(labels))
    loss = -float(np.log(probabilities[rows, labels]).mean())
    gradient = probabilities.copy()
    gradient[rows, labels] -= 1
    return loss, gradient / np.float32(len(labels))


def train() -> list[float]:
    """Return the loss of every step."""
    network = Network()
    truth = rng.standard_normal((INPUTS, CLASSES), np.float32)
    loader = iter(nvtrace.dataloader(batches(truth)))
    losses = []
    for number in range(STEPS):
        with nvtrace.step(number):
            inputs, labels = next(loader)
            with nvtrace.phase("forward"):
                hidden, probabilities = network.forward(inputs)
                loss, error = cross_entropy(probabilities, labels)
            with nvtrace.phase("backward"):
                gradients = network.backward(inputs, hidden, error)
            with nvtrace.phase("optimization"):
                for weight, gradient in zip(network.weights, gradients, strict=True):
                    weight -= np.float32(LEARNING_RATE) * gradient
        losses.append(loss)
    return losses


if __name__ == "__main__":
    losses = train()
    print(f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} after {len(losses)} steps")
