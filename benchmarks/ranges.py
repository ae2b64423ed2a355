"""What a range costs, in ns per enter and exit or per call, beside nvtx.annotate and a bare `with`.

The least of several runs, loop cost taken off. Without a tool attached, or under one:

    python benchmarks/ranges.py
    nsys profile -t nvtx -s none --cpuctxsw=none python benchmarks/ranges.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import nvtx

import nvtrace

ROUNDS, LOOPS = 7, 50_000


class Noop:
    """The least that a `with` can cost."""

    __slots__ = ()

    def __enter__(self) -> Noop:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def plain() -> None:
    pass


def per_loop(body: Callable[[int], None], loops: int = LOOPS) -> float:
    """Least CPU time of one loop of `body`, in ns."""
    times = []
    for _ in range(ROUNDS):
        start = time.thread_time_ns()
        body(loops)
        times.append(time.thread_time_ns() - start)
    return min(times) / loops


def empty(loops: int) -> None:
    for _ in range(loops):
        pass


def entered(manager: object) -> Callable[[int], None]:
    def body(loops: int) -> None:
        for _ in range(loops):
            with manager:
                pass

    return body


def made(factory: Callable[[str], object]) -> Callable[[int], None]:
    def body(loops: int) -> None:
        for _ in range(loops):
            with factory("benchmark"):
                pass

    return body


def called(function: Callable[[], None]) -> Callable[[int], None]:
    def body(loops: int) -> None:
        for _ in range(loops):
            function()

    return body


def main() -> None:
    loop = per_loop(empty)
    noop = per_loop(entered(Noop())) - loop

    def say(name: str, body: Callable[[int], None]) -> None:
        cost = per_loop(body) - loop
        print(f"{name:44}{cost:8.0f} ns{cost / noop:8.1f} x")

    say("with, doing nothing", entered(Noop()))
    say("function call", called(plain))
    for state in ("enabled", "disabled"):
        getattr(nvtrace, state.removesuffix("d"))()
        say(f'with nvtrace.range("x"), {state}', made(nvtrace.range))
        say(f"the same object again, {state}", entered(nvtrace.range("benchmark")))
        say(f"@nvtrace.range, {state}", called(nvtrace.range(plain)))
    nvtrace.enable()
    say('with nvtx.annotate("x")', made(nvtx.annotate))
    say("the same object again", entered(nvtx.annotate("benchmark")))
    say("@nvtx.annotate", called(nvtx.annotate("benchmark")(plain)))


if __name__ == "__main__":
    main()
