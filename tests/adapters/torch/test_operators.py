"""Operators against torch.profiler's own tables of the same events."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_recorded import Recorded, cnn, mlp, transformer
from training import counts, loader, named, note_codes, perceptron

import nvtrace

OURS = ("Optimizer.zero_grad", "GradScaler.update", "GradScaler.unscale_", "lr_scheduler.step")


def operators(recorded: Recorded) -> dict[str, dict[str, Any]]:
    """Rows of the Operator table by name, inner ones and those of nvtrace itself left out."""
    rows = recorded.trace.summary("operator")["operator"].rows()
    return {row["name"]: row for row in rows if row["depth"] == 0 and row["name"] not in OURS}


def ns(microseconds: float) -> int:
    return round(microseconds * 1000)


@pytest.mark.parametrize("make", [cnn, transformer, mlp])
def test_table_is_that_of_key_averages(monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    recorded = Recorded(monkeypatch, make)
    nested = {  # operators that contain themselves: what is inside counts once here, not there
        event.name for event in recorded.events if event.name in _names_above(event)
    }
    inner = "autograd::engine::evaluate_function: "
    theirs = {
        one.key: one
        for one in recorded.averages
        if not one.key.startswith(inner) and one.key != "noted"
    }
    ours = operators(recorded)
    assert ours.keys() == theirs.keys()
    assert len(ours) > 20
    for name, one in theirs.items():
        assert ours[name]["calls"] == one.count, name
        if name not in nested:
            assert ours[name]["cpu_total_ns"] == ns(one.cpu_time_total), name
    assert len(nested) < len(theirs) / 2


def _names_above(event: Any) -> set[str]:
    names = set()
    parent = event.cpu_parent
    while parent is not None:
        names.add(parent.name)
        parent = parent.cpu_parent
    return names


@pytest.mark.parametrize("make", [cnn, transformer, mlp])
def test_self_time_of_every_event(monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    """Name, time and self time of every single event, to the nanosecond."""
    recorded = Recorded(monkeypatch, make)
    theirs = defaultdict(list)
    for event in recorded.events:
        theirs[event.name].append((ns(event.cpu_time_total), ns(event.self_cpu_time_total)))
    ours = defaultdict(list)
    for row in recorded.trace.ranges_report()["ranges"].rows():
        if row["name"] in theirs:
            ours[row["name"]].append((row["duration_ns"], row["self_ns"]))
    # a phase of nvtrace's own lies between this one and its operators
    alone = {name for name in theirs if name != "noted"}
    assert {name: sorted(ours[name]) for name in alone} == {
        name: sorted(theirs[name]) for name in alone
    }
    assert len(ours["noted"]) == 3
    assert {row["kind"] for row in named(recorded.trace, "noted")} == {"user"}


def test_shapes_flops_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"record_shapes": True, "with_flops": True, "profile_memory": True}
    recorded = Recorded(monkeypatch, cnn, **options)
    flops: dict[str, int] = defaultdict(int)
    memory: dict[str, int] = defaultdict(int)
    for row in recorded.trace.ranges_report()["ranges"].rows():
        text = row["text"] or ""
        if found := re.search(r"flops = (\d+)", text):
            flops[row["name"]] += int(found[1])
        if found := re.search(r"memory = ([+-]\d+) B", text):
            memory[row["name"]] += int(found[1])
    theirs = {one.key: one for one in recorded.averages}
    assert dict(flops) == {name: one.flops for name, one in theirs.items() if one.flops}
    assert {name: change for name, change in memory.items() if change} == {
        name: one.cpu_memory_usage for name, one in theirs.items() if one.cpu_memory_usage
    }
    assert flops["aten::conv2d"] > 0
    (first, *_) = named(recorded.trace, "aten::conv2d")
    assert "sizes = [[2, 3, 8, 8], [8, 3, 3, 3], [8]" in first["text"]


@pytest.mark.parametrize("make", [cnn, transformer, mlp])
def test_shapes_and_flops_of_every_event(monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    recorded = Recorded(monkeypatch, make, record_shapes=True, with_flops=True)
    theirs = []
    for event in recorded.events:
        sizes = f"sizes = {event.input_shapes}" if event.input_shapes else ""
        flops = f"flops = {event.flops}" if event.flops else ""
        theirs += [(event.name, ", ".join(filter(None, (sizes, flops))))] * bool(sizes or flops)
    names = {name for name, _ in theirs}
    rows = recorded.trace.ranges_report()["ranges"].rows()
    ours = [(row["name"], row["text"]) for row in rows if row["name"] in names and row["text"]]
    assert sorted(ours) == sorted(theirs)
    assert sum("flops = " in text for _, text in ours) >= 6
    assert len(ours) > 100


def test_sequence_numbers_join_forward_and_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(monkeypatch, mlp)
    rows = recorded.trace.ranges_report()["ranges"].rows()
    pairs = [("aten::addmm", "AddmmBackward0"), ("aten::relu", "ReluBackward0")]
    for forward, backward in pairs:
        made = {row["payload"] for row in rows if row["name"] == forward and row["payload"]}
        undone = {row["payload"] for row in rows if row["name"] == backward}
        assert undone == made
        assert len(made) in (3, 6)


def test_modules_of_backward_nodes() -> None:
    """Whose a node is: known here from the names, for each module makes nodes of its own."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.multiply, self.squash = Multiply(), torch.nn.Sigmoid()

        def forward(self, x: Any) -> Any:
            return self.squash(self.multiply(x)).sum()

    class Multiply(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: Any) -> Any:
            return x * self.factor

    model = Net()
    with nvtrace.Profiler(adapters=["torch"], modules=True) as profiler:
        for _ in range(2):
            (model(torch.ones(3)) + 1).exp().backward()
            profiler.step()
    assert profiler.trace is not None
    paths = {
        row["name"].partition(": ")[2]: row["path"].split(" / ")
        for row in profiler.trace.ranges_report()["ranges"].rows()
        if row["name"].startswith("autograd::engine::evaluate_function: ")
    }
    modules = {
        node: [name for name in path if name.endswith(" (backward)")]
        for node, path in paths.items()
    }
    assert modules == {
        "ExpBackward0": [],
        "AddBackward0": [],
        "SumBackward0": ["Net (backward)"],
        "SigmoidBackward0": ["Net (backward)", "squash (backward)"],
        "MulBackward0": ["Net (backward)", "multiply (backward)"],
        "torch::autograd::AccumulateGrad": ["Net (backward)", "multiply (backward)"],
    }


def test_odd_names_come_through(tmp_path: Path) -> None:
    """Names that torch's own export drops, changes, or writes an invalid file for."""
    names = ['say "hi"', "back\\slash", "new\nline", "emoji 🎉", "tab\t", "é", "</script>"]
    with nvtrace.Profiler(adapters=["torch"]) as profiler:
        for name in names:
            with nvtrace.range(name), torch.profiler.record_function("torch " + name):
                torch.ones(1)
        profiler.step()
    trace = profiler.trace
    assert trace is not None
    rows = trace.summary("user_defined")["user_defined"].rows()
    wanted = {*names, *("torch " + name for name in names)}
    assert {row["name"] for row in rows} == wanted
    trace.export(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    assert wanted <= {event["name"] for event in events}
    trace.save(tmp_path / "trace.sqlite")
    again = nvtrace.load(tmp_path / "trace.sqlite").summary("user_defined")["user_defined"].rows()
    assert {row["name"] for row in again} == wanted


def test_another_profiler_of_torch_goes_on() -> None:
    with torch.profiler.profile() as theirs, nvtrace.Profiler(adapters=["torch"]) as profiler:
        perceptron()(torch.ones(2, 8))
        profiler.step()
    assert "aten::addmm" in {one.key for one in theirs.key_averages()}
    trace = profiler.trace
    assert trace is not None
    assert "operators_not_recorded" in note_codes(trace)
    assert counts(trace) == {"ProfileStep": 1, "Forward": 1}
    assert not named(trace, "aten::addmm")


def test_without_operators() -> None:
    with nvtrace.Profiler(adapters=["torch"], operators=False) as profiler:
        for (x,) in loader():
            perceptron()(x)
            profiler.step()
    assert profiler.trace is not None
    assert counts(profiler.trace) == {"ProfileStep": 4, "Dataloader": 4, "Forward": 4}
    assert not torch.autograd._profiler_enabled()
    assert {row["kind"] for row in profiler.trace.ranges_report()["ranges"].rows()} == {
        "step",
        "dataloader",
        "forward",
    }
