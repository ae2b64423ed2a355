"""Marking code: `range` (decorator and context manager), `mark`, and the switch for both.

A range object carries its label and nothing of its uses, so that one object may be open many times
at once: in recursion, in threads, in tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar, overload

from nvtrace import _env
from nvtrace.emit import Label, logger, switch
from nvtrace.emit.native import Block
from nvtrace.errors import UsageError
from nvtrace.wrapping import decorate

F = TypeVar("F", bound="Callable[..., Any] | classmethod[Any, Any, Any]")

_CACHED_RANGES = 4096

# The ``async with`` blocks open in this task, innermost first: (range, end, handle, the rest).
_OpenBlocks = tuple["Range", Callable[[Any], object], Any, Any]
_open_blocks: ContextVar[_OpenBlocks | None] = ContextVar("nvtrace_open_blocks", default=None)


class Range(Block):
    """A labelled range: decorator and context manager, made by `nvtrace.range`."""

    __slots__ = ("__weakref__", "_label", "_options")

    def __init__(self, label: Label | None, options: dict[str, Any]) -> None:
        self._label = label
        self._options = options

    @property
    def label(self) -> Label:
        """The label, with its calls bound to the emitter in use.

        Raises:
            UsageError: the range has no name and decorates nothing.
        """
        label = self._label
        if label is None:
            raise UsageError('a range that decorates nothing needs a name: nvtrace.range("name")')
        if label.emitter is not switch.emitter:
            label.bind(switch.emitter)
        return label

    def _push_unbound(self) -> None:
        """Push, and make it quick from the second use on: many a range is used once."""
        if hasattr(self, "_pop"):
            self._bind()
            self._push()
        else:
            label = self.label
            self._pop = label.pop
            label.push()

    def _bind(self) -> None:
        """Take the calls of the emitter in use, and be told when that changes."""
        while True:
            switch.watch(self)
            label = self.label
            self._push, self._pop = label.push, label.pop
            if label.emitter is switch.emitter:
                return

    def unbind(self) -> None:
        """Forget the emitter's calls, but the one that closes what is open now."""
        with suppress(AttributeError):
            del self._push

    async def __aenter__(self) -> Range:
        label = self.label
        _open_blocks.set((self, label.end, label.start(), _open_blocks.get()))
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

    def __call__(self, function: F) -> F:
        """Decorate ``function``."""
        decorated: F = decorate(function, self._label, self._options)
        return decorated

    def __reduce__(self) -> tuple[Any, ...]:
        return Range, (self._label, self._options)

    def __repr__(self) -> str:
        return f"nvtrace.range({self._label.name!r})" if self._label else "nvtrace.range()"


class _NoRange:
    """What stands for a range in code that torch.compile traces, and for its methods while off."""

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


# A with statement looks up both methods as it enters. So putting others in their place switches the
# blocks entered from then on, and those open now still close what they opened: no flag to test, and
# nothing to remember about a block.
_WHEN_ON = {
    "__enter__": Block.__enter__,
    "__exit__": Block.__exit__,
    "__aenter__": Range.__aenter__,
    "__aexit__": Range.__aexit__,
}
_WHEN_OFF = {
    "__enter__": Block._pass_in,
    "__exit__": Block._pass_out,
    "__aenter__": _NoRange.__aenter__,
    "__aexit__": _NoRange.__aexit__,
}


def _turn(on: bool) -> None:
    switch.on = on
    switch.load()
    for name, method in (_WHEN_ON if on else _WHEN_OFF).items():
        setattr(Range, name, method)


def enable() -> None:
    """Switch marking on. ``NVTRACE=0`` in the environment wins: then nothing is switched on."""
    if _env.marking_allowed():
        _turn(on=True)
    else:
        logger.warning("ranges stay off: %s=0 is set in the environment", _env.NVTRACE)


def disable() -> None:
    """Switch marking off in all threads. Ranges open now are still closed in their time."""
    _turn(on=False)


def enabled() -> bool:
    """Whether ranges are emitted at the moment."""
    return switch.on


if not switch.on:
    _turn(on=False)

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
    if switch.compiling():
        return _NoRange() if name is None or isinstance(name, str) else name
    try:
        made = _ranges[name, domain, category, color]
    except (KeyError, TypeError):
        options: dict[str, Any] = {"domain": domain, "category": category, "color": color}
        if name is not None and not isinstance(name, str):
            return decorate(name, None, {**options, "payload": payload})
        made = Range(None if name is None else Label(name, **options), options)
        if len(_ranges) >= _CACHED_RANGES:
            _ranges.clear()
        _ranges[name, domain, category, color] = made
    if payload is None:
        return made
    if made._label is None:
        return Range(None, {**made._options, "payload": payload})
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
