"""Framework adapters: what one is, and how they are found."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Protocol

from nvtrace.errors import NvtraceError, UsageError
from nvtrace.model.harvest import Harvest

GROUP = "nvtrace.adapters"


class DidNotEnable(NvtraceError):
    """An adapter cannot work here: its framework is missing, or of a version it does not know."""

    code = "did_not_enable"


@dataclass(frozen=True)
class AdapterOptions:
    """What a user asked of the adapters.

    Attributes:
        record_shapes: record the shapes of operators' inputs.
        profile_memory: record the memory that operators allocate.
        with_flops: record FLOPs of operators.
        modules: mark each module or layer.
        operators: record operators, where the framework has a tracer of them.
        in_process: this process records ranges itself; False when they go to a tool only.
        device_collected: nvtrace collects GPU work itself, so the framework's tracer must not.
    """

    record_shapes: bool = False
    profile_memory: bool = False
    with_flops: bool = False
    modules: bool = False
    operators: bool = True
    in_process: bool = True
    device_collected: bool = False


class Adapter(Protocol):
    """Makes a framework tell its waits for data, its steps, phases and operators.

    The order of calls is ``watch``, then for each window ``install``, ``begin``, ``end``,
    ``uninstall`` (``begin`` and ``end`` are left out of a window that never records), and at last
    ``unwatch``. Each pair restores exactly what it changed.

    Attributes:
        framework: the top-level module it adapts, such as ``"torch"``.
    """

    framework: str

    def watch(self, on_wait: Callable[[int], None], on_step: Callable[[], None]) -> None:
        """Put light hooks in place for a whole run.

        Args:
            on_wait: to be called with the ns of each wait for the framework's loader.
            on_step: to be called where a step ends, as far as the framework knows.

        Raises:
            DidNotEnable: the framework is missing or unknown.
        """

    def unwatch(self) -> None:
        """Undo ``watch``."""

    def install(self, options: AdapterOptions) -> None:
        """Put marks of phases in place, through nvtrace.phase and nvtrace.range."""

    def begin(self) -> None:
        """Start the framework's own tracer of operators, where there is one."""

    def end(self) -> Harvest:
        """Stop it, and return what it recorded."""

    def uninstall(self) -> None:
        """Undo ``install``."""


def available() -> dict[str, metadata.EntryPoint]:
    """Return the adapters that installed packages offer, by name."""
    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


def adapters(names: str | Iterable[str] | None) -> list[Adapter]:
    """Return the adapters to use.

    Args:
        names: ``"auto"`` for those of the frameworks this process has imported; None for none; or
            names, one missing being an error.

    Raises:
        UsageError: a name that no adapter has.
    """
    if names is None:
        return []
    offered = available()
    if names == "auto":
        wanted: Sequence[str] = [name for name in sorted(offered) if name in sys.modules]
    else:
        wanted = [names] if isinstance(names, str) else list(names)
    unknown = [name for name in wanted if name not in offered]
    if unknown:
        known = ", ".join(sorted(offered)) or "none"
        raise UsageError(f"no adapter named {unknown[0]!r}: there are {known}")
    return [offered[name].load()() for name in wanted]
