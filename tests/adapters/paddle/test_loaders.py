"""Waits for Paddle's loaders: each batch one wait, in the benchmark and as the phase Dataloader."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import nvtrace

paddle = pytest.importorskip("paddle", reason="needs paddlepaddle")

DELAY = 0.02


class Slow(paddle.io.Dataset):
    def __getitem__(self, row: int) -> Any:
        time.sleep(DELAY)
        return np.full(3, row, np.float32)

    def __len__(self) -> int:
        return 5


class Stream(paddle.io.IterableDataset):
    def __iter__(self) -> Any:
        yield from (np.full(3, row, np.float32) for row in range(5))


def loader(kind: str) -> Any:
    options: dict[str, Any] = {"batch_size": 1}
    if kind == "stream":
        return paddle.io.DataLoader(Stream(), **options)
    if kind == "unbatched":
        return paddle.io.DataLoader(Slow(), batch_size=None)
    workers = {"none": 0, "workers": 2, "persistent": 2}[kind]
    return paddle.io.DataLoader(
        Slow(), num_workers=workers, persistent_workers=kind == "persistent", **options
    )


@pytest.mark.parametrize("kind", ["none", "workers", "persistent", "unbatched"])
def test_each_batch_is_one_wait(kind: str, record: Any, calls: Any) -> None:
    data, rows = loader(kind), []

    def epoch() -> None:
        rows.extend(float(batch[0][0] if kind != "unbatched" else batch[0]) for batch in data)

    trace = record(epoch, steps=2)
    assert rows == [0.0, 1.0, 2.0, 3.0, 4.0] * 2
    assert calls(trace) == {"Dataloader": 10}


def test_the_end_of_a_stream_is_no_wait_in_the_tables(record: Any, calls: Any) -> None:
    data = loader("stream")
    trace = record(lambda: [float(batch[0][0]) for batch in data], steps=2)
    assert calls(trace) == {"Dataloader": 10}


def test_the_end_of_a_stream_counts_no_wait_in_the_benchmark() -> None:
    waits: list[int] = []
    from nvtrace.instrumentation import adapters

    (adapter,) = adapters("paddle")
    adapter.watch(waits.append, lambda: None)
    batches = [batch for batch in loader("stream")]  # noqa: C416 (list() asks for a length)
    adapter.unwatch()
    assert len(batches) == len(waits) == 5


@pytest.fixture
def inside(restored: None) -> Iterator[list[int]]:
    """Waits as Paddle's own iterator takes them, below what the adapter puts there, in ns."""
    from paddle.io.dataloader.dataloader_iter import _DataLoaderIterSingleProcess as Waiting

    waits: list[int] = []
    wait = Waiting.__next__

    def timed(iterator: Any) -> Any:
        start = time.perf_counter_ns()
        batch = wait(iterator)
        waits.append(time.perf_counter_ns() - start)
        return batch

    Waiting.__next__ = timed
    yield waits
    Waiting.__next__ = wait


@pytest.mark.parametrize("wrapped", [False, True])
def test_reader_cost_is_the_time_waited(wrapped: bool, inside: list[int]) -> None:
    data = loader("none")
    outside = []
    with nvtrace.Profiler(timer_only=True, adapters="paddle") as profiler:
        iterator = iter(nvtrace.dataloader(data) if wrapped else data)
        for _ in range(5):
            start = time.perf_counter_ns()
            next(iterator)
            outside.append(time.perf_counter_ns() - start)
            profiler.step()
    found = profiler.benchmark
    assert found is not None
    assert (found.steps, found.warmup) == (5, 0)
    cost = found.reader_cost
    assert cost is not None
    # a wait that counts lies around Paddle's own and within the caller's
    figures = ((np.mean, cost.average), (np.median, cost.median), (min, cost.minimum))
    for of, seconds in (*figures, (max, cost.maximum)):
        assert of(inside) <= 1e9 * seconds + 1  # 1 ns for the rounding of seconds
        assert 1e9 * seconds - 1 <= of(outside)


def test_each_wait_counts_in_its_step(inside: list[int]) -> None:
    """The second batch is waited for in the third step, and nothing in the second."""
    iterator = iter(loader("none"))
    with nvtrace.Profiler(timer_only=True, adapters="paddle") as profiler:
        infos = []
        for waits in (1, 0, 2):
            for _ in range(waits):
                next(iterator)
            profiler.step()
            infos.append(profiler.step_info())
    costs = [float(re.search(r"reader_cost: ([\d.]+)", info)[1]) for info in infos]  # type: ignore[index]
    rounding = 5e-6
    assert costs[0] >= 1e-9 * inside[0] - rounding
    assert costs[1] == 0
    assert costs[2] >= 1e-9 * (inside[1] + inside[2]) - rounding
