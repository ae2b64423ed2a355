"""The adapter breaks no graph and causes no recompilation under torch.compile."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch._dynamo.utils import counters
from training import counts, named, note_codes, perceptron

import nvtrace


class Net(torch.nn.Module):
    """A module class of one's own on top."""

    def __init__(self) -> None:
        super().__init__()
        self.body = perceptron()

    def forward(self, x: Any) -> Any:
        return self.body(x) + 1


def train(model: Any, optimizer: Any, steps: int = 3) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 8)).square().mean().backward()
        optimizer.step()


def compiled(backend: str) -> tuple[Any, Any, CompileCounterWithBackend]:
    torch._dynamo.reset()
    counters.clear()
    counter = CompileCounterWithBackend(backend)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return torch.compile(model, backend=counter), optimizer, counter


def state(counter: CompileCounterWithBackend) -> tuple[int, int]:
    """Graphs compiled so far, and breaks."""
    return counter.frame_count, sum(counters["graph_break"].values())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("modules", [False, True])
def test_graphs_and_breaks(backend: str, modules: bool) -> None:
    model, optimizer, counter = compiled(backend)
    train(model, optimizer)
    assert state(counter) == (1, 0), "never on"

    model, optimizer, counter = compiled(backend)
    traces = []
    for _ in range(2):
        with nvtrace.Profiler(adapters=["torch"], modules=modules) as profiler:
            train(model, optimizer)
        traces.append(profiler.trace)
        assert state(counter) == (1, 0), "on from the first call"
        train(model, optimizer)
        assert state(counter) == (1, 0), "off again"
    for trace in traces:
        steps = {"ProfileStep": 3, "Forward": 3, "Backward": 3, "Optimization": 3}
        assert counts(trace) == steps
        assert len(named(trace, "OptimizedModule")) == (3 if modules else 0)
        assert not named(trace, "_orig_mod.body.inner")
        assert ("compiled_modules" in note_codes(trace)) is modules

    model, optimizer, counter = compiled(backend)
    train(model, optimizer)
    with nvtrace.Profiler(adapters=["torch"], modules=modules):
        train(model, optimizer)
    train(model, optimizer)
    assert state(counter) == (1, 0), "on once it was compiled"


def test_module_compiled_in_place() -> None:
    model = Net()
    model.compile(backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with nvtrace.Profiler(adapters=["torch"], modules=True) as profiler:
        train(model, optimizer)
    assert profiler.trace is not None
    assert counts(profiler.trace)["Forward"] == 3
    assert len(named(profiler.trace, "Net")) == 3
    assert not named(profiler.trace, "body.inner")
    assert "compiled_modules" in note_codes(profiler.trace)


def test_compiled_training_ends_with_the_same_bits(profiled: Any) -> None:
    def loop() -> dict[str, Any]:
        torch._dynamo.reset()
        model, optimizer, _ = compiled("aot_eager")
        train(model, optimizer)
        return model.state_dict()

    trace = profiled(loop)
    assert counts(trace)["Forward"] == 3


def test_range_in_a_full_graph() -> None:
    class Marked(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            with nvtrace.range("inside"):
                return x + 1

    model = torch.compile(Marked(), fullgraph=True, backend="eager")
    with nvtrace.Profiler(adapters=["torch"], modules=True) as profiler:
        assert torch.equal(model(torch.ones(2)), torch.full((2,), 2.0))
        profiler.step()
    assert profiler.trace is not None
    assert counts(profiler.trace) == {"ProfileStep": 1, "Forward": 1}
