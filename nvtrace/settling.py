"""Steps of frameworks that return before their device is done: what their ends wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nvtrace.benchmark import WARMUP, Benchmark
from nvtrace.instrumentation import Adapter, Asynchronous

_NAMED = 3


def asynchronous(adapters: Sequence[Adapter]) -> list[Asynchronous]:
    """Return the adapters of frameworks that return before their device is done."""
    # isinstance would look all of the protocol through
    return [cast("Asynchronous", one) for one in adapters if hasattr(one, "settle")]


def settle(waiting: Sequence[Asynchronous], benchmark: Benchmark) -> str:
    """Wait at the end of a step, as far as frameworks want; returns why the step is no sample.

    What is measured begins and ends with the device at rest.
    """
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


def settle_last(waiting: Sequence[Asynchronous], benchmark: Benchmark) -> None:
    """Count into the last step what of it is still running."""
    for one in waiting:
        benchmark.lengthen(one.settle(whole=True))
        benchmark.rule = one.rule
