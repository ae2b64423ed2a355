"""Steps of frameworks that run ahead: what is waited for, left out and counted."""

from __future__ import annotations

import pytest

from nvtrace.benchmark import WARMUP, Benchmark
from nvtrace.settling import asynchronous, settle, settle_last


class Ahead:
    """Stands for an adapter whose framework runs ahead of its device."""

    rule = "the rule"

    def __init__(self) -> None:
        self.asked: list[bool] = []
        self.functions: list[str] = []

    def settle(self, *, whole: bool) -> int:
        self.asked.append(whole)
        return 2_000_000_000

    def compiled(self) -> list[str]:
        found, self.functions = self.functions, []
        return found


def run(benchmark: Benchmark, adapter: Ahead, steps: int) -> None:
    waiting = asynchronous([adapter, object()])
    for number in range(steps):
        left_out = settle(waiting, benchmark)
        benchmark.step(at_ns=(number + 1) * 1_000_000_000, left_out=left_out)


def test_edges_are_waited_for_whole() -> None:
    benchmark, adapter = Benchmark(), Ahead()
    run(benchmark, adapter, WARMUP + 2)
    assert adapter.asked == [False] * (WARMUP - 1) + [True, False, False]


def test_what_compiled_is_left_out_and_named() -> None:
    benchmark, adapter = Benchmark(), Ahead()
    adapter.functions = ["one", "two", "three", "four", "step"]
    run(benchmark, adapter, 3)
    assert adapter.asked == [True, False, False]
    found = benchmark.summary()
    assert found.left_out == {0: "compiled step, four, three and 2 more"}
    assert (found.steps, found.first) == (2, 0)
    assert found.batch_cost.average == pytest.approx(1)
    assert "Left out: 0 (compiled step, four, three and 2 more)" in str(found)
    assert "Steps 0..2 (2)" in str(found)


def test_where_all_steps_compiled_they_all_count() -> None:
    benchmark = Benchmark()
    for number in range(2):
        benchmark.step(at_ns=(number + 1) * 10**9, left_out="compiled f")
    found = benchmark.summary()
    assert (found.steps, dict(found.left_out)) == (2, {})


def test_what_runs_on_after_the_last_step_counts_in_it() -> None:
    benchmark, adapter = Benchmark(), Ahead()
    run(benchmark, adapter, 4)
    settle_last([adapter], benchmark)
    found = benchmark.summary()
    assert found.batch_cost.maximum == pytest.approx(3)
    assert found.rule == "the rule"
    assert "the rule" in str(found)


def test_nothing_to_lengthen() -> None:
    benchmark = Benchmark()
    benchmark.lengthen(5)
    assert benchmark.summary() is None
