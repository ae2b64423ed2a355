"""What the hooks share: whether phases are marked, where a thread is, and what was counted."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

# An optimizer step that has begun: how to close its range, id and code of the frame that runs it,
# and who marked it.
OpenStep = tuple[Callable[[], object], int, CodeType, object]


class Here(threading.local):
    """Where the calling thread is. One for all adapters, so that two of them mark nothing twice.

    Attributes:
        depth: module calls, and waits for data, that the thread is in.
        backward: calls of the autograd engine that it marked and is in.
        beside: calls that go with an optimizer's step, marked, that it is in.
        opened: optimizer steps that have begun and not ended, outermost first.
        stepped: optimizer steps that have begun.
        scaling: calls of GradScaler.step that the thread is in.
    """

    depth = 0
    backward = 0
    beside = 0
    stepped = 0
    scaling = 0

    def __init__(self) -> None:
        self.opened: list[OpenStep] = []


here = Here()


@dataclass
class Marking:
    """What hooks of one adapter do, and what they saw.

    Attributes:
        on: phases are marked.
        backwards: backward passes marked.
        steps: optimizer steps marked, those included that GradScaler skipped.
        skipped: optimizer steps that GradScaler skipped.
        ends_of_data: waits that found no more data: native thread id, Unix ns from and until.
        compiled: a module was met that torch.compile has compiled.
    """

    on: bool = False
    backwards: int = 0
    steps: int = 0
    skipped: int = 0
    compiled: bool = False
    ends_of_data: list[tuple[int, int, int]] = field(default_factory=list)

    def begin(self) -> None:
        """Count from zero."""
        self.backwards = self.steps = self.skipped = 0
        self.compiled = False
        self.ends_of_data.clear()


def close_abandoned(new_frame: int = 0) -> None:
    """Close the ranges of optimizer steps that raised: no hook tells of their end.

    Called where a phase begins. A step that is still running is on the stack.

    Args:
        new_frame: id of a frame that has only now begun: a step that bore that id is over.
    """
    if not here.opened:
        return
    running = set()
    frame: Any = sys._getframe(1)
    while frame is not None:
        running.add((id(frame), frame.f_code))
        frame = frame.f_back
    while here.opened:
        leave, step, code, _ = here.opened[-1]
        if step != new_frame and (step, code) in running:
            break
        here.opened.pop()
        leave()


def apart() -> Callable[[], bool]:
    """Return what tells that the calling thread runs backward, or compiles.

    What runs inside the engine is recomputation of activation checkpoints, hooks and further
    backward passes, all a part of Backward, on whichever thread.
    """
    import torch

    in_backward = torch._C._current_graph_task_id
    tracing = torch._guards.TracingContext.try_get

    def elsewhere() -> bool:
        return in_backward() != -1 or tracing() is not None

    return elsewhere
