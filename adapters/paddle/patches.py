"""Functions put in the place of others, and put back by identity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..patching import Patch


class Patches:
    """Replaces attributes of modules and classes; ``restore`` undoes all of it.

    A replacement over which somebody else put another in the meantime cannot be taken out without
    losing theirs: it stays, and must then do nothing but pass calls on.
    """

    def __init__(self) -> None:
        self._made: list[Patch] = []
        self._known: set[tuple[int, str]] = set()

    def put(self, owner: Any, name: str, wrap: Callable[[Any], Callable[..., Any]]) -> None:
        """Replace ``owner.name`` by what ``wrap`` makes of it; what is replaced already stays.

        Args:
            owner: a module, or a class.
            name: an attribute it has, itself or by inheritance.
            wrap: makes the replacement from the present value.
        """
        if (id(owner), name) in self._known:
            return
        self._known.add((id(owner), name))
        self._made.append(Patch(owner, name, wrap))

    def restore(self) -> None:
        """Put back what was there, the last replaced first."""
        self._known.clear()
        while self._made:
            self._made.pop().undo()
