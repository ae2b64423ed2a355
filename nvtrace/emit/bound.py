"""A label with the calls of the emitter in use at hand."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from nvtrace.emit import Label, switch
from nvtrace.emit.native import Block
from nvtrace.errors import UsageError


class Bound(Block):
    """Opens and closes ranges of one label, from its second use on without asking where to."""

    __slots__ = ("__weakref__", "_label")

    def __init__(self, label: Label | None) -> None:
        self._label = label

    @property
    def label(self) -> Label:
        """The label, with its calls bound to the emitter in use.

        Raises:
            UsageError: the range has no name and decorates nothing.
        """
        label = self._label
        if label is None:
            raise UsageError('a range that decorates nothing needs a name: nvtrace.range("name")')
        if label.emitter is not switch.emitter:
            label.bind(switch.emitter)
        return label

    def _push_unbound(self) -> None:
        """Push, and make it quick from the second use on: many a range is used once."""
        if hasattr(self, "_pop"):
            self._bind()()
        else:
            calls = self.label.calls
            self._pop = calls.pop
            calls.push()

    def _bind(self) -> Callable[[], object]:
        """Take the calls of the emitter in use, and be told when that changes; returns push."""
        while True:
            switch.watch(self)
            label = self.label
            push, self._pop = label.calls[:2]
            self._push = push
            if label.emitter is switch.emitter:
                return push

    def switched(self) -> None:
        """Forget the emitter's calls, but the one that closes what is open now."""
        with suppress(AttributeError):
            del self._push

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._label,)
