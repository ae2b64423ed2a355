"""A PyTorch training loop that knows nothing of nvtrace, and where its steps' time goes.

A small character model learns its own source code. ``train`` is plain PyTorch; ``main`` records a
few steps of it, prints what they are made of, and writes a timeline.

    pip install nvtrace torch
    python examples/torch_train.py
    nvtrace run examples/torch_train.py --plain    # the same from outside

Under Nsight Systems, which then has the kernels beside the phases and modules:

    nsys profile -t cuda,nvtx -o report python examples/torch_train.py --instrument
    nvtrace summary report.nsys-rep
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

import nvtrace

CONTEXT = 64


class Characters(Dataset[Any]):
    """Every stretch of CONTEXT bytes of a file, and the byte after each of its bytes."""

    def __init__(self, path: Path) -> None:
        self.data = torch.tensor(list(path.read_bytes()))

    def __len__(self) -> int:
        return len(self.data) - CONTEXT - 1

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        """Return inputs and targets, int64 of shape (CONTEXT,)."""
        piece = self.data[row : row + CONTEXT + 1]
        return piece[:-1], piece[1:]


class Model(torch.nn.Module):
    """Embedding, two transformer layers, and a linear layer onto bytes."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(256, width)
        layer = torch.nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, 256)

    def forward(self, x: Any) -> Any:
        """Return logits of shape (batch, CONTEXT, 256)."""
        return self.head(self.layers(self.embed(x)))


def train(steps: int, workers: int) -> float:
    """Train for some steps; returns the last loss."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss = torch.zeros(())
    data = DataLoader(Characters(Path(__file__)), batch_size=32, num_workers=workers, shuffle=True)
    for _, (x, y) in zip(range(steps), data, strict=False):
        optimizer.zero_grad()
        logits = model(x.to(device))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.to(device).flatten())
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def main() -> None:
    """Train, recorded in the way asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--timeline", default="torch_train.json.gz")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--plain", action="store_true", help="no profiling from inside")
    how.add_argument("--instrument", action="store_true", help="mark for a tool such as nsys")
    options = parser.parse_args()
    if options.plain:
        print(f"loss {train(options.steps, options.workers):.3f}")
        return
    if options.instrument:
        with nvtrace.instrument("torch", modules=True):
            print(f"loss {train(options.steps, options.workers):.3f}")
        return
    schedule = nvtrace.make_scheduler(closed=1, ready=1, record=options.steps - 2, repeat=1)
    with nvtrace.Profiler(scheduler=schedule, modules=True) as profiler:
        print(f"loss {train(options.steps, options.workers):.3f}")
    if profiler.trace is None:
        sys.exit("nothing was recorded: ask for three steps or more")
    profiler.summary(views=["model", "user_defined", "operator"], sorted_by="cpu_total")
    profiler.export(options.timeline)
    print(f"wrote {options.timeline}: open it in https://ui.perfetto.dev")


if __name__ == "__main__":
    main()
