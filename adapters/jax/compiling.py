"""Compilations: tracing, lowering and compiling as ranges, by the events of ``jax.monitoring``.

Each phase tells its start with a scalar and its end with a duration, on the thread that compiles.
A step without compilation fires none of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from nvtrace.emit import switch
from nvtrace.model.schema import RangeKind
from nvtrace.ranges import mark

from .marking import here, mark_of, marking

_PHASES = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}
_CACHE_HIT = "/jax/compilation_cache/cache_hits"
FROM_CACHE = "loaded from the compilation cache"


class _Open(threading.local):
    """The phases that the thread is in, outermost first: (event, what closes its range)."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, Callable[[], None] | None]] = []


class Compilations:
    """Listens from creation to `undo`."""

    def __init__(self) -> None:
        from jax import monitoring

        self._open = _Open()
        if marking.listener is None:  # one is enough for all adapters
            marking.listener = self
        monitoring.register_scalar_listener(self._began)
        monitoring.register_event_duration_secs_listener(self._ended)
        monitoring.register_event_listener(self._happened)

    def undo(self) -> None:
        """Stop listening."""
        if self._listening:
            marking.listener = None
        _unregister("scalar", self._began)
        _unregister("event_duration", self._ended)
        _unregister("event", self._happened)

    @property
    def _listening(self) -> bool:
        return marking.listener is self

    def _began(self, event: str, _: float, **facts: Any) -> None:
        phase = _PHASES.get(event)
        if phase is None or not self._listening:
            return
        close = None
        function = _bare(str(facts.get("fun_name", "")))
        # one trace of a function traces all that it calls: that is the outermost's time
        inner = phase == "trace" and here.compiling
        if not inner:
            marking.compiled.append(function)
            if marking.on and switch.on:
                close = mark_of(f"{phase} {function}".rstrip(), RangeKind.COMPILE).open()
        here.compiling += 1
        self._open.phases.append((event, close))

    def _ended(self, event: str, _: float, **__: Any) -> None:
        phases = self._open.phases
        if event not in _PHASES or not any(begun == event for begun, _ in phases):
            return  # it began before we listened
        while phases:
            begun, close = phases.pop()
            here.compiling -= 1
            if close is not None:
                close()
            if begun == event:
                return

    def _happened(self, event: str, **_: Any) -> None:
        if event == _CACHE_HIT and self._listening and marking.on:
            mark(FROM_CACHE, category="compile")


def _bare(function: str) -> str:
    """Return ``step`` for ``jit(step)``."""
    for prefix in ("jit(", "pjit("):
        if function.startswith(prefix) and function.endswith(")"):
            return function[len(prefix) : -1]
    return function


def _unregister(kind: str, listener: Callable[..., None]) -> None:
    """Take a listener out, by the public function or by the private one of JAX before 0.8."""
    from jax import monitoring
    from jax._src import monitoring as private

    public = getattr(monitoring, f"unregister_{kind}_listener", None)
    own = getattr(private, f"_unregister_{kind}_listener_by_callback", None)
    remove = public or own
    if remove is not None:
        remove(listener)
