"""Optimization: optimizer steps, and what goes with them; and where a step of training ends."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from nvtrace.phases import OPERATOR, OPTIMIZATION, phase
from nvtrace.ranges import mark
from nvtrace.ranges import range as marked

from ..patching import Patch
from .marking import Marking, close_abandoned, here

SKIPPED = "optimizer step skipped"


class Boundary:
    """Ends a step where the first optimizer's step ends; the others' steps, as a GAN has, do not.

    Attributes:
        on_step: called where a step ends.
        first: returns the first optimizer, as long as it lives.
    """

    def __init__(self, on_step: Callable[[], None]) -> None:
        self.on_step = on_step
        self.first: Callable[[], Any] = lambda: None

    def ended(self, optimizer: Any) -> None:
        """Take note of the end of an optimizer's step."""
        first = self.first()
        if first is None:
            first, self.first = optimizer, weakref.ref(optimizer)
        if first is optimizer:
            self.on_step()


class StepHooks:
    """Marks each optimizer's step, those of optimizers included that exist already.

    Args:
        marking: whether it is marked.
        boundary: is told where a step ends.
    """

    def __init__(self, marking: Marking, boundary: Boundary) -> None:
        import torch
        from torch.optim.optimizer import (
            register_optimizer_step_post_hook,
            register_optimizer_step_pre_hook,
        )

        self._marking = marking
        self._boundary = boundary
        self._compiling = torch.compiler.is_dynamo_compiling
        self._optimization = phase(OPTIMIZATION)
        self._handles = [
            register_optimizer_step_pre_hook(self._begins),
            register_optimizer_step_post_hook(self._ended),
        ]

    def undo(self) -> None:
        """Remove the hooks."""
        while self._handles:
            self._handles.pop().remove()

    def _begins(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._compiling():
            return
        here.stepped += 1
        marking, opened = self._marking, here.opened
        caller = sys._getframe(1)
        frame = id(caller)
        if marking.on and not here.scaling:
            marking.steps += 1
        if opened:
            _, last, _, owner = opened[-1]
            if last == frame and owner is not self:
                return  # another adapter has marked it
            close_abandoned(frame)
        if marking.on:
            step = self._optimization
            leave = step.__exit__
            step.__enter__()
            opened.append((leave, frame, caller.f_code, self))

    def _ended(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._compiling():
            return
        opened = here.opened
        if opened and opened[-1][1] == id(sys._getframe(1)):
            opened.pop()[0]()
        boundary = self._boundary
        if boundary.first() is optimizer:
            boundary.on_step()
        else:
            boundary.ended(optimizer)


def patch_scaler(marking: Marking, boundary: Boundary) -> Patch:
    """Mark GradScaler.step as Optimization, and the steps that it skips as skipped.

    A skipped step is a step all the same. Optimizers that are handed the scale, the fused ones,
    decide on the device whether they skip, which is not seen here.
    """
    import torch

    optimization = phase(OPTIMIZATION)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if not scaler.is_enabled():
                return original(scaler, optimizer, *args, **kwargs)
            before = here.stepped
            close_abandoned()
            if not marking.on:
                result = original(scaler, optimizer, *args, **kwargs)
            else:
                marking.steps += 1
                here.scaling += 1
                try:
                    with optimization:
                        result = original(scaler, optimizer, *args, **kwargs)
                finally:
                    here.scaling -= 1
            if here.stepped == before:
                if marking.on:
                    marking.skipped += 1
                    mark(SKIPPED, category=OPTIMIZATION)
                boundary.ended(optimizer)
            return result

        return step

    return Patch(torch.amp.GradScaler, "step", make)


def patch_beside(marking: Marking) -> Iterator[Patch]:
    """Mark what goes with an optimizer's step as operators of these names."""
    import torch
    from torch.optim import lr_scheduler

    yield _marked(marking, torch.optim.Optimizer, "zero_grad", "Optimizer.zero_grad")
    yield _marked(marking, torch.amp.GradScaler, "unscale_", "GradScaler.unscale_")
    yield _marked(marking, torch.amp.GradScaler, "update", "GradScaler.update")
    for scheduler in _with_step(lr_scheduler.LRScheduler):
        yield _marked(marking, scheduler, "step", "lr_scheduler.step")


def _marked(marking: Marking, owner: type, name: str, label: str) -> Patch:
    import torch

    compiling = torch.compiler.is_dynamo_compiling
    operator = marked(label, category=OPERATOR)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if compiling() or here.beside or not marking.on:
                return original(*args, **kwargs)
            here.beside += 1
            try:
                with operator:
                    return original(*args, **kwargs)
            finally:
                here.beside -= 1

        return wrapper

    return Patch(owner, name, make)


def _with_step(scheduler: type[Any]) -> Iterator[type]:
    """Yield a class and those derived from it, as far as each has a ``step`` of its own."""
    if "step" in vars(scheduler):
        yield scheduler
    for derived in scheduler.__subclasses__():
        yield from _with_step(derived)
