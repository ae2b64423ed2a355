"""Marks for a tool, with no Profiler: what is emitted, and that it ends."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from training import loader, perceptron

import nvtrace
from nvtrace.emit import Calls, Label, switch


class Tool:
    """Stands where NVTX is: keeps what is opened and closed, in order."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def bind(self, label: Label) -> Calls:
        text = label.category if label.payload is None else f"{label.category} {label.payload}"

        def say(*words: str) -> Callable[..., None]:
            return lambda *_: self.seen.append(" ".join([*words, text]))

        return Calls(say("+"), say("-"), say("+"), say("-"), say("!"))


@pytest.fixture
def tool() -> Iterator[Tool]:
    tool = Tool()
    before = switch.use(tool)
    yield tool
    switch.use(before)


def train(steps: int, *, mark: bool = False) -> None:
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x,) in enumerate(loader(samples=4 * steps)):
        if mark:
            with nvtrace.step(number + 10):
                one_step(model, optimizer, x)
        else:
            one_step(model, optimizer, x)


def one_step(model: Any, optimizer: Any, x: Any) -> None:
    model(x).square().mean().backward()
    optimizer.step()


def test_steps_begin_with_their_first_phase(tool: Tool) -> None:
    with nvtrace.instrument("torch"):
        train(2)
    first = ["+ dataloader", "- dataloader", "+ step 0", "+ forward", "- forward"]
    rest = ["+ backward", "- backward", "+ optimization", "- optimization"]
    second = ["+ step 1", "+ dataloader", "- dataloader", "+ forward", "- forward"]
    assert tool.seen == [*first, *rest, "- step 0", *second, *rest, "- step 1"]
    tool.seen.clear()
    train(1)
    assert tool.seen == []
    assert switch.emitter is tool


def test_steps_of_the_program_alone_count(tool: Tool) -> None:
    with nvtrace.instrument("torch"):
        train(2, mark=True)
    steps = [text for text in tool.seen if "step" in text]
    assert steps == ["+ step 10", "- step 10", "+ step 11", "- step 11"]


def test_without_steps(tool: Tool) -> None:
    with nvtrace.instrument("torch", steps=False):
        train(1)
    assert not [text for text in tool.seen if "step" in text]
    assert "+ forward" in tool.seen


def test_modules(tool: Tool) -> None:
    handle = nvtrace.instrument("torch", modules=True)
    perceptron()(torch.ones(1, 8))
    handle.close()
    handle.close()
    modules = ["+ module", *["+ module", "- module"] * 3, "- module"]
    assert tool.seen == ["+ step 0", "+ forward", *modules, "- forward", "- step 0"]


def test_by_default_what_is_imported(tool: Tool) -> None:
    with nvtrace.instrument():
        train(1)
    assert "+ backward" in tool.seen


def test_fallback_on_a_build_without_cuda_is_said(
    tool: Tool, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("nvtrace").setLevel(logging.WARNING)
    with nvtrace.instrument("torch"):
        train(1)
    assert len(caplog.messages) == (torch.version.cuda is None)
    caplog.clear()
    with nvtrace.instrument("torch", operators=False):
        train(1)
    assert caplog.messages == []


def test_forked_child_is_clean(tool: Tool) -> None:
    handle = nvtrace.instrument("torch")
    read, write = os.pipe()
    child = os.fork()
    if not child:
        clean = torch.nn.Module.__call__.__name__ == "_wrapped_call_impl"
        os.write(write, b"clean" if clean and switch.emitter is tool else b"not clean")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 20) == b"clean"
    assert torch.nn.Module.__call__.__name__ != "_wrapped_call_impl"
    handle.close()
    os.close(read)
    os.close(write)


def test_under_a_profiler_too(tool: Tool) -> None:
    """Two adapters at once mark nothing twice, and take out what they put in."""
    with nvtrace.instrument("torch"), nvtrace.Profiler(adapters=["torch"]) as profiler:
        train(2)
    assert profiler.trace is not None
    rows = profiler.trace.ranges_report()["ranges"].rows()
    assert [row["name"] for row in rows].count("forward") == 2
    assert [row["name"] for row in rows].count("backward") == 2


def test_unknown_adapter() -> None:
    with pytest.raises(nvtrace.UsageError, match="no adapter named 'tensorflow'"):
        nvtrace.instrument("tensorflow")
