"""Waits for Paddle's loaders: each batch one wait, in the benchmark and as the phase Dataloader."""

from __future__ import annotations

import time
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


@pytest.mark.parametrize("wrapped", [False, True])
def test_reader_cost_is_the_time_waited(wrapped: bool) -> None:
    data = loader("none")
    waited = []
    with nvtrace.Profiler(timer_only=True, adapters="paddle") as profiler:
        iterator = iter(nvtrace.dataloader(data) if wrapped else data)
        for _ in range(5):
            start = time.perf_counter()
            next(iterator)
            waited.append(time.perf_counter() - start)
            time.sleep(DELAY / 4)
            profiler.step()
    found = profiler.benchmark
    assert found is not None
    assert found.reader_cost is not None
    assert found.reader_cost.median == pytest.approx(np.median(waited), rel=0.05, abs=2e-4)
    assert found.reader_cost.maximum >= DELAY / 4
