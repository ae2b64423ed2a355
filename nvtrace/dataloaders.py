"""Time spent waiting for data, around any iterable."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from itertools import count
from time import perf_counter_ns
from typing import Any, Generic, TypeVar

from nvtrace.phases import DATALOADER, phase

T = TypeVar("T")

# who wants to know how long a wait for data took, in ns: the Profilers that are running
listeners: list[Callable[[int], None]] = []


class _Waits(threading.local):
    """How many loaders, one around the other, this thread is waiting for."""

    depth = 0


_waits = _Waits()


class DataLoader(Generic[T]):
    """An iterable whose waits are marked as the phase Dataloader; everything else is passed on."""

    def __init__(self, iterable: Iterable[T]) -> None:
        self._iterable = iterable

    def __iter__(self) -> Iterator[T]:
        iterator = iter(self._iterable)
        left = _length(self._iterable)
        waiting = phase(DATALOADER)
        for number in count():
            # past the known length only the end is to come, which is no wait for data
            mark = waiting if left is None or number < left else nullcontext()
            start = perf_counter_ns()
            _waits.depth += 1
            try:
                with mark:
                    item = next(iterator)
            except StopIteration:
                return
            finally:
                _waits.depth -= 1
            report_wait(perf_counter_ns() - start)
            yield item

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type]  # a TypeError of its own, if any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_iterable":  # asked for while copied or unpickled
            raise AttributeError(name)
        return getattr(self._iterable, name)


def _length(iterable: Any) -> int | None:
    """Return how many items there will be, None when nobody knows."""
    try:
        return len(iterable)
    except Exception:  # whatever the user's own raises; iterating may work all the same
        return None


def dataloader(iterable: Iterable[T]) -> DataLoader[T]:
    """Return ``iterable`` with each wait for an item marked and measured.

    The wait is the range Dataloader, and reader_cost in a Profiler's benchmark. The end of the data
    counts as no wait where the length is known.

    Args:
        iterable: a framework's loader, a list, a generator.
    """
    return DataLoader(iterable)


def report_wait(nanoseconds: int) -> None:
    """Tell the running Profilers that a wait for data took so long. For adapters.

    Inside the wait for a loader around this one it is part of that, and does not count again.
    """
    if not _waits.depth:
        for listener in listeners:
            listener(nanoseconds)
