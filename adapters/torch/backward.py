"""Backward, from the calls of the autograd engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvtrace.phases import BACKWARD, phase

from ..patching import Patch
from .marking import Marking, apart, close_abandoned, here


def patch_backward(marking: Marking) -> list[Patch]:
    """Mark outermost calls of the autograd engine as Backward.

    Both torch.autograd.backward and torch.autograd.grad end in one function, which they look up as
    they are called; so whoever imported them by name is seen as well.
    """
    import torch

    compiling = torch.compiler.is_dynamo_compiling
    elsewhere = apart()
    backward = phase(BACKWARD)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def _engine_run_backward(*args: Any, **kwargs: Any) -> Any:
            if compiling() or here.backward or not marking.on or elsewhere():
                return original(*args, **kwargs)
            close_abandoned()
            marking.backwards += 1
            here.backward += 1
            try:
                with backward:
                    return original(*args, **kwargs)
            finally:
                here.backward -= 1

        return _engine_run_backward

    # torch itself replaces both for a while as it traces, and then puts back the second's
    engine = make(torch.autograd.graph._engine_run_backward)
    return [
        Patch(owner, "_engine_run_backward", lambda _: engine)
        for owner in (torch.autograd, torch.autograd.graph)
    ]
