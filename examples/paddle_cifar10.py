"""Find what a Paddle training loop waits for, change one thing, and say what it brought.

The network and the loop are those of a tutorial on CIFAR-10, the images are made up. Four steps:

1. baseline: how many iterations a second (``timer_only=True``);
2. profile: which phase takes the time;
3. one change: worker processes for the loader;
4. iterations a second again, and the uplift.

    pip install nvtrace paddlepaddle
    python examples/paddle_cifar10.py
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F

import nvtrace as profiler  # instead of: import paddle.profiler as profiler

BATCH_SIZE = 32
IMAGES = 50_000


class MadeUpCifar10(paddle.io.Dataset):  # type: ignore[misc]
    """Images of CIFAR-10's shape, each of which takes some time to read."""

    def __init__(self, read_ms: float) -> None:
        super().__init__()
        self.read_s = read_ms / 1e3

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        """Return image ``row``, float32 of shape (3, 32, 32), and its class."""
        time.sleep(self.read_s)  # stands for a disk and a decoder
        image = np.random.default_rng(row).random((3, 32, 32), np.float32)
        return image, np.array([row % 10])

    def __len__(self) -> int:
        return IMAGES


class MyNet(paddle.nn.Layer):  # type: ignore[misc]
    """Three convolutions and two linear layers."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.conv1 = paddle.nn.Conv2D(in_channels=3, out_channels=32, kernel_size=(3, 3))
        self.pool1 = paddle.nn.MaxPool2D(kernel_size=2, stride=2)
        self.conv2 = paddle.nn.Conv2D(in_channels=32, out_channels=64, kernel_size=(3, 3))
        self.pool2 = paddle.nn.MaxPool2D(kernel_size=2, stride=2)
        self.conv3 = paddle.nn.Conv2D(in_channels=64, out_channels=64, kernel_size=(3, 3))
        self.flatten = paddle.nn.Flatten()
        self.linear1 = paddle.nn.Linear(in_features=1024, out_features=64)
        self.linear2 = paddle.nn.Linear(in_features=64, out_features=num_classes)

    def forward(self, x: Any) -> Any:
        """Return scores of shape (batch, classes) for images of shape (batch, 3, 32, 32)."""
        x = self.pool1(F.relu(self.conv1(x)))
        x = self.pool2(F.relu(self.conv2(x)))
        x = F.relu(self.conv3(x))
        x = F.relu(self.linear1(self.flatten(x)))
        return self.linear2(x)


def train(data: MadeUpCifar10, *, workers: int, steps: int, timer_only: bool) -> profiler.Profiler:
    """Train for some steps, and return the Profiler that watched."""
    paddle.seed(0)
    model = MyNet(num_classes=10)
    model.train()
    opt = paddle.optimizer.Adam(learning_rate=0.001, parameters=model.parameters())
    loader = paddle.io.DataLoader(data, shuffle=True, batch_size=BATCH_SIZE, num_workers=workers)

    def on_trace_ready(prof: profiler.Profiler) -> None:
        profiler.export_chrome_tracing("./profiler_demo")(prof)
        views = [profiler.SummaryView.ModelView, profiler.SummaryView.OperatorView]
        prof.summary(op_detail=False, views=views)

    p = profiler.Profiler(
        scheduler=None if timer_only else (3, 14),
        on_trace_ready=None if timer_only else on_trace_ready,
        timer_only=timer_only,
    )
    p.start()
    for batch_id, (x, y) in enumerate(loader()):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        p.step()
        if batch_id == steps - 1:
            break
    p.stop()
    return p


def ips(p: profiler.Profiler) -> float:
    """Return the iterations a second that a Profiler measured."""
    assert p.benchmark is not None
    return p.benchmark.ips.average


def main() -> None:
    """Go through the four steps."""
    parser = argparse.ArgumentParser(description="Profile, change one thing, measure again.")
    parser.add_argument("--steps", type=int, default=40, help="steps of each run, 15 or more")
    parser.add_argument("--read-ms", type=float, default=3, help="time to read one image, ms")
    parser.add_argument("--workers", type=int, default=4, help="loader processes of the change")
    arguments = parser.parse_args()
    data = MadeUpCifar10(arguments.read_ms)

    print("1. Baseline")
    before = ips(train(data, workers=0, steps=arguments.steps, timer_only=True))

    print("\n2. Profile of steps 3 to 13; the timeline goes to ./profiler_demo")
    train(data, workers=0, steps=15, timer_only=False)

    print(f"\n3. One change: num_workers=0 becomes {arguments.workers}")
    after = ips(train(data, workers=arguments.workers, steps=arguments.steps, timer_only=True))

    print("\n4. What it brought")
    print(
        f"{before:.2f} -> {after:.2f} steps/s: "
        f"{after / before:.2f}x ({100 * (after / before - 1):+.0f} %)"
    )


if __name__ == "__main__":
    main()
