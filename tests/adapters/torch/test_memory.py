"""Allocations against torch.profiler's own account of the same events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nvtrace.adapters.torch.memory import stated_levels
from torch_recorded import Recorded, cnn, mlp, transformer
from training import note_codes

from nvtrace.model.strings import Strings


def events(recorded: Recorded) -> list[Any]:
    """Kineto's events of memory, by time."""
    found = [one for one in recorded.results.events() if one.name() == "[memory]"]
    return sorted(found, key=lambda one: one.start_ns())


@pytest.mark.parametrize("make", [cnn, transformer, mlp])
def test_net_of_operators_is_that_of_key_averages(
    monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    recorded = Recorded(monkeypatch, make, profile_memory=True)
    place, *rows = recorded.trace.summary("allocations")["allocations"].rows()
    net = {row["name"]: row["net_bytes"] for row in rows}
    theirs = {one.key: one.self_cpu_memory_usage for one in recorded.averages if one.key != "noted"}
    assert {name: net.get(name, 0) for name in theirs} == theirs
    assert len([name for name, change in theirs.items() if change]) > 5
    sizes = [one.nbytes() for one in events(recorded)]
    assert place["name"] == "cpu"
    assert place["allocations"] == sum(size > 0 for size in sizes)
    assert place["allocated_bytes"] == sum(size for size in sizes if size > 0)
    assert place["frees"] == sum(size < 0 for size in sizes)
    assert place["freed_bytes"] == -sum(size for size in sizes if size < 0)
    assert place["peak_bytes"] == max(np.cumsum(sizes))
    assert place["peak_reserved_bytes"] is None


def test_a_counter_of_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(monkeypatch, mlp, profile_memory=True)
    trace = recorded.trace
    (counter,) = trace.counters
    assert (counter.name, counter.unit) == ("Memory allocated cpu", "bytes")
    at = [one.start_ns() - trace.origin_unix_ns for one in events(recorded)]
    assert trace.samples["time"].tolist() == at
    assert (
        trace.samples["value"].tolist()
        == np.cumsum([one.nbytes() for one in events(recorded)]).tolist()
    )
    assert "memory_relative" in note_codes(trace)


def test_levels_that_allocators_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Read from the tree, as those of GPUs are: the host's, which torch's export has as well."""
    recorded = Recorded(monkeypatch, mlp, profile_memory=True)
    recorded.results.save(str(tmp_path / "theirs.json"))
    theirs = json.loads((tmp_path / "theirs.json").read_text(encoding="utf-8"))
    zero = theirs.get("baseTimeNanoseconds", 0)
    stated = [
        (zero + round(one["ts"] * 1000), one["args"]["Total Allocated"])
        for one in theirs["traceEvents"]
        if one["name"] == "[memory]"
    ]
    names = Strings()
    rows = stated_levels(recorded.results.experimental_event_tree(), names, leave_out="")
    assert list(names) == ["Memory allocated cpu", "Memory reserved cpu"]
    ours = [(at, level) for at, name, level in rows.tolist() if name == 0]
    assert sorted(ours) == sorted(stated)
    assert len(ours) > 50
    assert {level for _, name, level in rows.tolist() if name == 1} == {0}


def test_memory_is_not_recorded_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Recorded(monkeypatch, mlp).trace
    assert not trace.counters
    assert not trace.samples.rows
    assert "allocation" not in trace.categories
