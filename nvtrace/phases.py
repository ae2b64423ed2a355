"""Steps and their phases, the categories nvtrace knows, and paddle's name for a range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvtrace.emit import USER, switch
from nvtrace.errors import UsageError
from nvtrace.ranges import F, Range, range

STEP = "step"
DATALOADER = "dataloader"
FORWARD = "forward"
BACKWARD = "backward"
OPTIMIZATION = "optimization"
COMMUNICATION = "communication"
OPERATOR = "operator"
OPERATOR_INNER = "operator_inner"
MODULE = "module"

PHASES = (DATALOADER, FORWARD, BACKWARD, OPTIMIZATION)
"""What a training step is made of."""

CATEGORIES = (STEP, *PHASES, COMMUNICATION, OPERATOR, OPERATOR_INNER, MODULE, USER)
"""The NVTX categories that carry the kind of a range."""

_PADDLE_CATEGORIES = {
    "ProfileStep": STEP,
    "Dataloader": DATALOADER,
    "Forward": FORWARD,
    "Backward": BACKWARD,
    "Optimization": OPTIMIZATION,
    "Communication": COMMUNICATION,
    "Operator": OPERATOR,
    "PythonOp": OPERATOR,
    "OperatorInner": OPERATOR_INNER,
}


def step(number: int | None = None, *, name: str = "step") -> Range:
    """The range of one training or serving step.

    Args:
        number: of the step; it travels as the payload, so that the name stays one.
        name: the text shown, and what ``nsys profile --capture-range=nvtx`` matches.
    """
    return range(name, category=STEP, payload=number)


def phase(name: str) -> Range:
    """The range of one phase of a step.

    Args:
        name: ``dataloader``, ``forward``, ``backward`` or ``optimization``, in any case.

    Raises:
        UsageError: the name is no phase; other parts of a step are marked with `nvtrace.range`.
    """
    kind = name.lower() if isinstance(name, str) else name
    if kind not in PHASES:
        raise UsageError(
            f"{name!r} is no phase: use {', '.join(PHASES)}, or nvtrace.range for other parts"
        )
    return range(kind, category=kind)


class RecordEvent:
    """A user's range with the interface of ``paddle.profiler.RecordEvent``.

    As decorator and in a ``with`` block it is `nvtrace.range`. `begin` and `end` make a start/end
    range, so that two events may overlap.

    Args:
        name: the text shown.
        event_type: a member of paddle's ``TracerEventType``, or its name; decides the category.
    """

    def __init__(self, name: str, event_type: Any = None) -> None:
        self.name = name
        self.event_type = event_type
        kind = getattr(event_type, "name", event_type)
        self._range = range(name, category=_PADDLE_CATEGORIES.get(kind, USER))
        self._begun: list[tuple[Callable[[Any], object], Any]] = []
        self._exits: list[Callable[..., None]] = []

    def begin(self) -> None:
        """Open the range. Begun twice, it is open twice."""
        if switch.on and not switch.compiling() and switch.live:
            calls = self._range.label.calls
            self._begun.append((calls.end, calls.start()))

    def end(self) -> None:
        """Close what was begun last; without that, nothing happens."""
        if self._begun:
            end, handle = self._begun.pop()
            end(handle)

    def __enter__(self) -> RecordEvent:
        # Looked up on entering, as a with statement does: see nvtrace.ranges on switching.
        self._exits.append(self._range.__exit__)
        self._range.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._exits.pop()(*error)

    def __call__(self, function: F) -> F:
        """Decorate ``function``."""
        return self._range(function)
