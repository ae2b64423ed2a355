"""Says no to a paddle.profiler.Profiler while nvtrace has Paddle's tracer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from nvtrace.errors import UsageError

from .patches import Patches

_TAKEN = (
    "paddle.profiler cannot record while nvtrace's Profiler does: there is one tracer of operators "
    "in Paddle. stop() nvtrace's Profiler first, or use it for both"
)


def guard_tracer(patches: Patches, taken: Callable[[], bool]) -> None:
    """Raise where a paddle.profiler.Profiler is made that could not get the tracer.

    Paddle itself would fail at its start, about a None. With ``timer_only`` it needs no tracer.

    Args:
        patches: takes the guard away again.
        taken: whether nvtrace has the tracer.
    """
    from paddle import profiler

    def wrap(original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            if taken() and not kwargs.get("timer_only"):
                raise UsageError(_TAKEN)
            original(self, *args, **kwargs)

        return __init__

    patches.put(profiler.Profiler, "__init__", wrap)
