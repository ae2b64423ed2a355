"""Modules by the qualified names that they have in the outermost module called."""

from __future__ import annotations

import weakref
from typing import Any

from nvtrace.phases import MODULE
from nvtrace.ranges import Range
from nvtrace.ranges import range as marked

from .marking import Marking


class Modules:
    """Finds the range of each module: ``layers.0.attention``, the outermost by its class.

    Args:
        marking: is told of modules that torch.compile has compiled.

    Attributes:
        ranges: of the modules met so far, by id; None for those that torch.fx made. A module that
            dies is taken out, before another may get its id.
    """

    def __init__(self, marking: Marking) -> None:
        import torch

        self._marking = marking
        self._graph_module = torch.fx.GraphModule
        self._met: dict[int, tuple[weakref.ref[Any], int]] = {}
        self.ranges: dict[int, Range | None] = {}

    def range_of(self, module: Any) -> Range | None:
        """Return the range of a module about to be called, met before or not."""
        if id(module) not in self.ranges:
            for name, inner in module.named_modules():
                self._learn(inner, name)
        return self.ranges[id(module)]

    def _learn(self, module: Any, name: str) -> None:
        """Take a name for a module, unless one is known from further outside."""
        number, depth = id(module), name.count(".") + 1 if name else 0
        if number in self._met and self._met[number][1] >= depth:
            return
        if hasattr(module, "_orig_mod") or module._compiled_call_impl is not None:
            self._marking.compiled = True
        made = isinstance(module, self._graph_module)
        found = None if made else marked(name or type(module).__name__, category=MODULE)
        self._met[number] = weakref.ref(module, lambda _: self._forget(number)), depth
        self.ranges[number] = found

    def _forget(self, number: int) -> None:
        del self._met[number], self.ranges[number]
