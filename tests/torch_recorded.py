"""Runs of small models recorded, beside what torch.profiler makes of the very same events."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from training import perceptron

import nvtrace


def cnn() -> tuple[Any, Any]:
    net = torch.nn
    model = net.Sequential(
        net.Conv2d(3, 8, 3), net.BatchNorm2d(8), net.ReLU(), net.Flatten(), net.Linear(288, 4)
    )
    return model, torch.randn(2, 3, 8, 8)


def transformer() -> tuple[Any, Any]:
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(2, 5, 16)


def mlp() -> tuple[Any, Any]:
    return perceptron(), torch.randn(4, 8)


class Recorded:
    """A trace, and what torch.profiler makes of the very events it was made from."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any], **options: Any):
        results = []
        stop = torch.autograd._disable_profiler
        monkeypatch.setattr(
            torch.autograd, "_disable_profiler", lambda: results.append(stop()) or results[-1]
        )
        model, x = make()
        optimizer = torch.optim.Adam(model.parameters())
        with nvtrace.Profiler(adapters=["torch"], **options) as profiler:
            for _ in range(3):
                optimizer.zero_grad()
                with torch.profiler.record_function("noted"):
                    model(x).square().mean().backward()
                optimizer.step()
                profiler.step()
        assert profiler.trace is not None
        self.trace = profiler.trace
        theirs = torch.autograd.profiler.profile(
            profile_memory=options.get("profile_memory", False),
            record_shapes=options.get("record_shapes", False),
            with_flops=options.get("with_flops", False),
        )
        (theirs.kineto_results,) = results
        self.results = theirs.kineto_results
        self.events = [
            event
            for event in theirs.function_events
            if not re.match(r"Optimizer\.(step|zero_grad)#", event.name)
            and event.name != "[memory]"
        ]
        self.averages = [
            one for one in theirs.key_averages() if not one.key.startswith(("Optimizer.", "[mem"))
        ]
