"""Small models and data for PyTorch, and what a trace of their training counts."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch

import nvtrace

PHASES = ("ProfileStep", "Dataloader", "Forward", "Backward", "Optimization")


def counts(trace: nvtrace.Trace) -> dict[str, int]:
    """Calls of steps and phases as the Model view shows them, those left out that are not there."""
    rows = trace.summary("model")["model"].rows()
    return {row["name"]: row["calls"] for row in rows if row["name"] in PHASES}


def named(trace: nvtrace.Trace, name: str) -> list[dict[str, Any]]:
    """The ranges of a name, by start."""
    rows = trace.ranges_report(marks=True)["ranges"].rows()
    return [row for row in rows if row["name"] == name]


def note_codes(trace: nvtrace.Trace) -> set[str]:
    return {note.code for note in trace.notes}


def perceptron(width: int = 8) -> Any:
    """Linear, ReLU, Linear under names of their own."""
    return torch.nn.Sequential(
        OrderedDict(
            inner=torch.nn.Linear(width, width),
            act=torch.nn.ReLU(),
            outer=torch.nn.Linear(width, width),
        )
    )


def loader(samples: int = 16, batch: int = 4, **options: Any) -> Any:
    data = torch.arange(samples * 8.0).reshape(samples, 8) / (samples * 8)
    dataset = torch.utils.data.TensorDataset(data)
    return torch.utils.data.DataLoader(dataset, batch_size=batch, **options)
