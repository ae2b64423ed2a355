"""Device phases and HLO instructions, of facts written by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders import START_END, Capture

from nvtrace.analysis.summaries.hlo import EVIDENCE, Work, instructions_table, phases_table
from nvtrace.model import schema
from nvtrace.model.table import Table
from nvtrace.trace import Trace


def work(*pieces: tuple[str, int, dict[str, Any]]) -> Work:
    """Each piece: name, ns, facts."""
    facts = [{"name": name, "hlo_module": "jit_f", **more} for name, _, more in pieces]
    times = np.array([ns for _, ns, _ in pieces], np.int64)
    rows = np.arange(len(pieces), dtype=np.int32)
    return Work(facts, rows, np.full(len(pieces), 3, np.uint8), times, times)


def test_phases_add_up() -> None:
    by_name, by_flow = {"phase_by": "op_name"}, {"phase_by": "data flow"}
    table = phases_table(
        work(
            ("a", 100, {"phase": "forward", **by_name}),
            ("b", 200, {"phase": "backward", "mixed": True, **by_name}),
            ("c", 50, {"phase": "recompute", **by_name}),
            ("d", 30, {"phase": "optimizer", **by_flow}),
            ("e", 15, {"phase": "backward", "collective": True, "mixed": True, **by_name}),
            ("f", 5, {}),
        )
    )
    assert [(row["phase"], row["time_ns"], row["ratio"]) for row in table] == [
        ("Forward", 100, 25.0),
        ("Backward", 250, 62.5),
        ("Recompute", 50, 12.5),
        ("Optimizer", 30, 7.5),
        ("Communication", 15, 3.75),
        ("Unattributed", 5, 1.25),
    ]
    assert table.indent.tolist() == [0, 0, 1, 0, 0, 0]
    assert table["mixed_ns"].tolist() == [0, 200, 0, 0, 0, 0]
    note = next(note for note in table.notes if note.startswith("Of the time"))
    assert "87.5 % is labelled by op_name and 7.5 % by data flow; 50.0 % is in fusions" in note


def test_instructions_by_time() -> None:
    found = work(("a", 10, {"opcode": "dot"}), ("b", 30, {}), ("a", 20, {}))
    found = found._replace(
        instruction=np.array([0, 1, 0], np.int32),
        evidence=np.array([3, 1, 2], np.uint8),
    )
    table = instructions_table(found)
    assert [(row["name"], row["evidence"], row["self_ns"]) for row in table] == [
        ("b", EVIDENCE[1], 30),
        ("a", EVIDENCE[2], 20),
        ("a", EVIDENCE[3], 10),
    ]
    assert table["ratio"].sum() == pytest.approx(100)


def with_texts(capture: Capture, texts: dict[str, Any]) -> Trace:
    """Return the trace with the facts of ranges by their names."""
    trace = capture.trace()
    names = trace.strings.take(trace.ranges["name"])
    rows = [
        trace.strings.intern(json.dumps(texts[name]) if isinstance(texts[name], dict)
                             else texts[name]) if name in texts else -1
        for name in names
    ]  # fmt: skip
    columns = {**trace.ranges, "text": np.array(rows, np.int32)}
    return replace(trace, ranges=Table(schema.RANGES, columns))


def test_operators_of_a_cpu_count_without_those_inside() -> None:
    capture = Capture()
    capture.phase("operator", 0, 100, name="while.1")
    capture.phase("operator", 10, 40, name="dot.2")
    capture.phase("operator", 50, 150, name="async.3", style=START_END)
    capture.phase("user", 200, 300, name="mine")
    module = {"hlo_module": "jit_f", "opcode": "x"}
    trace = with_texts(
        capture,
        {
            "while.1": {**module, "phase": "forward"},
            "dot.2": {**module, "phase": "forward"},
            "async.3": {**module, "phase": "backward"},
            "mine": {**module, "phase": "backward"},
        },
    )
    assert "device_phases" in trace.summary()
    rows = {row["name"]: row for row in trace.summary("hlo")["hlo"]}
    assert {name: (row["total_ns"], row["self_ns"]) for name, row in rows.items()} == {
        "while.1": (100, 70),
        "dot.2": (30, 30),
        "async.3": (100, 100),
    }
    times = {
        row["phase"]: row["time_ns"] for row in trace.summary("device_phases")["device_phases"]
    }
    assert times == {"Forward": 100, "Backward": 100}


def test_kernels_count_where_there_are_any() -> None:
    capture = Capture()
    capture.phase("operator", 0, 100, name="dot.2")
    capture.launch(10, 20, 700)
    trace = with_texts(capture, {"dot.2": {"hlo_module": "jit_f", "phase": "optimizer"}})
    (row,) = trace.summary("device_phases")["device_phases"].rows()
    assert (row["phase"], row["time_ns"]) == ("Optimizer", 700)


@pytest.mark.parametrize("text", ['{"hlo_module"', '["hlo_module"]', '"hlo_module"', "shapes"])
def test_texts_of_others_are_left_alone(text: str) -> None:
    capture = Capture()
    capture.phase("operator", 0, 100, name="dot.2")
    trace = with_texts(capture, {"dot.2": text})
    assert len(trace.summary("device_phases")["device_phases"]) == 0
    assert "nvtrace.adapters.jax" in trace.summary("hlo")["hlo"].empty
