"""Marking code: `range` (decorator and context manager), `mark`, and the switch for both.

A range object carries its label and nothing of its uses, so that one object may be open many times
at once: in recursion, in threads, in tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar, overload

from nvtrace import _env
from nvtrace.emit import Label, logger, switch
from nvtrace.emit.bound import Bound
from nvtrace.wrapping import decorate

F = TypeVar("F", bound="Callable[..., Any] | classmethod[Any, Any, Any]")
B = TypeVar("B", bound=Bound)

_CACHED_RANGES = 4096

# The ``async with`` blocks open in this task, innermost first: (range, end, handle, the rest).
_OpenBlocks = tuple[Bound, Callable[[Any], object], Any, Any]
_open_blocks: ContextVar[_OpenBlocks | None] = ContextVar("nvtrace_open_blocks", default=None)


class _Live(Bound):
    """What a `with` statement finds in a range while something is emitted."""

    __slots__ = ()

    async def __aenter__(self: B) -> B:
        calls = self.label.calls
        _open_blocks.set((self, calls.end, calls.start(), _open_blocks.get()))
        return self

    async def __aexit__(self, *_: object) -> None:
        inner: list[_OpenBlocks] = []
        block = _open_blocks.get()
        while block is not None and block[0] is not self:
            inner.append(block)
            block = block[3]
        if block is None:
            return  # entered in another task: nothing here tells its handle
        end, handle, rest = block[1:]
        for other in reversed(inner):
            rest = (*other[:3], rest)
        _open_blocks.set(rest)
        end(handle)


class _Still(Bound):
    """What it finds otherwise."""

    __slots__ = ()

    __enter__ = Bound._pass_in
    __exit__ = Bound._pass_out

    async def __aenter__(self: B) -> B:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class Range(_Live):
    """A labelled range: decorator and context manager, made by `nvtrace.range`."""

    __slots__ = ("_options",)

    def __init__(self, label: Label | None, options: dict[str, Any]) -> None:
        super().__init__(label)
        self._options = options

    def __call__(self, function: F) -> F:
        """Decorate ``function``."""
        decorated: F = decorate(function, self._label, self._options)
        return decorated

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._label, self._options)

    def __repr__(self) -> str:
        return f"nvtrace.range({self._label.name!r})" if self._label else "nvtrace.range()"


class _Nameless(Range):
    """A range that can decorate, and nothing else: to enter it is a mistake also while off."""

    __slots__ = ()

    def __enter__(self) -> _Nameless:
        raise AssertionError(self.label)

    async def __aenter__(self) -> _Nameless:
        raise AssertionError(self.label)


class _NoRange:
    """What stands for a range in code that torch.compile traces."""

    def __enter__(self) -> _NoRange:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def __aenter__(self) -> _NoRange:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def __call__(self, function: F) -> F:
        return function


class _Methods:
    """Exchanges the methods of ranges each time that the switch is turned or the emitter changes.

    A with statement looks up both methods as it enters. So those entered from then on find others,
    and those open now still close what they opened: no flag to test, and nothing to remember about
    a block. All methods change in one step, as another thread may be entering a block.
    """

    def switched(self) -> None:
        Range.__bases__ = (_Live if switch.live else _Still,)


_methods = _Methods()
switch.watch(_methods)
_methods.switched()


def enable() -> None:
    """Switch marking on. ``NVTRACE=0`` in the environment wins: then nothing is switched on."""
    if _env.marking_allowed():
        switch.turn(True)
    else:
        logger.warning("ranges stay off: %s=0 is set in the environment", _env.NVTRACE)


def disable() -> None:
    """Switch marking off in all threads. Ranges open now are still closed in their time."""
    switch.turn(False)


def enabled() -> bool:
    """Whether marking is switched on."""
    return switch.on


_ranges: dict[Any, Range] = {}


@overload
def range(name: F) -> F: ...


@overload
def range(
    name: str | None = None,
    *,
    domain: str | None = None,
    category: str | None = None,
    color: str | int | None = None,
    payload: float | None = None,
) -> Range: ...


def range(
    name: Any = None,
    *,
    domain: str | None = None,
    category: str | None = None,
    color: str | int | None = None,
    payload: float | None = None,
) -> Any:
    """Mark a stretch of code, as a decorator (bare or called) or as a context manager.

    Functions and ``with`` blocks nest on their thread (NVTX push/pop). Coroutines, generators,
    async generators and ``async with`` blocks, whose runs interleave, become start/end ranges that
    last from the first step to the last, waits included. In code that torch.compile traces, a range
    is nothing; with ``NVTRACE=0`` in the environment, a decorator returns the function as it is.

    Args:
        name: the text shown; a decorated function's ``__qualname__`` if left out.
        domain: NVTX domain, ``"nvtrace"`` if left out.
        category: NVTX category, ``"user"`` if left out.
        color: 0xAARRGGBB, ``"#RRGGBB"`` or one of a few names.
        payload: a 64-bit integer or a float to go with the range. What varies from one use to the
            next belongs here: a tool keeps every different name in memory.

    Returns:
        The decorated function, or a range to decorate or enter with; one may be open many times.

    Raises:
        UsageError: an argument is of the wrong kind, or what is decorated is no function.
    """
    compiling = switch.compiling  # called at once, it would be looked up as a method
    if compiling():
        return _NoRange() if name is None or isinstance(name, str) else name
    try:
        made = _ranges[name, domain, category, color]
    except (KeyError, TypeError):
        options: dict[str, Any] = {"domain": domain, "category": category, "color": color}
        if name is not None and not isinstance(name, str):
            return decorate(name, None, {**options, "payload": payload})
        made = _Nameless(None, options) if name is None else Range(Label(name, **options), options)
        if len(_ranges) >= _CACHED_RANGES:
            _ranges.clear()
        _ranges[name, domain, category, color] = made
    if payload is None:
        return made
    if made._label is None:
        return _Nameless(None, {**made._options, "payload": payload})
    return Range(made._label.with_payload(payload), made._options)


def mark(
    name: str,
    *,
    domain: str | None = None,
    category: str | None = None,
    color: str | int | None = None,
    payload: float | None = None,
) -> None:
    """Mark a moment. The arguments are those of `range`."""
    if switch.on and not switch.compiling():
        made = range(name, domain=domain, category=category, color=color, payload=payload)
        made.label.mark()
