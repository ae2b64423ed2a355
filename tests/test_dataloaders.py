"""The loader's wrapper: it passes on everything, loses nothing, and counts each wait once."""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Iterator
from typing import Any

import pytest
from capturing import listed, nothing_left, profiler

import nvtrace
from nvtrace import dataloaders


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    with nothing_left():
        yield


@pytest.fixture
def waits() -> Iterator[list[int]]:
    found: list[int] = []
    dataloaders.listeners.append(found.append)
    yield found
    dataloaders.listeners.remove(found.append)


class Loader:
    """What frameworks' loaders are like: iterable anew, with a length and more."""

    batch_size = 4

    def __init__(self, length: Any = 3) -> None:
        self.length = length

    def __iter__(self) -> Iterator[int]:
        return iter(range(3))

    def __len__(self) -> int:
        if isinstance(self.length, Exception):
            raise self.length
        return int(self.length)


def generator() -> Iterator[int]:
    yield from range(3)


@pytest.mark.parametrize(
    "iterable",
    [
        [0, 1, 2],
        range(3),
        iter([0, 1, 2]),
        generator(),
        Loader(),
        Loader(2),  # too short a length loses nothing
        Loader(0),
        Loader(9),
        Loader(TypeError("IterableDataset has no len()")),
        Loader(RuntimeError("unknown")),
    ],
    ids=[
        "list",
        "range",
        "iterator",
        "generator",
        "loader",
        "short",
        "empty",
        "long",
        "no_len",
        "len_fails",
    ],
)
def test_every_item_in_order_and_a_wait_for_each(iterable: Any, waits: list[int]) -> None:
    items: list[int] = []
    for item in nvtrace.dataloader(iterable):  # list() would ask for the length itself
        items.append(item)
    assert items == [0, 1, 2]
    assert len(waits) == 3


def test_again_and_empty_and_endless(waits: list[int]) -> None:
    loader = nvtrace.dataloader(Loader())
    assert [list(loader), list(loader)] == [[0, 1, 2]] * 2
    assert list(nvtrace.dataloader([])) == []
    assert len(waits) == 6
    for number, item in enumerate(nvtrace.dataloader(iter(int, 1))):
        assert item == 0
        if number == 4:
            break
    assert len(waits) == 11


def test_everything_else_is_passed_on() -> None:
    loader = nvtrace.dataloader(Loader())
    assert len(loader) == 3
    assert loader.batch_size == 4
    with pytest.raises(AttributeError, match="no attribute 'sampler'"):
        loader.sampler  # noqa: B018
    with pytest.raises(TypeError):
        len(nvtrace.dataloader(generator()))
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        next(iter(nvtrace.dataloader(3)))  # type: ignore[arg-type]


def test_copies() -> None:
    loader = nvtrace.dataloader([0, 1])
    for other in (copy.copy(loader), copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert list(other) == [0, 1]


def test_an_error_of_the_loader_passes_and_leaves_nothing_open(waits: list[int]) -> None:
    def failing() -> Iterator[int]:
        yield 0
        raise OSError("disk")

    with profiler() as prof:
        with pytest.raises(OSError, match="disk"):
            list(nvtrace.dataloader(failing()))
        list(nvtrace.dataloader([1]))
    assert len(waits) == 2
    assert [(row["name"], row["depth"]) for row in listed(prof.trace)] == [("dataloader", 0)] * 3
    assert not any(row["unfinished"] for row in listed(prof.trace))


def test_a_loader_around_a_loader_counts_once(waits: list[int]) -> None:
    """Two wrappers, or a wrapper around a loader that an adapter watches."""

    class Watched:
        def __iter__(self) -> Iterator[int]:
            for number in range(2):
                time.sleep(0.01)
                dataloaders.report_wait(10_000_000)
                yield number

    assert list(nvtrace.dataloader(nvtrace.dataloader(Watched()))) == [0, 1]
    assert len(waits) == 2
    assert all(wait >= 10_000_000 for wait in waits)


def test_waits_are_the_phase_dataloader_and_the_end_is_none() -> None:
    with profiler() as prof:
        for _ in nvtrace.dataloader([1, 2]):
            with nvtrace.range("work"):
                time.sleep(0.001)
            prof.step()
    rows = [row for row in listed(prof.trace) if row["kind"] == "dataloader"]
    assert [row["step"] for row in rows] == [0, 1]
    works = [row for row in listed(prof.trace) if row["name"] == "work"]
    for row, work in zip(rows, works, strict=True):
        assert row["end_ns"] <= work["start_ns"]


def test_the_consumers_time_is_no_wait(waits: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0
    monkeypatch.setattr(dataloaders, "perf_counter_ns", lambda: now)

    def slow() -> Iterator[int]:
        nonlocal now
        for number in range(2):
            now += 10
            yield number

    for _ in nvtrace.dataloader(slow()):
        now += 50
    assert waits == [10, 10]
