"""Operators for a tool that is attached, Nsight Systems above all.

Paddle's GPU wheels send every range of their core to NVTX on request. CPU wheels hold no NVTX:
there the functions that Python calls for forward operators are marked, which leaves out gradients
and what Paddle's C++ calls by itself.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from nvtrace.emit import Label, logger, switch
from nvtrace.model.trace import NOTE_CATEGORY, Note
from nvtrace.phases import OPERATOR

from .patches import Patches

FORWARD_ONLY = Note(
    "forward_operators_only",
    "Paddle's CPU wheel: of its operators only forward ones called from Python are marked",
)


def attached() -> bool:
    """Return whether a tool was injected into this process."""
    return bool(
        os.environ.get("NSYS_PROFILING_SESSION_ID") or os.environ.get("NVTX_INJECTION64_PATH")
    )


class ToolOperators:
    """Marks operators for an attached tool: the core's between ``begin`` and ``end``."""

    def __init__(self) -> None:
        self._patches = Patches()
        self._core: Any = None
        self._on = False

    def install(self) -> None:
        """Mark forward operators, where the core cannot do it."""
        from paddle import _C_ops
        from paddle.base import core

        if _has_nvtx(core):
            self._core = core
            return
        logger.warning("%s", FORWARD_ONLY.message)
        label = Label(f"{FORWARD_ONLY.code}: {FORWARD_ONLY.message}", category=NOTE_CATEGORY)
        label.bind(switch.emitter)
        label.mark()
        for name, function in list(vars(_C_ops).items()):
            if callable(function) and not name.startswith("_"):
                self._patches.put(_C_ops, name, self._marked(name))

    def begin(self) -> None:
        """Let the core send its ranges to NVTX. It waits for the GPU to do so."""
        self._on = True
        if self._core is not None:
            self._core.nvprof_enable_record_event()

    def end(self) -> None:
        """Let it stop."""
        self._on = False
        if self._core is not None:
            self._core.nvprof_disable_record_event()

    def uninstall(self) -> None:
        """Undo ``install``."""
        self._core = None
        self._on = False
        self._patches.restore()

    def _marked(self, name: str) -> Callable[[Any], Callable[..., Any]]:
        """Return what wraps an operator's function: its range goes to the tool alone.

        This process records operators with Paddle's tracer, and must not have them twice.
        """
        label = Label(name, category=OPERATOR)
        label.bind(switch.emitter)
        push, pop = label.push, label.pop

        def wrap(original: Any) -> Callable[..., Any]:
            @functools.wraps(original)
            def call(*args: Any, **kwargs: Any) -> Any:
                if not self._on:
                    return original(*args, **kwargs)
                push()
                try:
                    return original(*args, **kwargs)
                finally:
                    pop()

            return call

        return wrap


def _has_nvtx(core: Any) -> bool:
    return hasattr(core, "nvprof_enable_record_event") and core.get_cuda_device_count() > 0
