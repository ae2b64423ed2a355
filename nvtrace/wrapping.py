"""Decorating a function with a range: one wrapper for each kind of function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from nvtrace import _env
from nvtrace.emit import Label, switch
from nvtrace.emit.bound import Bound
from nvtrace.errors import UsageError


def decorate(function: Any, label: Label | None, options: dict[str, Any]) -> Any:
    """Put a range around each call of ``function``, of which the kind and signature are kept.

    Args:
        function: a function, method, class method, static method or other callable.
        label: of the range; by default named after the function.
        options: the arguments of a default `Label` but its name.

    Returns:
        The wrapped function, or with ``NVTRACE=0`` in the environment the function itself.

    Raises:
        UsageError: it is no function.
    """
    if isinstance(function, (classmethod, staticmethod)):
        return type(function)(decorate(function.__func__, label, options))
    if not callable(function) or isinstance(function, type):
        raise UsageError(
            f"nvtrace.range decorates functions and methods, not {function!r}; "
            "put it under @property, and on the methods of a class"
        )
    if label is None:
        label = Label(getattr(function, "__qualname__", type(function).__qualname__), **options)
    if not _env.marking_allowed():
        return function
    return functools.wraps(function)(_wrapper_kind(function)(function, label))


def _wrapper_kind(function: Callable[..., Any]) -> Callable[[Any, Label], Any]:
    call = type(function).__call__  # a callable object's own method may be a coroutine function
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        return _wrap_coroutine
    if inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(call):
        return _wrap_async_generator
    if inspect.isgeneratorfunction(function) or inspect.isgeneratorfunction(call):
        return _wrap_generator
    return _wrap_function


# In each wrapper, what torch.compile traces ends before `live` is read: a function is not compiled
# anew when a Profiler starts.


def _wrap_function(function: Callable[..., Any], label: Label) -> Callable[..., Any]:
    around = Bound(label)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if switch.on:
            compiling = switch.compiling  # called at once, it would be looked up as a method
            if not compiling() and switch.live:
                return around._call(function, args, kwargs)
        # handing on an empty dictionary would cost a third of the wrapper
        return function(*args, **kwargs) if kwargs else function(*args)

    return wrapper


def _start(label: Label) -> tuple[Callable[[Any], object], Any]:
    """Open a start/end range; returns the call that closes it and the handle for that."""
    if not switch.live:
        return _no_end, None
    if label.emitter is not switch.emitter:
        label.bind(switch.emitter)
    calls = label.calls
    return calls.end, calls.start()


def _no_end(handle: Any) -> None:
    pass


def _wrap_coroutine(function: Callable[..., Any], label: Label) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        end, handle = _start(label)
        try:
            return await function(*args, **kwargs)
        finally:
            end(handle)

    return wrapper


def _wrap_generator(function: Callable[..., Any], label: Label) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        if switch.compiling():
            return (yield from function(*args, **kwargs))
        end, handle = _start(label)
        try:
            return (yield from function(*args, **kwargs))
        finally:
            end(handle)

    return wrapper


def _wrap_async_generator(function: Callable[..., Any], label: Label) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        end, handle = _start(label)
        try:
            generator = function(*args, **kwargs)
            step = generator.__anext__()
            while True:  # what 'yield from' does for a generator
                try:
                    item = await step
                except StopAsyncIteration:
                    return
                try:
                    sent = yield item
                except GeneratorExit:
                    await generator.aclose()
                    raise
                except BaseException as error:
                    step = generator.athrow(error)
                else:
                    step = generator.asend(sent)
        finally:
            end(handle)

    return wrapper
