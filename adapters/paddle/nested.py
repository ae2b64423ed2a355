"""A method that marks its calls inside other calls: `nvtrace.native.calls` where that was built."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

Ends: TypeAlias = tuple[Callable[[], object], Callable[[], object]]
"""What opens and what closes a range."""


class PythonFlag(threading.local):
    """A flag that each thread has for itself.

    Attributes:
        on: whether it is set.
    """

    on = False


def python_nested(
    original: Callable[..., Any],
    inside: PythonFlag,
    outermost: Callable[..., Any],
    ranges: dict[type, Ends] | None,
    bind: Callable[[type], Ends],
) -> Callable[..., Any]:
    """Return what takes the place of a method.

    Args:
        original: the method.
        inside: set on a thread while it is in an outermost call.
        outermost: called instead of the method where that is not set.
        ranges: of each class of instances; None to mark nothing.
        bind: makes the range of a class that has none there yet.
    """

    @functools.wraps(original)
    def method(instance: Any, *args: Any, **kwargs: Any) -> Any:
        if not inside.on:
            return outermost(instance, *args, **kwargs)
        if ranges is None:
            return original(instance, *args, **kwargs)
        ends = ranges.get(type(instance))
        push, pop = bind(type(instance)) if ends is None else ends
        push()
        try:
            return original(instance, *args, **kwargs)
        finally:
            pop()

    return method


if TYPE_CHECKING:
    Flag, Nested = PythonFlag, python_nested
else:
    try:
        from nvtrace.native.calls import Flag, Nested
    except ImportError:
        Flag, Nested = PythonFlag, python_nested
