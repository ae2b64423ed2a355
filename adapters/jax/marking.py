"""What the hooks share: where a thread is, and how a stretch of host work is marked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from nvtrace.emit import Label, switch
from nvtrace.model.harvest import category_of
from nvtrace.model.schema import RangeKind

PREFIX = "jit:"


class Here(threading.local):
    """Where the calling thread is.

    Attributes:
        compiling: traces, lowerings and compilations that the thread is in; what runs then is no
            execution.
        quiet: marked calls that the thread is in which stand for all inside them.
        result: what the thread's last jitted call in this step returned, None before the first.
        unfinished: a result of the last step that was not there when it ended, else None.
        finished_ns: when the program itself was done waiting for that, by time.perf_counter_ns.
    """

    compiling = 0
    quiet = 0
    result: Any = None
    unfinished: Any = None
    finished_ns = 0


here = Here()


@dataclass
class Marking:
    """What hooks do, and what they saw. One for all adapters of a process.

    Attributes:
        on: number of adapters that want host work marked.
        watching: number of those that want results of jitted calls kept, for steps to wait for.
        listener: what listens to compilations, None when nothing does.
        compiled: functions compiled since the last step ended.
        calls: jitted calls seen.
    """

    on: int = 0
    watching: int = 0
    listener: object = None
    compiled: list[str] = field(default_factory=list)
    calls: int = 0


marking = Marking()


class Mark:
    """A named stretch of host work: an NVTX range, and a TraceAnnotation for JAX's own tools.

    Args:
        name: the text shown.
        kind: what it stands for.
    """

    __slots__ = ("annotation", "label", "name")

    def __init__(self, name: str, kind: RangeKind) -> None:
        from jax.profiler import TraceAnnotation

        self.name = name
        self.label = Label(name, category=category_of(kind))
        self.annotation = TraceAnnotation

    def open(self) -> Callable[[], None]:
        """Begin; returns what ends it."""
        label = self.label
        if label.emitter is not switch.emitter:
            label.bind(switch.emitter)
        pop = label.pop
        annotation = self.annotation(self.name)
        annotation.__enter__()
        label.push()

        def close() -> None:
            pop()
            annotation.__exit__(None, None, None)

        return close


@lru_cache(maxsize=1024)
def mark_of(name: str, kind: RangeKind) -> Mark:
    """Return the mark of a name and kind; the last ones used are kept."""
    return Mark(name, kind)


def marked(mark: Mark, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return ``function(*args, **kwargs)``, marked as a whole: nothing inside it is."""
    if not marking.on or not switch.on or here.quiet or here.compiling:
        return function(*args, **kwargs)
    here.quiet += 1
    close = mark.open()
    try:
        return function(*args, **kwargs)
    finally:
        close()
        here.quiet -= 1
