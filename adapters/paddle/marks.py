"""What stands in the place of Paddle's functions: each marks what it calls, once a thread."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from time import perf_counter_ns, time_ns
from typing import Any

from nvtrace.emit import Label, switch
from nvtrace.phases import (
    BACKWARD,
    COMMUNICATION,
    DATALOADER,
    FORWARD,
    MODULE,
    OPTIMIZATION,
    phase,
)
from nvtrace.ranges import range

from .nested import Ends, Flag, Nested

Function = Callable[..., Any]

_LOSSES = "paddle.nn.layer.loss"
_LEFT = "_nvtrace_left"

# set in a forward or a backward pass, where a layer is no forward pass of its own
_inside = Flag()


class _Open(threading.local):
    """Which phases are open on this thread: what Paddle calls inside is part of them.

    Attributes:
        backward: a backward pass.
        optimization: an optimizer's step.
    """

    backward = False
    optimization = False


class Marks:
    """Makes the replacements. They pass calls on and mark nothing while ``on`` is False.

    Attributes:
        on: whether to mark.
        modules: whether to mark each layer, beside the phases.
        ends_of_data: waits that found no more data: native thread id, Unix ns from and until.
    """

    def __init__(self) -> None:
        self.on = False
        self.modules = False
        self.ends_of_data: list[tuple[int, int, int]] = []
        self._open = _Open()
        self._modules: dict[type, Ends] = {}

    def begin(self) -> None:
        """Mark from now on, for whoever takes ranges now."""
        self._modules.clear()
        self.ends_of_data.clear()
        self.on = True

    def layer(self, original: Function) -> Function:
        """Return a Layer's ``__call__``: the outermost is the forward pass.

        A layer called in the backward pass is part of that. A loss of paddle.nn is no forward
        pass: its time belongs where that of the same loss called as a function does.
        """
        inside, forward = _inside, phase(FORWARD)

        def outermost(layer: Any, *inputs: Any, **kwargs: Any) -> Any:
            if not self.on or not switch.on:
                return original(layer, *inputs, **kwargs)
            inside.on = True
            try:
                if type(layer).__module__ == _LOSSES:
                    return call(layer, *inputs, **kwargs)
                with forward:
                    return call(layer, *inputs, **kwargs)
            finally:
                inside.on = False

        ranges = self._modules if self.modules else None
        call = Nested(original, inside, outermost, ranges, self._module)
        return call

    def _module(self, kind: type) -> Ends:
        """Return what opens and closes the range of a kind of layer, for this window."""
        label = Label(kind.__name__, category=MODULE)
        label.bind(switch.emitter)
        ends = self._modules[kind] = label.push, label.pop
        return ends

    def backward(self, original: Function) -> Function:
        """Return a function that runs the backward pass."""
        opened, inside, backward = self._open, _inside, phase(BACKWARD)

        @functools.wraps(original)
        def run(*args: Any, **kwargs: Any) -> Any:
            if not self.on or opened.backward:
                return original(*args, **kwargs)
            around, inside.on, opened.backward = inside.on, True, True
            try:
                with backward:
                    return original(*args, **kwargs)
            finally:
                inside.on, opened.backward = around, False

        return run

    def optimizer(self, on_step: Callable[[Any], None]) -> Callable[[Function], Function]:
        """Return what makes an optimizer's ``step`` or ``minimize``.

        Args:
            on_step: called with the optimizer where its step ends; an optimizer inside another
                ends none.
        """
        opened, optimization = self._open, phase(OPTIMIZATION)

        def wrap(original: Function) -> Function:
            @functools.wraps(original)
            def step(self_: Any, *args: Any, **kwargs: Any) -> Any:
                if opened.optimization:
                    return original(self_, *args, **kwargs)
                opened.optimization = True
                try:
                    if self.on:
                        with optimization:
                            result = original(self_, *args, **kwargs)
                    else:
                        result = original(self_, *args, **kwargs)
                finally:
                    opened.optimization = False
                on_step(self_)
                return result

            return step

        return wrap

    def loader(self, on_wait: Callable[[int], None]) -> Callable[[Function], Function]:
        """Return what makes a loader iterator's ``__next__``.

        Args:
            on_wait: called with the ns of each wait that brought a batch.
        """
        waiting = phase(DATALOADER)

        def marked(original: Function, iterator: Any) -> Any:
            start = time_ns()
            try:
                with waiting:
                    return original(iterator)
            except StopIteration:
                self.ends_of_data.append((threading.get_native_id(), start, time_ns()))
                raise

        def wrap(original: Function) -> Function:
            @functools.wraps(original)
            def __next__(self_: Any) -> Any:
                left = vars(self_).get(_LEFT)
                if left is None:
                    left = _batches(self_)
                start = perf_counter_ns()
                mark = self.on and not _at_end(self_, left)
                batch = marked(original, self_) if mark else original(self_)
                on_wait(perf_counter_ns() - start)
                setattr(self_, _LEFT, left - 1)
                return batch

            return __next__

        return wrap

    def collective(self, name: str) -> Callable[[Function], Function]:
        """Return what makes a process group's collective.

        Args:
            name: to be shown.
        """
        communication = range(name, category=COMMUNICATION)

        def wrap(original: Function) -> Function:
            @functools.wraps(original)
            def call(*args: Any, **kwargs: Any) -> Any:
                if not self.on:
                    return original(*args, **kwargs)
                with communication:
                    return original(*args, **kwargs)

            return call

        return wrap


def _batches(iterator: Any) -> int:
    """Return how many batches an iterator has to give, a negative number when it cannot tell."""
    try:
        return len(iterator._index_sampler)
    except (AttributeError, TypeError):
        return -1


def _at_end(iterator: Any, left: int) -> bool:
    """Return whether the data has ended: to find that out is no wait for data."""
    outstanding = getattr(iterator, "_batches_outstanding", None)
    if outstanding is not None:  # worker processes; with persistent ones the iterator starts anew
        return bool(outstanding < len(iterator._places))
    return left == 0


class FirstOptimizer:
    """Calls ``on_step`` where the first optimizer ends its step; others are part of that step.

    Args:
        on_step: called on the thread that made this object; optimizers of others are passed over.
    """

    def __init__(self, on_step: Callable[[], None]) -> None:
        self._on_step = on_step
        self._thread = threading.get_ident()
        self._first: Callable[[], Any] = lambda: None

    def __call__(self, optimizer: Any) -> None:
        """Note the end of an optimizer's step."""
        if threading.get_ident() != self._thread:
            return
        first = self._first()
        if first is None:
            self._first = weakref.ref(optimizer)
        elif first is not optimizer:
            return
        self._on_step()
