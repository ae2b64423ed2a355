"""Forward and Backward, from the calls that every training loop makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvtrace.phases import BACKWARD, FORWARD, phase

from .marking import Marking, close_abandoned, here
from .modules import Modules
from .patching import Patch


def patch_forward(marking: Marking, modules: Modules | None) -> Patch:
    """Mark outermost calls of modules as Forward, and each call of one where ``modules`` says how.

    On the class: a hook costs each call three times as much, and one that is not called on
    KeyboardInterrupt would leave its range open. Nothing but the test for it may run while
    torch.compile traces the call, lest the graph break there.
    """
    import torch

    compiling = torch.compiler.is_dynamo_compiling
    elsewhere = _apart(torch)
    forward = phase(FORWARD)

    def outermost(original: Callable[..., Any]) -> Callable[..., Any]:
        def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:
            if compiling() or here.depth or not marking.on or elsewhere():
                return original(module, *args, **kwargs)
            close_abandoned()
            here.depth += 1
            try:
                with forward:
                    return original(module, *args, **kwargs)
            finally:
                here.depth -= 1

        return __call__

    def every(original: Callable[..., Any]) -> Callable[..., Any]:
        assert modules is not None
        range_of = modules.range_of

        def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:
            if compiling() or not marking.on:
                return original(module, *args, **kwargs)
            found = range_of(module)
            if found is None:
                return original(module, *args, **kwargs)
            with found:
                return original(module, *args, **kwargs)

        return outermost(__call__)

    return Patch(torch.nn.Module, "__call__", outermost if modules is None else every)


def patch_backward(marking: Marking) -> list[Patch]:
    """Mark outermost calls of the autograd engine as Backward.

    Both torch.autograd.backward and torch.autograd.grad end in one function, which they look up as
    they are called; so whoever imported them by name is seen as well.
    """
    import torch

    compiling = torch.compiler.is_dynamo_compiling
    elsewhere = _apart(torch)
    backward = phase(BACKWARD)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def _engine_run_backward(*args: Any, **kwargs: Any) -> Any:
            if compiling() or not marking.on or elsewhere():
                return original(*args, **kwargs)
            close_abandoned()
            marking.backwards += 1
            with backward:
                return original(*args, **kwargs)

        return _engine_run_backward

    # torch itself replaces both for a while as it traces, and then puts back the second's
    engine = make(torch.autograd.graph._engine_run_backward)
    return [
        Patch(owner, "_engine_run_backward", lambda _: engine)
        for owner in (torch.autograd, torch.autograd.graph)
    ]


def _apart(torch: Any) -> Callable[[], bool]:
    """Return what tells that the calling thread runs backward, or compiles.

    What runs inside the engine is recomputation of activation checkpoints, hooks and further
    backward passes, all a part of Backward, on whichever thread.
    """
    in_backward = torch._C._current_graph_task_id
    tracing = torch._guards.TracingContext.try_get

    def elsewhere() -> bool:
        return in_backward() != -1 or tracing() is not None

    return elsewhere
