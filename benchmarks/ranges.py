"""What a range costs, in ns per enter and exit or per call, beside peers, floors and goals.

Each pair is measured in turns, in CPU time of the thread; the least of several rounds, the loop's
own cost taken off. Peers that are not installed are named. Without a tool attached, or under one:

    python benchmarks/ranges.py
    nsys profile -t nvtx -s none --cpuctxsw=none python benchmarks/ranges.py
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nvtx
from bench import Bench
from goals import Goal, table

import nvtrace
from nvtrace import Profiler, ProfilerState, ProfilerTarget
from nvtrace._env import NVTRACE
from nvtrace.emit import switch
from nvtrace.emit.listening import tool_possible
from nvtrace.emit.nest import PythonNest
from nvtrace.emit.recorder import Recorder

ROUNDS, LOOPS, FEW = 9, 30_000, 1_000

Body = Callable[[int], None]


class Noop:
    """The least that a `with` of a Python class can cost."""

    __slots__ = ()

    def __enter__(self) -> Noop:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def plain() -> None:
    pass


def empty(loops: int) -> None:
    for _ in range(loops):
        pass


def clocks(loops: int) -> None:
    clock = time.time_ns
    for _ in range(loops):
        clock()
        clock()


def entered(manager: Any) -> Body:
    def body(loops: int) -> None:
        for _ in range(loops):
            with manager:
                pass

    return body


def made(factory: Callable[[str], Any]) -> Body:
    def body(loops: int) -> None:
        for _ in range(loops):
            with factory("benchmark"):
                pass

    return body


def called(function: Callable[[], object]) -> Body:
    def body(loops: int) -> None:
        for _ in range(loops):
            function()

    return body


def raw(loops: int) -> None:
    """Push and pop of NVTX as the nvtx package has them, with all that they take made before."""
    from nvtx._lib.lib import pop_range, push_range

    from nvtrace.emit.nvtx import _Domain

    domain = _Domain("benchmark")
    attributes, handle = domain.get_event_attributes("benchmark"), domain.handle
    for _ in range(loops):
        push_range(attributes, handle)
        pop_range(handle)


def least(*bodies: Body, loops: int = LOOPS) -> list[float]:
    """Least CPU time of one loop of each, ns, without the loop; they take turns."""
    every = [empty, *bodies]
    times = [float("inf")] * len(every)
    for _ in range(ROUNDS):
        for place, body in enumerate(every):
            start = time.thread_time_ns()
            body(loops)
            times[place] = min(times[place], (time.thread_time_ns() - start) / loops)
    return [max(one - times[0], 0.1) for one in times[1:]]


def beside(figure: str, body: Body, peer: str, other: Body, most: float = 1, **how: int) -> Goal:
    """The cost of one beside that of the other."""
    value, peer_value = least(body, other, **how)
    return Goal(figure, value, "ns", peer, peer_value, most)


def over_call(figure: str, function: Callable[[], object], most: float) -> Goal:
    """What a decorated function costs more than the bare one."""
    value, bare = least(called(function), called(plain))
    return Goal(figure, value - bare, "ns", "", None, most)


def goals(bench: Bench) -> list[Goal]:
    """Every mode beside its peers; with a tool attached, only those that it changes."""
    try:
        return list(attached(bench) if tool_possible() else unattached(bench))
    finally:
        nvtrace.enable()


def unattached(bench: Bench) -> Iterator[Goal]:
    yield from disabled()
    yield from to_nvtx("to NVTX, no tool")
    yield from off(bench)
    yield from recorded(bench)


def attached(bench: Bench) -> Iterator[Goal]:
    block = nvtrace.range("benchmark")
    yield beside("to NVTX, tool attached: with", entered(block), "raw push and pop", raw, 1.3)
    if type(nvtx.get_domain("benchmark")).__name__ == "DummyDomain":
        bench.absent.append("nvtx.annotate under this tool: this version of nvtx sends it nothing")
    else:
        yield from to_nvtx("to NVTX, tool attached")


def disabled() -> Iterator[Goal]:
    os.environ[NVTRACE] = "0"
    unwrapped = nvtrace.range(plain)
    del os.environ[NVTRACE]
    figure = f"{NVTRACE}=0: decorated, over the bare call"
    if unwrapped is plain:  # nothing to measure
        yield Goal(figure, 0, "ns", "", None, 0)
    else:
        yield over_call(figure, unwrapped, 0)
    nvtrace.disable()
    block = nvtrace.range("benchmark")
    annotated = entered(nvtx.annotate("benchmark"))
    yield over_call("disabled: decorated, over the bare call", nvtrace.range(plain), 100)
    yield beside("disabled: with", entered(block), "a with that does nothing", entered(Noop()), 1.3)
    yield beside("disabled: with", entered(block), "nvtx.annotate", annotated)
    nvtrace.enable()


def to_nvtx(mode: str) -> Iterator[Goal]:
    block, annotated = nvtrace.range("benchmark"), nvtx.annotate("benchmark")
    yield beside(f"{mode}: with", entered(block), "nvtx.annotate", entered(annotated))
    yield beside(
        f'{mode}: with range("x")', made(nvtrace.range), 'nvtx.annotate("x")', made(nvtx.annotate)
    )
    yield beside(
        f"{mode}: decorated",
        called(nvtrace.range(plain)),
        "@nvtx.annotate",
        called(annotated(plain)),
    )


def off(bench: Bench) -> Iterator[Goal]:
    """Peers that record nothing at the moment."""
    body = made(nvtrace.range)
    with contextlib.suppress(ImportError):
        from torch.profiler import record_function

        peer = "torch record_function, off"
        yield beside('no tool: with range("x")', body, peer, made(record_function), loops=FEW)
    with contextlib.suppress(ImportError):
        from paddle.profiler import RecordEvent

        peer = "paddle RecordEvent, off"
        yield beside('no tool: with range("x")', body, peer, made(RecordEvent))
    absent = [name for name in ("viztracer", "torch", "paddle") if find_spec(name) is None]
    bench.absent.extend(f"{name}: not installed" for name in absent)


def recorded(bench: Bench) -> Iterator[Goal]:
    block = nvtrace.range("benchmark")
    with recording(Recorder(None)):
        yield beside("recorded: with", entered(block), "two reads of the clock", clocks, 2.5)
    with recording(Recorder(None)):
        value, bare, two = least(called(nvtrace.range(plain)), called(plain), clocks)
        figure = "recorded: decorated, over the bare call"
        yield Goal(figure, value - bare, "ns", "two reads of the clock", two, 2.5)
    with recording(Recorder(None, nest=PythonNest)):
        figure, peer = "recorded in Python alone: with", "a with that does nothing"
        yield beside(figure, entered(block), peer, entered(Noop()), 4)
    for peer, tracing in (
        ("viztracer log_event", viztracer),
        ("torch record_function, recording", torch),
        ("paddle RecordEvent, recording", paddle),
    ):
        with contextlib.suppress(ImportError), tracing() as factory, recording(Recorder(None)):
            body = made(nvtrace.range)
            yield beside('recorded: with range("x")', body, peer, made(factory), loops=FEW)


@contextlib.contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    before = switch.use(recorder)
    try:
        yield
    finally:
        switch.use(before)


@contextlib.contextmanager
def viztracer() -> Iterator[Callable[[str], Any]]:
    from viztracer import VizTracer

    # else it counts the calls of whatever runs meanwhile, nvtrace included
    tracer = VizTracer(log_sparse=True, verbose=0, tracer_entries=10_000)
    tracer.start()
    yield tracer.log_event
    tracer.stop()
    tracer.clear()


@contextlib.contextmanager
def torch() -> Iterator[Callable[[str], Any]]:
    from torch.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU]):
        yield record_function


@contextlib.contextmanager
def paddle() -> Iterator[Callable[[str], Any]]:
    from paddle import profiler

    targets = [profiler.ProfilerTarget.CPU]
    with profiler.Profiler(targets=targets, on_trace_ready=lambda _: None):
        yield profiler.RecordEvent


def others() -> Iterator[tuple[str, float]]:
    """What has no peer: name and ns."""
    number = iter(range(ROUNDS * LOOPS))
    block = nvtrace.range("benchmark")

    def payload() -> None:
        with nvtrace.range("benchmark", payload=next(number)):
            pass

    with recording(Recorder(None)):
        yield "recorded: another payload each time", least(called(payload), loops=FEW)[0]
        label = block.label
        yield "recorded: start and end", least(called(lambda: label.end(label.start())))[0]
        yield "recorded: nvtrace.mark", least(called(lambda: nvtrace.mark("benchmark")))[0]
    for name, options in {
        "timer_only": {"timer_only": True},
        "outside the windows": {"scheduler": lambda _: ProfilerState.CLOSED},
        "recorded": {},
    }.items():
        running = Profiler(targets=[ProfilerTarget.CPU], adapters=None, **options)
        running.start()
        yield f"a step of the Profiler, {name}", least(called(running.step), loops=FEW)[0]
        with contextlib.redirect_stdout(None):
            running.stop()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), Path())
        print(table(goals(bench)))
    print()
    for name, cost in others():
        print(f"{name:50}{cost:9,.0f} ns")
    for line in bench.absent:
        print(f"not measured: {line}")


if __name__ == "__main__":
    main()
