"""A method that marks its calls inside others: the one in C does as its definition in Python."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from nvtrace.adapters.paddle.nested import PythonFlag, python_nested

Kind = tuple[Any, Any]
Make = Callable[..., Any]


@pytest.fixture(params=["python", "native"])
def kind(request: pytest.FixtureRequest) -> Kind:
    if request.param == "python":
        return PythonFlag, python_nested
    calls = pytest.importorskip("nvtrace.native.calls", reason="built without a C compiler")
    return calls.Flag, calls.Nested


class Layer:
    def forward(self, x: int, *more: int, times: int = 1) -> int:
        """Multiply."""
        return (x + sum(more)) * times


class Other(Layer):
    pass


class Marked:
    """A class like Layer whose ``forward`` is replaced, and what happened to it."""

    def __init__(self, kind: Kind, ranges: dict[type, Any] | None, original: Any = None) -> None:
        make_flag, make = kind
        self.happened: list[Any] = []
        self.inside = make_flag()
        original = vars(Layer)["forward"] if original is None else original
        self.method = make(original, self.inside, self.outermost, ranges, self.bind)
        self.ranges = ranges

    def outermost(self, *args: Any, **kwargs: Any) -> Any:
        self.happened.append("outermost")
        self.inside.on = True
        try:
            return self.method(*args, **kwargs)
        finally:
            self.inside.on = False

    def bind(self, of: type) -> Any:
        assert self.ranges is not None
        said = self.happened.append
        said(f"bind {of.__name__}")
        ends = self.ranges[of] = (
            lambda: said(f"push {of.__name__}"),
            lambda: said(f"pop {of.__name__}"),
        )
        return ends


@pytest.fixture
def replaced() -> Iterator[Callable[[Any], None]]:
    before = vars(Layer)["forward"]

    def replace(method: Any) -> None:
        Layer.forward = method  # type: ignore[method-assign]

    yield replace
    Layer.forward = before  # type: ignore[method-assign]


def test_calls_inside_are_marked(kind: Kind, replaced: Any) -> None:
    marked = Marked(kind, {})
    replaced(marked.method)
    layer, other = Layer(), Other()
    assert layer.forward(1, 2, times=3) == 9
    first = ["outermost", "bind Layer", "push Layer", "pop Layer"]
    assert marked.happened == first
    marked.inside.on = True
    bound = other.forward
    assert [bound(1, times=2), layer.forward(5), bound(3)] == [2, 5, 3]
    marked.inside.on = False
    ends = ["push Other", "pop Other"]
    assert marked.happened[len(first) :] == [
        *["bind Other", *ends, "push Layer", "pop Layer"],
        *ends,
    ]


def test_without_ranges_nothing_is_marked(kind: Kind) -> None:
    marked = Marked(kind, None)
    assert marked.method(Layer(), 2, times=4) == 8
    assert marked.happened == ["outermost"]


def test_an_error_closes_the_range_and_goes_on(kind: Kind) -> None:
    def fails(_: Any) -> None:
        raise KeyError("mine")

    marked = Marked(kind, {}, fails)
    with pytest.raises(KeyError, match="mine"):
        marked.method(Layer())
    assert marked.happened[-2:] == ["push Layer", "pop Layer"]


@pytest.mark.parametrize("end", [0, 1])
def test_an_error_of_a_range_is_an_error(kind: Kind, end: int) -> None:
    def fails() -> None:
        raise KeyError("theirs")

    ends = [lambda: None, lambda: None]
    ends[end] = fails  # type: ignore[assignment]
    with pytest.raises(KeyError, match="theirs"):
        Marked(kind, {Layer: tuple(ends)}).method(Layer(), 1)


def test_it_looks_like_what_it_replaces(kind: Kind, replaced: Any) -> None:
    original = vars(Layer)["forward"]
    method = Marked(kind, {}).method
    replaced(method)
    assert inspect.signature(Layer.forward) == inspect.signature(original)
    assert inspect.ismethod(Layer().forward)
    assert Layer.forward is method
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        assert getattr(Layer.forward, name) == getattr(original, name)
    assert Layer.forward.__wrapped__ is original  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        Layer.forward.absent  # type: ignore[attr-defined]  # noqa: B018


def test_each_thread_has_its_own_flag(kind: Kind) -> None:
    flag = kind[0]()
    flag.on = True
    seen = []

    def look() -> None:
        seen.append(flag.on)
        flag.on = True
        seen.append(flag.on)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [False, True]
    assert flag.on
    flag.on = False
    assert not flag.on


def test_nothing_is_kept(kind: Kind) -> None:
    marked = Marked(kind, {})
    layer, argument = Layer(), 10**20
    objects = (layer, argument, Layer, marked.method)
    for count in range(2):
        if count == 1:
            before = [sys.getrefcount(one) for one in objects]
        for _ in range(10):
            marked.method(layer, argument)
    assert [sys.getrefcount(one) for one in objects] == before
    gone = weakref.ref(marked)
    del marked, objects
    gc.collect()
    assert gone() is None


def test_the_native_one_refuses_what_is_no_range() -> None:
    calls = pytest.importorskip("nvtrace.native.calls", reason="built without a C compiler")
    with pytest.raises(TypeError, match="dict or None"):
        calls.Nested(print, calls.Flag(), print, [], print)
    flag = calls.Flag()
    flag.on = True
    with pytest.raises(TypeError, match="tuple of push and pop"):
        calls.Nested(print, flag, print, {}, lambda kind: [])(1)
