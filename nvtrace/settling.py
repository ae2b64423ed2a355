"""Steps of frameworks that return before their device is done: what their ends wait for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from nvtrace.benchmark import WARMUP, Benchmark
from nvtrace.instrumentation import Adapter, Asynchronous

_NAMED = 3


def settle(adapters: Sequence[Adapter], benchmark: Benchmark) -> str:
    """Wait at the end of a step, as far as frameworks want; returns why the step is no sample.

    What is measured begins and ends with the device at rest.
    """
    waiting = list(_asynchronous(adapters))
    if not waiting:
        return ""
    compiled = [name for one in waiting for name in one.compiled()]
    edge = bool(compiled) or benchmark.steps + 1 == WARMUP
    for one in waiting:
        one.settle(whole=edge)
    if not compiled:
        return ""
    more = f" and {len(compiled) - _NAMED} more" if len(compiled) > _NAMED else ""
    return f"compiled {', '.join(compiled[: -_NAMED - 1 : -1])}{more}"  # the step itself comes last


def settle_last(adapters: Sequence[Adapter], benchmark: Benchmark) -> None:
    """Count into the last step what of it is still running."""
    for one in _asynchronous(adapters):
        benchmark.lengthen(one.settle(whole=True))
        benchmark.rule = one.rule


def _asynchronous(adapters: Sequence[Adapter]) -> Iterator[Asynchronous]:
    # isinstance would look all of the protocol through, which takes longer than all else of a step
    return (cast("Asynchronous", one) for one in adapters if hasattr(one, "settle"))
