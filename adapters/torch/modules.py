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
    """

    def __init__(self, marking: Marking) -> None:
        import torch

        self._marking = marking
        self._graph_module = torch.fx.GraphModule
        # by id, as a module's hash is Python code; the reference tells whether it is the one
        self._known: dict[int, tuple[weakref.ref[Any], int, Range | None]] = {}

    def range_of(self, module: Any) -> Range | None:
        """Return the range of a module about to be called; None for one that torch.fx made."""
        known = self._known.get(id(module))
        if known is None or known[0]() is not module:
            for name, inner in module.named_modules():
                self._learn(inner, name)
            known = self._known[id(module)]
        return known[2]

    def _learn(self, module: Any, name: str) -> None:
        """Take a name for a module, unless one is known from further outside."""
        depth = name.count(".") + 1 if name else 0
        known = self._known.get(id(module))
        if known is not None and known[0]() is module and known[1] >= depth:
            return
        if hasattr(module, "_orig_mod") or module._compiled_call_impl is not None:
            self._marking.compiled = True
        made = isinstance(module, self._graph_module)
        found = None if made else marked(name or type(module).__name__, category=MODULE)
        self._known[id(module)] = weakref.ref(module), depth, found
