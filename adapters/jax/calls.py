"""Jitted calls, transfers and waits: what a program calls to make JAX work, or to wait for it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from time import perf_counter_ns
from types import MethodType
from typing import Any

from nvtrace.emit import switch
from nvtrace.model.schema import RangeKind

from ..patching import Patch
from .marking import PREFIX, Mark, here, marked, marking


class JitCall:
    """A jitted function whose calls are marked while an adapter is at work.

    All else (``lower``, ``trace``, ``eval_shape``, ``__wrapped__``) is the jitted function's own.

    Args:
        jitted: what jax.jit returned.
    """

    def __init__(self, jitted: Any) -> None:
        functools.update_wrapper(self, jitted)
        # update_wrapper names the jitted function; whoever asks wants the one that was jitted
        self.__wrapped__ = getattr(jitted, "__wrapped__", jitted)
        self._jitted = jitted
        self._mark = Mark(PREFIX + getattr(jitted, "__name__", "function"), RangeKind.DISPATCH)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the jitted function."""
        if here.compiling:
            return self._jitted(*args, **kwargs)  # it is being traced into another function
        if not marking.on or not switch.on or here.quiet:
            result = self._jitted(*args, **kwargs)
        else:
            close = self._mark.open()
            try:
                result = self._jitted(*args, **kwargs)
            finally:
                close()
        if marking.watching:
            marking.calls += 1
            here.result = result
        return result

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name == "_jitted":  # asked for while unpickled
            raise AttributeError(name)
        return getattr(self._jitted, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return JitCall, (self._jitted,)

    def __repr__(self) -> str:
        return repr(self._jitted)


def jit(*args: Any, **kwargs: Any) -> Any:
    """``jax.jit``, with calls that an adapter can mark. For programs that jit before it comes.

    The arguments are those of ``jax.jit``.
    """
    import jax

    return _wrapping(jax.jit)(*args, **kwargs)


def patch_jit() -> Patch:
    """Wrap what jax.jit makes from now on."""
    import jax

    return Patch(jax, "jit", _wrapping)


def _wrapping(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def jit(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        if isinstance(made, JitCall):
            return made
        if hasattr(made, "lower"):
            return JitCall(made)
        return lambda function: JitCall(made(function))  # jit(static_argnums=...)

    return jit


def patch_transfers() -> list[Patch]:
    """Mark copies to and from the device, and waits for it, those included that a program hides."""
    import jax

    array = _array_class()
    put = Mark("device_put", RangeKind.H2D)
    wait = Mark("block_until_ready", RangeKind.SYNC)
    return [
        Patch(jax, "device_put", lambda original: _around(original, put)),
        Patch(jax, "block_until_ready", lambda original: _waiting(original, wait)),
        Patch(array, "block_until_ready", lambda original: _waiting(original, wait)),
        Patch(array, "_value", _reading_property),
        Patch(array, "item", _reading),
    ]


def _array_class() -> Any:
    from jax._src.array import ArrayImpl

    return ArrayImpl


def _around(original: Callable[..., Any], mark: Mark) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return marked(mark, original, *args, **kwargs)

    return _like(original, call)


def _waiting(original: Callable[..., Any], mark: Mark) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return _noting(marked, mark, original, *args, **kwargs)

    return _like(original, call)


def _noting(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call what may wait for the device, and note when that finished the last step."""
    last = here.unfinished
    if last is None or last.is_deleted() or last.is_ready():
        return function(*args, **kwargs)
    try:
        return function(*args, **kwargs)
    finally:
        if last.is_ready():
            here.finished_ns, here.unfinished = perf_counter_ns(), None


def _like(original: Any, wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """Dress a wrapper as functools.wraps does; methods of C++ classes lack a name that is one."""
    if isinstance(getattr(original, "__qualname__", None), str):
        return functools.update_wrapper(wrapper, original)
    return functools.update_wrapper(wrapper, original, assigned=("__doc__",))


def _reading_property(original: Any) -> Any:
    return property(_reading(original.fget), doc=original.__doc__)


def _reading(original: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a read of an array by Python: the wait for the device, and the copy, apart."""
    ready = _array_class().is_ready
    block = _array_class().block_until_ready
    waiting = Mark("wait for array", RangeKind.SYNC)
    copying = Mark("array to host", RangeKind.D2H)

    def read(array: Any, *args: Any) -> Any:
        if getattr(array, "_npy_value", None) is not None:
            return original(array, *args)
        if here.quiet or not marking.on:
            return _noting(original, array, *args)
        if not array.is_deleted() and not ready(array):
            _noting(marked, waiting, block, array)
        return marked(copying, original, array, *args)

    return _like(original, read)
