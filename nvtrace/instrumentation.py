"""Framework adapters: what one is, and how they are found and put in place."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from typing import Protocol

from nvtrace.errors import NvtraceError, UsageError

GROUP = "nvtrace.adapters"


class DidNotEnable(NvtraceError):
    """An adapter cannot work here: its framework is missing, or of a version it does not know."""

    code = "did_not_enable"


class Adapter(Protocol):
    """Makes a framework mark its own steps, phases and operators.

    Attributes:
        framework: the top-level module it adapts, such as ``"torch"``.
    """

    framework: str

    def install(self) -> None:
        """Put the marks in place.

        Raises:
            DidNotEnable: the framework is missing or unknown.
        """

    def uninstall(self) -> None:
        """Restore exactly what ``install`` changed."""


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
    offered = available()
    if names is None:
        return []
    if names == "auto":
        wanted: Sequence[str] = [name for name in sorted(offered) if name in sys.modules]
    else:
        wanted = [names] if isinstance(names, str) else list(names)
    unknown = [name for name in wanted if name not in offered]
    if unknown:
        known = ", ".join(sorted(offered)) or "none"
        raise UsageError(f"no adapter named {unknown[0]!r}: there are {known}")
    return [offered[name].load()() for name in wanted]
