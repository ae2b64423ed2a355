"""Operators of the profiler session in memory: which, where, and on what clock."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from capturing import codes, listed, profiler
from jax_programs import mlp, transformer
from nvtrace.adapters.jax import jit as early_jit
from nvtrace.adapters.jax import xspace

import nvtrace

SLEEP = 0.05


def train(program: Any, steps: int = 3, **options: Any) -> nvtrace.Trace:
    step, weights, batch = program()
    step = early_jit(step)
    weights, loss = jax.block_until_ready(step(weights, batch))
    with profiler(adapters=["jax"], **options) as profile:
        for _ in range(steps):
            weights, loss = step(weights, batch)
            float(jax.block_until_ready((weights, loss))[1])
            profile.step()
    assert profile.trace is not None
    return profile.trace


def entry_instructions(program: Any) -> dict[str, str]:
    """Opcodes of what the compiled step runs by itself, from the text that XLA itself prints."""
    step, weights, batch = program()
    text = jax.jit(step).lower(weights, batch).compile().as_text()
    entry = text[text.index("\nENTRY") :]
    found = {}
    for line in entry.splitlines()[1:]:
        if " = " in line:
            left, right = line.split(" = ", 1)
            name = left.strip().removeprefix("ROOT ").lstrip("%")
            found[name] = right.split("(", 1)[0].split()[-1] if not right.startswith("(") else ""
    return found


@pytest.mark.parametrize("program", [mlp, transformer])
def test_each_instruction_that_does_work_is_an_operator(program: Any) -> None:
    trace = train(program)
    table = trace.summary("hlo")["hlo"]
    rows = {row["name"]: row for row in table if row["module"] == "jit_train_step"}
    expected = entry_instructions(program)
    working = {
        name
        for name, opcode in expected.items()
        if opcode in ("dot", "fusion", "while", "custom-call", "reduce", "tanh", "reduce-window")
    }
    assert working
    assert working <= rows.keys()
    assert {rows[name]["calls"] for name in working} == {3}
    assert all("jit(train_step)" in rows[name]["op_name"] for name in working if "dot" in name)
    assert any("jax_programs.py:" in (row["source"] or "") for row in rows.values())


def test_phases_of_both_programs() -> None:
    for program in (mlp, transformer):
        table = train(program).summary("device_phases")["device_phases"]
        times = dict(zip(table["phase"], table["time_ns"], strict=True))
        assert {"Forward", "Backward", "Optimizer"} <= times.keys()
        outer = sum(time for phase, time in times.items() if phase != "Recompute")
        hlo = train(program, steps=1).summary("hlo")["hlo"]
        assert outer > 0
        assert abs(table["ratio"].sum() - times.get("Recompute", 0) * 100 / outer - 100) < 0.01
        assert set(hlo["phase"]) >= {"forward", "backward", "optimizer"}
    assert times["Recompute"] > 0


def test_a_program_without_autodiff_is_compute() -> None:
    infer = early_jit(lambda x: jnp.tanh(x @ x))
    x = jnp.ones((64, 64))
    infer(x)
    with profiler(adapters=["jax"]) as profile:
        infer(x).block_until_ready()
    table = profile.trace.summary("device_phases")["device_phases"]
    assert table["phase"].tolist() == ["Compute"]
    assert table["ratio"].tolist() == [100]


def test_a_callback_that_sleeps_is_found_where_and_when_it_did() -> None:
    slept: list[tuple[int, int]] = []

    def sleep(x: Any) -> Any:
        start = time.time_ns()
        time.sleep(SLEEP)
        slept.append((start, time.time_ns()))
        return x

    @early_jit
    def program(x: Any) -> Any:
        x = jax.pure_callback(sleep, jax.ShapeDtypeStruct(x.shape, x.dtype), x * 2)
        return jnp.tanh(x) + 1

    x = jnp.ones(4)
    program(x).block_until_ready()
    slept.clear()
    with profiler(adapters=["jax"]) as profile:
        for _ in range(3):
            program(x).block_until_ready()
            profile.step()
    trace = profile.trace
    calls = [row for row in listed(trace) if row["kind"] == "operator" and "call" in row["name"]]
    assert len(calls) == len(slept) == 3
    for row, (start, end) in zip(calls, slept, strict=True):
        begun = row["start_ns"] + trace.origin_unix_ns
        # told by two clocks, brought together by anchors: on an idle machine within microseconds
        assert begun - 10_000_000 < start
        assert end < begun + row["duration_ns"] + 10_000_000
    (hlo,) = (row for row in trace.summary("hlo")["hlo"] if row["opcode"] == "custom-call")
    assert hlo["total_ns"] >= 3 * SLEEP * 1e9
    steps = trace.summary("host_steps")["host_steps"]
    busy = steps["dispatch_ns"] + steps["sync_ns"]  # the CPU runs it in either
    assert busy[0] >= 3 * SLEEP * 1e9
    assert (busy[1:] >= SLEEP * 1e9).all()


def test_operators_begin_in_the_step_that_called_them() -> None:
    trace = train(mlp)
    steps = [row for row in listed(trace) if row["kind"] == "step"]
    names = Counter()
    for step in steps:
        inside = [
            row["name"]
            for row in listed(trace)
            if row["kind"] == "operator" and step["start_ns"] <= row["start_ns"] < step["end_ns"]
        ]
        names.update(set(inside))
        assert len(inside) == len(set(inside))
    assert set(names.values()) == {len(steps)}


def test_calls_that_no_hook_saw_are_dispatches_too() -> None:
    plain = jax.jit(lambda x: x + 1)
    x = plain(jnp.ones(3))
    with profiler(adapters=["jax"]) as profile:
        plain(x)
        early_jit(lambda x: x - 1)(x)
    calls = [row["name"] for row in listed(profile.trace) if row["kind"] == "dispatch"]
    assert calls == ["jit:<lambda>", "jit:<lambda>"]


def test_threads_of_xla_have_names() -> None:
    trace = train(transformer)
    names = trace.strings.take(trace.threads["name"])
    assert any(name.startswith("tf_XLA") for name in names)


def test_texts_survive_saving(tmp_path: Any) -> None:
    trace = train(mlp)
    trace.save(tmp_path / "run.sqlite")
    loaded = nvtrace.load(tmp_path / "run.sqlite")
    for view in ("device_phases", "hlo", "host_steps"):
        assert loaded.summary(view)[view].rows() == trace.summary(view)[view].rows()


def test_a_timeline_shows_no_phase_as_a_range(tmp_path: Any) -> None:
    trace = train(mlp)
    trace.export(tmp_path / "run.json")
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    kinds = {event.get("args", {}).get("kind") for event in events}
    assert "operator" in kinds
    assert not kinds & {"forward", "backward", "optimization"}


def names_in(session: bytes) -> set[str]:
    """Names of all events of a session, in which ours are to be found by JAX's own tools."""
    planes = xspace.read(session)
    return {event.name for plane in planes for line in plane.lines for event in plane.events(line)}


def test_another_profiler_of_jax_is_left_alone(tmp_path: Any) -> None:
    jax.profiler.start_trace(str(tmp_path))
    try:
        with profiler(adapters=["jax"]) as profile:
            jax.device_put(np.ones(3))
    finally:
        jax.profiler.stop_trace()
    assert "operators_not_recorded" in codes(profile.trace)
    (written,) = tmp_path.rglob("*.xplane.pb")
    assert "device_put" in names_in(written.read_bytes())
    assert [row["name"] for row in listed(profile.trace) if row["kind"] == "h2d"]


def test_under_nsys_no_session_is_opened(monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    monkeypatch.setenv("NVTRACE_HLO", str(tmp_path / "hlo"))
    trace = train(mlp)
    assert "operators_not_recorded" in codes(trace)
    assert not [row for row in listed(trace) if row["kind"] == "operator"]
    assert list((tmp_path / "hlo").glob("jit_train_step.*.hlo.pb"))
