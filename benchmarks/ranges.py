"""What a range costs, in ns per enter and exit or per call, beside its peers and a bare `with`.

The least of several runs, loop cost taken off, CPU time of the thread; the last column is the
multiple of a `with` that does nothing. Peers that are not installed are left out, and named.
Without a tool attached, or under one:

    python benchmarks/ranges.py
    nsys profile -t nvtx -s none --cpuctxsw=none python benchmarks/ranges.py
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import nvtx

import nvtrace
from nvtrace import Profiler, ProfilerState, ProfilerTarget
from nvtrace.emit.nest import BYTES_PER_RANGE

ROUNDS, LOOPS = 7, 50_000

Body = Callable[[int], None]


class Noop:
    """The least that a `with` can cost."""

    __slots__ = ()

    def __enter__(self) -> Noop:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Costs:
    """Measures and prints, as multiples of a `with` that does nothing."""

    def __init__(self) -> None:
        self._loop = self._noop = 0.0
        self._loop = self.of(empty)
        self._noop = self.of(entered(Noop()))

    def of(self, body: Body, loops: int = LOOPS) -> float:
        """Least CPU time of one loop of `body`, in ns, without the loop."""
        times = []
        for _ in range(ROUNDS):
            start = time.thread_time_ns()
            body(loops)
            times.append(time.thread_time_ns() - start)
        return min(times) / loops - self._loop

    def say(self, name: str, body: Body, loops: int = LOOPS) -> None:
        """Measure one and print it."""
        cost = self.of(body, loops)
        print(f"{name:58}{cost:9.0f} ns{cost / self._noop:8.1f} x", flush=True)


def plain() -> None:
    pass


def empty(loops: int) -> None:
    for _ in range(loops):
        pass


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


def title(text: str) -> None:
    print(f"\n{text}")


def ranges(costs: Costs) -> None:
    """The three ways to use a range."""
    costs.say('with nvtrace.range("x")', made(nvtrace.range))
    costs.say("the same object again", entered(nvtrace.range("benchmark")))
    costs.say("@nvtrace.range", called(nvtrace.range(plain)))


@contextlib.contextmanager
def recorded(**options: Any) -> Iterator[None]:
    with Profiler(targets=[ProfilerTarget.CPU], adapters=None, **options):
        yield


def own(costs: Costs) -> None:
    title("nvtrace, disabled")
    nvtrace.disable()
    ranges(costs)
    nvtrace.enable()
    title("nvtrace, to NVTX")
    ranges(costs)
    title("nvtrace, recorded in the process")
    with recorded(emit_nvtx=False):
        ranges(costs)
    title("nvtrace, recorded and to NVTX")
    with recorded():
        ranges(costs)
        costs.say("with nvtrace.range, another payload each time", payloads, LOOPS // 50)
        costs.say("start and end, as for coroutines", started(nvtrace.range("benchmark").label))
        costs.say("nvtrace.mark", called(lambda: nvtrace.mark("benchmark")))


def payloads(loops: int) -> None:
    for number in range(loops):
        with nvtrace.range("benchmark", payload=number):
            pass


def started(label: Any) -> Body:
    def body(loops: int) -> None:
        for _ in range(loops):
            label.end(label.start())

    return body


def steps(costs: Costs) -> None:
    title("a step of the Profiler")

    def profiler(**options: Any) -> Profiler:
        return Profiler(targets=[ProfilerTarget.CPU], adapters=None, **options)

    # as part of a run: start and stop, and the table that stop prints, are not of a step
    for name, options in {
        "timer_only": {"timer_only": True},
        "outside the windows": {"scheduler": lambda _: ProfilerState.CLOSED},
        "recorded": {},
    }.items():
        running = profiler(**options)
        running.start()
        costs.say(name, called(running.step), LOOPS // 10)
        with contextlib.redirect_stdout(None):
            running.stop()


def nvtx_package(costs: Costs) -> None:
    title("nvtx, to NVTX")
    costs.say('with nvtx.annotate("x")', made(nvtx.annotate))
    costs.say("the same object again", entered(nvtx.annotate("benchmark")))
    costs.say("@nvtx.annotate", called(nvtx.annotate("benchmark")(plain)))


def viztracer(costs: Costs) -> None:
    from viztracer import VizTracer

    title("viztracer, recording")
    tracer = VizTracer(log_sparse=True, verbose=0, tracer_entries=10_000)
    tracer.start()
    costs.say('with tracer.log_event("x")', made(tracer.log_event), LOOPS // 10)
    tracer.stop()
    tracer.clear()


def torch(costs: Costs) -> None:
    from torch.profiler import ProfilerActivity, profile, record_function

    title("torch, not recording")
    costs.say('with record_function("x")', made(record_function), LOOPS // 10)
    title("torch, recording")
    with profile(activities=[ProfilerActivity.CPU]):
        costs.say('with record_function("x")', made(record_function), LOOPS // 10)


def paddle(costs: Costs) -> None:
    from paddle import profiler

    title("paddle, not recording")
    costs.say('with RecordEvent("x")', made(profiler.RecordEvent), LOOPS // 10)
    title("paddle, recording")
    recording = profiler.Profiler(
        targets=[profiler.ProfilerTarget.CPU], on_trace_ready=lambda _: None
    )
    with recording:
        costs.say('with RecordEvent("x")', made(profiler.RecordEvent), LOOPS // 10)


def main() -> None:
    costs = Costs()
    title("Python")
    costs.say("with, doing nothing", entered(Noop()))
    costs.say("function call", called(plain))
    own(costs)
    steps(costs)
    nvtx_package(costs)
    absent = []
    for peer in (viztracer, torch, paddle):
        try:
            peer(costs)
        except ImportError:
            absent.append(peer.__name__)
    print(f"\nA recorded range takes {BYTES_PER_RANGE} bytes.")
    if absent:
        print(f"Not installed, and so not measured: {', '.join(absent)}.")


if __name__ == "__main__":
    main()
