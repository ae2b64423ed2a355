"""Forward, and modules, from the one method through which every module is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvtrace.phases import FORWARD, phase

from .marking import apart, close_abandoned, here
from .modules import Modules


class _Calls:
    """What the function in the place of ``torch.nn.Module.__call__`` goes by.

    It has no closure: torch.compile guards what it traced by what a closure holds, and would
    compile anew once the function is taken out. So there is one of it, whoever uses it.

    Attributes:
        original: the method itself.
        compiling: tells that torch.compile is tracing the caller.
        apart: tells that the calling thread runs backward, or compiles.
        users: for each that marks forward passes, how modules are marked, None not at all.
        modules: the last of them that is not None.
        in_place: the function was put in, and not taken out.
        reached: it was called while nobody used it.
    """

    __slots__ = (
        "apart", "compiling", "forward", "in_place", "modules", "original", "reached", "users",
    )  # fmt: skip
    original: Callable[..., Any]
    compiling: Callable[[], bool]
    apart: Callable[[], bool]

    def __init__(self) -> None:
        self.forward = phase(FORWARD)
        self.users: list[Modules | None] = []
        self.modules: Modules | None = None
        self.in_place = False
        self.reached = False


_calls = _Calls()


def _call(module: Any, /, *args: Any, **kwargs: Any) -> Any:
    calls = _calls
    # nothing but this test may run while torch.compile traces the call, lest the graph break
    if calls.compiling():
        return calls.original(module, *args, **kwargs)
    modules = calls.modules
    if not here.depth:
        return _outermost(module, args, kwargs)
    if modules is None:  # most calls by far
        return calls.original(module, *args, **kwargs)
    found = modules.ranges.get(id(module)) or modules.range_of(module)
    if found is None:
        return calls.original(module, *args, **kwargs)
    with found:
        return calls.original(module, *args, **kwargs)


def _outermost(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    calls = _calls
    if not calls.users:
        calls.reached = True
        return calls.original(module, *args, **kwargs)
    found = None if calls.modules is None else calls.modules.range_of(module)
    if calls.apart():
        if found is None:
            return calls.original(module, *args, **kwargs)
        with found:
            return calls.original(module, *args, **kwargs)
    if here.opened:
        close_abandoned()
    here.depth += 1
    try:
        with calls.forward:
            if found is None:
                return calls.original(module, *args, **kwargs)
            with found:
                return calls.original(module, *args, **kwargs)
    finally:
        here.depth -= 1


class ForwardMarks:
    """Marks outermost calls of modules as Forward, until `undo`.

    On the class: a hook costs each call three times as much, and one that is not called on
    KeyboardInterrupt would leave its range open.

    Args:
        modules: mark each call of a module as well, in this way.
    """

    def __init__(self, modules: Modules | None) -> None:
        import torch

        self._modules = modules
        if not _is_in_place():
            _calls.compiling = torch.compiler.is_dynamo_compiling
            _calls.apart = apart()
            _calls.original = torch.nn.Module.__call__
            torch.nn.Module.__call__ = _call
            _calls.in_place = True
        _calls.users.append(modules)
        self._choose()

    def undo(self) -> None:
        """Put the method back, unless another marks as well, or has put something on top."""
        import torch

        _calls.users.remove(self._modules)
        self._choose()
        if not _calls.users and torch.nn.Module.__call__ is _call:
            torch.nn.Module.__call__ = _calls.original
            _calls.in_place = False

    @staticmethod
    def _choose() -> None:
        _calls.modules = next((one for one in reversed(_calls.users) if one is not None), None)


def _is_in_place() -> bool:
    """Whether a call of a module comes to `_call`, be it through what others put on top of it."""
    import torch

    if _calls.in_place and not _calls.users and torch.nn.Module.__call__ is not _call:
        _calls.reached = False
        torch.nn.Identity()(None)
        _calls.in_place = _calls.reached
    return _calls.in_place
