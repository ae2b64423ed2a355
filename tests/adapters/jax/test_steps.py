"""batch_cost: the rule, against a clock of the test's own."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import pytest
from capturing import listed, profiler
from nvtrace.adapters.jax import JaxAdapter
from nvtrace.adapters.jax import jit as early_jit
from nvtrace.adapters.jax.marking import here
from nvtrace.adapters.jax.steps import DISPATCH, LAGGED, NO_CALL, Results

from nvtrace.benchmark import WARMUP

HOST = 0.004


def device(x: Any) -> tuple[Any, Any]:
    for _ in range(4):
        x = jnp.tanh(x @ x) * 0.01
    return x, x.sum()


def work_on_the_host() -> None:
    until = time.perf_counter() + HOST
    while time.perf_counter() < until:
        pass


@pytest.mark.parametrize("blocked", [True, False])
@pytest.mark.parametrize("steps", [3, 8, 20])
def test_batch_cost_is_that_of_an_independent_clock(
    monkeypatch: pytest.MonkeyPatch, steps: int, blocked: bool
) -> None:
    """Clocks read around its edges enclose what is measured, and the device keeps pace."""
    waited: list[Any] = []
    wait = Results._wait

    def watched(results: Results, leaf: Any) -> None:
        wait(results, leaf)
        waited.append(leaf)

    def is_there(leaf: Any) -> bool:
        # of what it has just waited for, JAX may still say for a moment that it is not ready
        return leaf.is_ready() or any(leaf is one for one in waited)

    monkeypatch.setattr(Results, "_wait", watched)
    step = early_jit(device)
    x, before = jax.block_until_ready(step(jnp.ones((400, 400))))
    profile = profiler(adapters=["jax"], timer_only=True)
    first = time.perf_counter()
    profile.start()
    begun = time.perf_counter()
    for number in range(steps):
        work_on_the_host()
        x, loss = step(x)
        if blocked:
            loss.block_until_ready()
        edge = time.perf_counter()
        profile.step()
        assert is_there(before)
        if number == WARMUP - 1 and steps > WARMUP:
            assert is_there(loss)
            first, begun = edge, time.perf_counter()
        before = loss
    ready = loss.is_ready()
    profile.stop()
    assert is_there(loss)
    end = time.perf_counter()
    measured = steps - WARMUP if steps > WARMUP else steps
    assert profile.benchmark.steps == measured
    taken = profile.benchmark.batch_cost.average * measured
    assert taken >= edge - begun - 1e-9
    if ready:  # else some of the wait in stop() counts, from a moment of its own
        assert taken <= end - first + 1e-9
    assert profile.benchmark.rule == LAGGED


def test_the_end_of_the_run_is_waited_for(monkeypatch: Any) -> None:
    step = early_jit(device)
    x, _ = jax.block_until_ready(step(jnp.ones((900, 900))))
    profile = profiler(adapters=["jax"], timer_only=True)
    profile.start()
    start = time.perf_counter()
    x, _ = step(x)
    profile.step()
    waits: list[float] = []
    wait = Results._wait

    def watched(results: Results, leaf: Any) -> None:
        waits.append(time.perf_counter() - start)
        wait(results, leaf)

    monkeypatch.setattr(Results, "_wait", watched)
    profile.stop()
    assert x.is_ready()
    if waits:  # unless the device was quicker than this test
        assert profile.benchmark.batch_cost.average >= waits[0]


class Leaf:
    """A result as JAX has it, on a device of the test's own."""

    waits: ClassVar[list[str]] = []

    def __init__(self, name: str, size: int, *, deleted: bool = False) -> None:
        self.name, self.size, self.deleted, self.ready = name, size, deleted, False

    def is_ready(self) -> bool:
        assert not self.deleted
        return self.ready

    def is_deleted(self) -> bool:
        return self.deleted

    def block_until_ready(self) -> None:
        assert not self.deleted
        self.ready = True
        Leaf.waits.append(self.name)


def test_a_step_waits_for_the_one_before_and_an_edge_for_itself(monkeypatch: Any) -> None:
    results = Results(waits=True)
    monkeypatch.setattr(results, "_array", Leaf)
    monkeypatch.setattr(Leaf, "waits", [])
    leaves = []
    for number, whole in enumerate([True, False, False, False]):
        leaves.append([Leaf(f"large {number}", 9), Leaf(f"small {number}", 1)])
        here.result = {"state": leaves[-1], "other": 3}
        if number == 3:
            leaves[2][1].deleted = True  # donated since: the next in size will do
        results.settle(whole=whole)
    assert Leaf.waits == ["small 0", "small 1", "large 2"]
    assert results.settle(whole=True) > 0
    assert Leaf.waits[3:] == ["small 3"]
    assert results.settle(whole=True) == 0


def test_dispatch_alone_on_request(monkeypatch: Any) -> None:
    monkeypatch.setattr(JaxAdapter, "waits", False)
    step = early_jit(device)
    x, _ = jax.block_until_ready(step(jnp.ones((400, 400))))
    with profiler(adapters=["jax"], timer_only=True) as profile:
        for _ in range(3):
            x, _ = step(x)
            profile.step()
    assert profile.benchmark.rule == DISPATCH
    assert DISPATCH in str(profile.benchmark)
    jax.block_until_ready(x)


def test_functions_jitted_before_are_told_of() -> None:
    step = jax.jit(device)
    x, _ = jax.block_until_ready(step(jnp.ones((100, 100))))
    with profiler(adapters=["jax"], timer_only=True) as profile:
        x, _ = step(x)
        profile.step()
    assert profile.benchmark.rule == NO_CALL


def test_donated_results_are_not_touched() -> None:
    step = early_jit(lambda x: x + 1, donate_argnums=0)
    x = step(jnp.ones((50, 50)))
    with profiler(adapters=["jax"], timer_only=True) as profile:
        for _ in range(4):
            x = step(x)
            profile.step()
    assert x[0, 0] == 6
    assert "3 steps were not waited for" in profile.benchmark.rule


def test_the_smallest_result_that_is_there_is_waited_for() -> None:
    step = early_jit(lambda x: (x + 1, x.sum()), donate_argnums=0)
    x, _ = step(jnp.ones((50, 50)))
    with profiler(adapters=["jax"], timer_only=True) as profile:
        for _ in range(4):
            x, _ = step(x)
            profile.step()
    assert profile.benchmark.rule == LAGGED


def test_steps_that_compile_are_left_out_and_named() -> None:
    x = jax.block_until_ready(jnp.ones((64, 64)))
    wide = jax.block_until_ready(jnp.ones((65, 65)))
    with profiler(adapters=["jax"], operators=False) as profile:
        train = jax.jit(lambda x: jnp.tanh(x @ x).sum())
        for number in range(6):
            train(wide if number == 3 else x)
            profile.step()
    found = profile.benchmark
    assert set(found.left_out) == {0, 3}
    assert all("<lambda>" in why for why in found.left_out.values())
    assert found.steps == 4
    compiled = {row["step"] for row in listed(profile.trace) if row["kind"] == "compile"}
    assert compiled == {0, 3}
    assert "Left out: 0 (compiled <lambda>), 3 (compiled <lambda>)" in str(found)
