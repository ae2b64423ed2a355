"""Time spent waiting for data, around any iterable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from time import perf_counter_ns
from typing import Any, Generic, TypeVar

from nvtrace.phases import DATALOADER, phase

T = TypeVar("T")

# who wants to know how long a wait for data took, in ns: the Profilers that are running
listeners: list[Callable[[int], None]] = []


class DataLoader(Generic[T]):
    """An iterable whose waits are marked as the phase Dataloader; everything else is passed on."""

    def __init__(self, iterable: Iterable[T]) -> None:
        self._iterable = iterable

    def __iter__(self) -> Iterator[T]:
        iterator = iter(self._iterable)
        left = len(self._iterable) if isinstance(self._iterable, Sized) else -1
        waiting = phase(DATALOADER)
        while left:
            start = perf_counter_ns()
            with waiting:
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            report_wait(perf_counter_ns() - start)
            left -= 1
            yield item

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type]  # a TypeError of its own, if any

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterable, name)


def dataloader(iterable: Iterable[T]) -> DataLoader[T]:
    """Return ``iterable`` with each wait for an item marked and measured.

    The wait is the range Dataloader, and reader_cost in a Profiler's benchmark. The end of the data
    counts as no wait where the length is known.

    Args:
        iterable: a framework's loader, a list, a generator.
    """
    return DataLoader(iterable)


def report_wait(nanoseconds: int) -> None:
    """Tell the running Profilers that a wait for data took so long. For adapters."""
    for listener in listeners:
        listener(nanoseconds)
