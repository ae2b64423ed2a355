"""Putting something in an attribute's place, and taking exactly that out again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ABSENT = object()


class Patch:
    """An attribute with something else in its place, until `undo`.

    Args:
        owner: class or module.
        name: of the attribute, which may be inherited.
        make: called with what is there now, properties as they are; returns what takes its place.
    """

    def __init__(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        self._owner, self._name = owner, name
        self._before = vars(owner).get(name, _ABSENT)
        as_it_is = isinstance(self._before, property)
        self._ours = make(self._before if as_it_is else getattr(owner, name))
        setattr(owner, name, self._ours)

    def undo(self) -> None:
        """Put back what was there, unless somebody else has put something on top meanwhile.

        What is on top calls ours, which from then on does nothing but call what was there.
        """
        if vars(self._owner).get(self._name) is not self._ours:
            return
        if self._before is _ABSENT:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._before)
