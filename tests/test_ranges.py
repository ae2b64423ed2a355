"""Ranges as an emitter sees them: which calls, in which order, on which thread."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
import pickle
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nvtrace import ranges
from nvtrace.emit import Calls, Label, switch
from nvtrace.errors import UsageError
from nvtrace.ranges import mark, range


class Tape:
    """An emitter that writes down its calls as (call, name), or (call, name, handle)."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.threads: list[int] = []
        self.labels: list[Label] = []
        self.handles = 0

    def write(self, label: Label, *event: Any) -> None:
        self.events.append(event)
        self.labels.append(label)
        self.threads.append(threading.get_ident())

    def bind(self, label: Label) -> Calls:
        name = label.name

        def start() -> int:
            self.handles += 1
            self.write(label, "start", name, self.handles)
            return self.handles

        return Calls(
            lambda: self.write(label, "push", name),
            lambda: self.write(label, "pop", name),
            start,
            lambda handle: self.write(label, "end", name, handle),
            lambda: self.write(label, "mark", name),
        )


@contextlib.contextmanager
def taping() -> Iterator[Tape]:
    tape = Tape()
    before = switch.use(tape)
    ranges.enable()
    try:
        yield tape
    finally:
        ranges.enable()
        switch.use(before)


@pytest.fixture
def tape() -> Iterator[Tape]:
    with taping() as tape:
        yield tape


def call(name: str) -> list[tuple[Any, ...]]:
    return [("push", name), ("pop", name)]


@range
def bare(x: int, *, y: int = 2) -> int:
    """Add."""
    return x + y


@range("named", category="operator")
def named(x: int) -> int:
    return x


@range()
async def coroutine(x: int) -> int:
    await asyncio.sleep(0)
    return x


@range
def generator(n: int) -> Generator[int, Any, str]:
    yield from [0] * n
    return "done"


@range
async def async_generator(n: int) -> AsyncGenerator[int, Any]:
    yield n


class Model:
    @range
    def method(self) -> str:
        return type(self).__name__

    @range
    @classmethod
    def class_outside(cls) -> str:
        return cls.__name__

    @classmethod
    @range
    def class_inside(cls) -> str:
        return cls.__name__

    @range("static")
    @staticmethod
    def static_outside() -> str:
        return "s"

    @staticmethod
    @range
    def static_inside() -> str:
        return "s"


class Child(Model):
    pass


def test_decorated_function_is_a_range_of_its_name(tape: Tape) -> None:
    assert bare(1, y=3) == 4
    assert named(5) == 5
    assert tape.events == call("bare") + call("named")
    assert tape.labels[-1].category == "operator"
    assert tape.labels[0].domain == "nvtrace"


@pytest.mark.parametrize(
    ("name", "shown", "result"),
    [
        ("method", "Model.method", "Child"),
        ("class_outside", "Model.class_outside", "Child"),
        ("class_inside", "Model.class_inside", "Child"),
        ("static_outside", "static", "s"),
        ("static_inside", "Model.static_inside", "s"),
    ],
)
def test_methods_of_every_kind(tape: Tape, name: str, shown: str, result: str) -> None:
    assert getattr(Child(), name)() == result
    assert tape.events == call(shown)


def test_what_a_function_tells_about_itself_is_kept() -> None:
    assert str(inspect.signature(bare)) == "(x: 'int', *, y: 'int' = 2) -> 'int'"
    assert bare.__doc__ == "Add."
    assert bare.__name__ == bare.__qualname__ == "bare"
    assert bare.__module__ == __name__
    assert bare.__wrapped__(1) == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (coroutine, inspect.iscoroutinefunction),
        (generator, inspect.isgeneratorfunction),
        (async_generator, inspect.isasyncgenfunction),
    ],
)
def test_the_kind_of_a_function_is_kept(
    function: Callable[..., Any], kind: Callable[[Any], bool]
) -> None:
    assert kind(function)
    assert not kind(bare)


def test_pickle_and_copy(tape: Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or inspect.getmodule(bare))
    assert pickle.loads(pickle.dumps(bare)) is bare
    for again in (
        pickle.loads(pickle.dumps(range("x", payload=3))),
        copy.deepcopy(range("x", payload=3)),
    ):
        with again:
            pass
        assert (again.label.name, again.label.payload) == ("x", 3)
    assert tape.events == call("x") * 2
    assert pickle.loads(pickle.dumps(switch)) is switch


def test_callables_that_are_no_functions(tape: Tape) -> None:
    class Layer:
        def __call__(self, x: int) -> int:
            return -x

    class AsyncLayer:
        async def __call__(self, x: int) -> int:
            return -x

    assert range(Layer())(1) == -1
    assert range("len")(len)([1, 2]) == 2
    assert asyncio.run(range("async")(AsyncLayer())(1)) == -1
    shown = "test_callables_that_are_no_functions.<locals>.Layer"
    assert tape.events == [*call(shown), *call("len"), ("start", "async", 1), ("end", "async", 1)]


def test_with_block(tape: Tape) -> None:
    with range("outer"), range("inner"):
        mark("moment")
    assert tape.events == [
        ("push", "outer"),
        ("push", "inner"),
        ("mark", "moment"),
        ("pop", "inner"),
        ("pop", "outer"),
    ]


def test_options_reach_the_label(tape: Tape) -> None:
    with range("a", domain="d", category="c", color="#010203", payload=1.5):
        mark("m", domain="e", color=7, payload=2**63 - 1)
    label, marked = tape.labels[:2]
    assert (label.domain, label.category, label.color) == ("d", "c", 0xFF010203)
    assert label.payload == 1.5
    assert (marked.domain, marked.color, marked.payload) == ("e", 7, 2**63 - 1)


def test_one_name_with_and_without_payload(tape: Tape) -> None:
    for payload in (None, 1, None, 2):
        with range("a", payload=payload):
            pass
    assert [label.payload for label in tape.labels[::2]] == [None, 1, None, 2]


def test_exceptions_close_the_range_and_pass(tape: Tape) -> None:
    @range("f")
    def fail() -> None:
        raise KeyError(1)

    with pytest.raises(KeyError), range("block"):
        fail()
    assert tape.events == [("push", "block"), *call("f"), ("pop", "block")]


def test_one_object_open_many_times(tape: Tape) -> None:
    """O-29: range objects are re-entrant and reusable."""
    shared = range("shared")
    with shared, shared:
        with shared:
            pass
        with shared:
            pass
    assert tape.events == [("push", "shared")] * 2 + call("shared") * 2 + [("pop", "shared")] * 2


def test_recursion(tape: Tape) -> None:
    @range("down")
    def down(n: int) -> int:
        return n and 1 + down(n - 1)

    assert down(3) == 3
    assert tape.events == [("push", "down")] * 4 + [("pop", "down")] * 4


def test_threads_share_an_object(tape: Tape) -> None:
    """O-30: ranges of every thread arrive on their thread."""
    shared, together = range("shared"), threading.Barrier(4)

    def work() -> None:
        for _ in "123":
            with shared:
                together.wait(timeout=900)

    threads = [threading.Thread(target=work) for _ in "1234"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for thread in threads:
        mine = [e for e, t in zip(tape.events, tape.threads, strict=True) if t == thread.ident]
        assert mine == call("shared") * 3


def test_interleaved_coroutines_keep_their_own_ranges(tape: Tape) -> None:
    async def main() -> list[int]:
        return await asyncio.gather(coroutine(1), coroutine(2))

    assert asyncio.run(main()) == [1, 2]
    kinds = [(event[0], event[2]) for event in tape.events]
    assert kinds == [("start", 1), ("start", 2), ("end", 1), ("end", 2)]


def test_cancelled_coroutine_ends_its_range(tape: Tape) -> None:
    @range("wait")
    async def wait() -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(wait(), 0.01)

    asyncio.run(main())
    assert tape.events == [("start", "wait", 1), ("end", "wait", 1)]


def test_async_with_in_tasks_that_interleave(tape: Tape) -> None:
    shared = range("shared")

    async def task(turns: int) -> None:
        async with shared:
            for _ in [0] * turns:
                await asyncio.sleep(0)
            async with shared, range("inner"):
                await asyncio.sleep(0)

    async def main() -> None:
        async with shared:
            await asyncio.gather(task(3), task(1))

    asyncio.run(main())
    # Of each task: outer opened first and closed last; the second task is done first.
    assert tape.events == [
        ("start", "shared", 1),
        ("start", "shared", 2),
        ("start", "shared", 3),
        ("start", "shared", 4),
        ("start", "inner", 5),
        ("end", "inner", 5),
        ("end", "shared", 4),
        ("end", "shared", 3),
        ("start", "shared", 6),
        ("start", "inner", 7),
        ("end", "inner", 7),
        ("end", "shared", 6),
        ("end", "shared", 2),
        ("end", "shared", 1),
    ]


def test_async_with_closed_out_of_order(tape: Tape) -> None:
    """O-36: each keeps its own handle."""

    async def main() -> None:
        a, b = range("a"), range("b")
        await a.__aenter__()
        await b.__aenter__()
        await a.__aexit__()
        await a.__aexit__()  # a stray close is nothing
        await b.__aexit__()

    asyncio.run(main())
    assert tape.events == [("start", "a", 1), ("start", "b", 2), ("end", "a", 1), ("end", "b", 2)]


def test_exit_stacks(tape: Tape) -> None:
    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(range("async"))
            stack.enter_context(range("sync"))

    asyncio.run(main())
    assert tape.events == [("start", "async", 1), *call("sync"), ("end", "async", 1)]


# What a generator is asked to do, and what it then does: the decorated one as the plain one.

ACTIONS = st.lists(st.sampled_from(["next", "send", "throw", "close"]), max_size=8)
BODY = st.lists(st.sampled_from(["yield", "catch", "swallow", "raise"]), max_size=4)


def steps(body: list[str], log: list[Any]) -> Generator[Any, Any, str]:
    for turn, kind in enumerate(body):
        if kind == "raise":
            raise LookupError(turn)
        try:
            log.append((yield turn))
        except ValueError as error:
            log.append(error.args)
            if kind == "swallow":
                yield "swallowed"
            elif kind != "catch":
                raise
        except GeneratorExit:
            log.append("closed")
            raise
    return "returned"


async def async_steps(body: list[str], log: list[Any]) -> AsyncGenerator[Any, Any]:
    inner = steps(body, log)
    sent: Any = None
    error: BaseException | None = None
    while True:
        try:
            item = inner.send(sent) if error is None else inner.throw(error)
        except StopIteration:
            return
        await asyncio.sleep(0)
        sent, error = None, None
        try:
            sent = yield item
        except GeneratorExit:
            inner.close()
            raise
        except ValueError as thrown:
            error = thrown


def outcome(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except BaseException as error:
        return type(error), error.args, getattr(error, "value", None)


def drive(function: Callable[..., Any], body: list[str], actions: list[str]) -> Any:
    log: list[Any] = []
    running = function(body, log)
    do = {
        "next": lambda: next(running),
        "send": lambda: running.send("sent"),
        "throw": lambda: running.throw(ValueError("thrown")),
        "close": lambda: running.close(),
    }
    results = [outcome(do[action]) for action in actions]
    running.close()
    return results, log


def drive_async(function: Callable[..., Any], body: list[str], actions: list[str]) -> Any:
    async def main() -> Any:
        log: list[Any] = []
        running = function(body, log)
        do = {
            "next": lambda: running.__anext__(),
            "send": lambda: running.asend("sent"),
            "throw": lambda: running.athrow(ValueError("thrown")),
            "close": lambda: running.aclose(),
        }
        results = []
        for action in actions:
            try:
                results.append(await do[action]())
            except (Exception, StopAsyncIteration) as error:
                results.append((type(error), error.args))
            results.append(len(log))  # what was closed is closed now, not when collected
        await running.aclose()
        return results, log

    return asyncio.run(main())


@given(BODY, ACTIONS)
@example(["yield"], ["next", "close"])
@example(["swallow"], ["next", "throw", "send"])
def test_generator_behaves_as_undecorated(body: list[str], actions: list[str]) -> None:
    plain = drive(steps, body, actions)
    with taping() as tape:
        assert drive(range("g")(steps), body, actions) == plain
    assert tape.events in ([], [("start", "g", 1), ("end", "g", 1)])


@given(BODY, ACTIONS)
@example(["yield"], ["next", "close"])
@example(["swallow"], ["next", "throw", "send"])
def test_async_generator_behaves_as_undecorated(body: list[str], actions: list[str]) -> None:
    plain = drive_async(async_steps, body, actions)
    with taping() as tape:
        assert drive_async(range("g")(async_steps), body, actions) == plain
    assert tape.events in ([], [("start", "g", 1), ("end", "g", 1)])


def test_generator_range_lasts_from_first_step_to_return(tape: Tape) -> None:
    running = generator(1)
    assert tape.events == []
    assert next(running) == 0
    other = generator(1)
    next(other)
    with pytest.raises(StopIteration, match="done"):
        next(running)
    other.close()
    kinds = [(event[0], event[2]) for event in tape.events]
    assert kinds == [("start", 1), ("start", 2), ("end", 1), ("end", 2)]


# Switching on and off.

PROGRAM: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(["on", "off"]),
    lambda inner: st.tuples(
        st.sampled_from(["with", "call", "async"]), st.lists(inner, max_size=4)
    ),
    max_leaves=20,
)
BLOCK, ASYNC = range("block"), range("async")


def expected(program: Any, on: bool, events: list[str]) -> bool:
    """Work out by hand what a program emits; returns whether marking is on after it."""
    if isinstance(program, str):
        return program == "on"
    kind, body = program
    opens, closes = ("start", "end") if kind == "async" else ("push", "pop")
    entered = on
    if entered:
        events.append(opens)
    for part in body:
        on = expected(part, on, events)
    if entered:
        events.append(closes)
    return on


async def run(program: Any) -> None:
    if program == "on":
        ranges.enable()
    elif program == "off":
        ranges.disable()
    else:
        kind, body = program
        await {"with": run_with, "call": run_call, "async": run_async}[kind](body)


async def run_with(body: list[Any]) -> None:
    with BLOCK:
        for part in body:
            await run(part)


@range("call")
def step_through(running: Any) -> None:
    for _ in running.__await__():
        raise AssertionError("nothing here waits")


async def run_call(body: list[Any]) -> None:
    async def inside() -> None:
        for part in body:
            await run(part)

    step_through(inside())


async def run_async(body: list[Any]) -> None:
    async with ASYNC:
        for part in body:
            await run(part)


@given(st.lists(PROGRAM, max_size=4), st.booleans())
def test_switching_inside_ranges_keeps_every_block_whole(program: list[Any], on: bool) -> None:
    events: list[str] = []
    with taping() as tape:
        (ranges.enable if on else ranges.disable)()
        for part in program:
            on = expected(part, on, events)
            step = run(part)
            with contextlib.suppress(StopIteration):
                step.send(None)
        assert ranges.enabled() == on
    assert [event[0] for event in tape.events] == events


def test_disabled_costs_one_flag_test(tape: Tape) -> None:
    """O-33: nothing is called but the methods of ``with``, or the wrapper and its function."""
    seen: list[tuple[str, str]] = []
    shared = range("shared")
    ranges.disable()

    def watch(frame: Any, event: str, argument: Any) -> None:
        seen.append((event, argument.__name__ if event == "c_call" else frame.f_code.co_name))

    sys.setprofile(watch)
    with shared:
        pass
    bare(1)
    sys.setprofile(None)
    calls = [name for event, name in seen if event in ("call", "c_call")]
    made_by_with = {"_pass_in", "_pass_out"}  # by the native ones only the second is seen
    others = [name for name in calls if name not in made_by_with]
    assert others == ["wrapper", "bare", "setprofile"]
    assert tape.events == []


@pytest.mark.parametrize("value", ["0", "off", "FALSE", " no "])
def test_environment_switches_off_for_good(value: str) -> None:
    script = """
import sys
from nvtrace import ranges
def f(): pass
assert ranges.range(f) is f and ranges.range("x")(f) is f
ranges.enable()
assert not ranges.enabled()
with ranges.range("x"): ranges.mark("m")
assert "nvtx" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env={"NVTRACE": value}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (
        0,
        "ranges stay off: NVTRACE=0 is set in the environment\n",
    )


def test_import_loads_neither_nvtx_nor_numpy() -> None:
    script = (
        "import sys, nvtrace.ranges, nvtrace.phases;"
        "assert not {'nvtx', 'numpy', 'torch', 'asyncio'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: range(int), "decorates functions"),
        (lambda: range(property(len)), "decorates functions"),
        (lambda: range("x")(3), "decorates functions"),
        (lambda: range().__enter__(), "needs a name"),
        (lambda: range("x", color="nocolor"), "'nocolor' is no color"),
        (lambda: range("x", color=-1), "-1 is no color"),
        (lambda: range("x", color=[]), "is no color"),
        (lambda: range("x", domain=3), "domain of a range must be a string"),
        (lambda: range("x", payload="3"), "payload"),
        (lambda: range("x", payload=2**63), "payload"),
        (lambda: mark(None), "needs a name"),
    ],
)
def test_mistakes_are_told(tape: Tape, make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()
    assert tape.events == []
