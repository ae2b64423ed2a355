"""Arrows from forward to backward against those that torch.profiler writes for the same events."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_recorded import Recorded, cnn, mlp, transformer

from nvtrace.analysis.links import NODE, forward_backward


def numbered(events: list[tuple[int, str]]) -> dict[tuple[int, str], tuple[str, int]]:
    """Name each (start, name) by its name and by how many of that name come before."""
    seen: dict[str, int] = defaultdict(int)
    found = {}
    for start, name in sorted(events):
        found[start, name] = (name, seen[name])
        seen[name] += 1
    return found


def pairs_of(events: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """The operators that fwdbwd arrows of a Chrome trace join, each by name and number."""
    slices = [e for e in events if {"Sequence number", "payload"} & e.get("args", {}).keys()]
    names = numbered([(e["ts"], e["name"]) for e in slices])
    at = defaultdict(list)
    for event in slices:
        at[event["pid"], event["tid"], event["ts"]].append(event)
    ends: dict[Any, dict[str, Any]] = defaultdict(dict)
    for event in events:
        if event.get("cat") == "fwdbwd":
            (target,) = at[event["pid"], event["tid"], event["ts"]]
            ends[event["id"]][event["ph"]] = names[target["ts"], target["name"]]
    assert all(end.keys() == {"s", "f"} for end in ends.values())
    return sorted((end["s"], end["f"]) for end in ends.values())


@pytest.mark.parametrize("make", [cnn, transformer, mlp])
def test_arrows_are_those_of_torch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, perfetto: Any, make: Any
) -> None:
    recorded = Recorded(monkeypatch, make)
    path, own = tmp_path / "torch.json", tmp_path / "own.json"
    recorded.results.save(str(path))
    theirs = pairs_of(json.loads(path.read_text())["traceEvents"])
    written = recorded.trace.export(own)
    assert len(theirs) > 10
    assert pairs_of(json.loads(own.read_text())["traceEvents"]) == theirs
    assert written.flows == len(theirs)
    lost, arrows = perfetto.query(
        own,
        "select name from stats where severity in ('error', 'data_loss') and value > 0",
        "select a.name as forward, b.name as backward from flow"
        " join slice a on slice_out = a.id join slice b on slice_in = b.id",
    )
    assert lost == []
    assert sorted((row["forward"], row["backward"]) for row in arrows) == sorted(
        (forward[0], backward[0]) for forward, backward in theirs
    )


def test_a_graph_that_runs_twice_has_two_arrows_from_each_operator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def twice() -> tuple[Any, Any]:
        model, x = mlp()

        class Twice(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                y = self.model(x)
                y.sum().backward(retain_graph=True)
                return y

        return Twice(), x

    trace = Recorded(monkeypatch, twice).trace
    explained = trace.explain()
    links = forward_backward(explained)
    names = trace.strings.take(trace.ranges["name"])
    addmm = [names[row] for row in links.forward.tolist()].count("aten::addmm")
    forwards = {row for row in links.forward.tolist() if names[row] == "aten::addmm"}
    assert addmm == 2 * len(forwards) > 0
    assert not any(names[row].startswith(NODE) for row in links.forward.tolist())
