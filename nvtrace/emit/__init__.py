"""Where a range goes: its label, the switch that every range tests, and what an emitter does."""

from __future__ import annotations

import logging
import numbers
import re
from collections.abc import Callable
from sys import modules
from typing import Any, NamedTuple, Protocol
from weakref import ref

from nvtrace import _env
from nvtrace.emit.listening import tool_possible
from nvtrace.emit.null import NullEmitter
from nvtrace.errors import UsageError

DOMAIN = "nvtrace"
"""The NVTX domain of every range that names no other."""

USER = "user"
"""The NVTX category of every range that names no other."""

logger = logging.getLogger("nvtrace")

_DEFAULT_COLOR = 0xFF76B900
_COLORS = {
    "blue": 0xFF0000FF,
    "cyan": 0xFF00FFFF,
    "darkgreen": 0xFF006400,
    "green": 0xFF008000,
    "orange": 0xFFFFA500,
    "purple": 0xFF800080,
    "red": 0xFFFF0000,
    "white": 0xFFFFFFFF,
    "yellow": 0xFFFFFF00,
}


class Calls(NamedTuple):
    """What an emitter does for one label. None of the calls may raise.

    Attributes:
        push: opens a range on the calling thread.
        pop: closes it; one that matches nothing is ignored.
        start: opens a range beside the nest and returns a handle.
        end: closes the range of a handle, from any thread and in any order.
        mark: records a moment.
    """

    push: Callable[[], object]
    pop: Callable[[], object]
    start: Callable[[], Any]
    end: Callable[[Any], object]
    mark: Callable[[], object]


class Emitter(Protocol):
    """Takes ranges: NVTX, or nothing."""

    def bind(self, label: Label) -> Calls:
        """The five calls for ``label``; made once, so that a call does no work twice."""


class Label:
    """What a range says about itself, and the calls of the emitter it was last used with.

    Attributes:
        name: the text shown.
        domain: name of the NVTX domain.
        category: name of the NVTX category.
        color: 0xAARRGGBB.
        payload: a 64-bit integer, a float, or None.
        emitter: what the calls go to. The label is bound when, at a use, it is not the switch's.
        calls: of that emitter, set by `bind`; what belongs together is taken from one of them.
        push, pop, start, end, mark: the same, one by one.
    """

    __slots__ = (
        "calls", "category", "color", "domain", "emitter", "end",
        "mark", "name", "payload", "pop", "push", "start",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        domain: str | None = None,
        category: str | None = None,
        color: str | int | None = None,
        payload: float | None = None,
    ) -> None:
        self.name = _text("name", name)
        self.domain = DOMAIN if domain is None else _text("domain", domain)
        self.category = USER if category is None else _text("category", category)
        self.color = _argb(color)
        self.payload = None if payload is None else _number(payload)
        self.emitter: Emitter | None = None
        switch.load()

    def bind(self, emitter: Emitter) -> None:
        """Let the calls go to ``emitter``."""
        self.calls = calls = Calls(*emitter.bind(self))
        self.push, self.pop, self.start, self.end, self.mark = calls
        self.emitter = emitter

    def with_payload(self, payload: float) -> Label:
        """The same label with a payload."""
        label = object.__new__(Label)
        label.name, label.domain, label.category = self.name, self.domain, self.category
        label.color, label.payload, label.emitter = self.color, _number(payload), None
        return label

    def __reduce__(self) -> tuple[Any, ...]:
        return Label, (self.name, self.domain, self.category, self.color, self.payload)


class Watcher(Protocol):
    """Holds what depends on the emitter in use."""

    def switched(self) -> None:
        """Let go of it, or see to it anew."""


class Switch:
    """What every range asks: whether there is something to do, and for whom.

    Attributes:
        on: marking is switched on.
        live: and there is an emitter that does something with ranges.
        emitter: receives the ranges.
        compiling: tells whether torch.compile is tracing the caller.
    """

    __slots__ = ("_idle", "_watching", "compiling", "emitter", "live", "on")

    def __init__(self, on: bool) -> None:
        self.on = on
        self.live = False
        self.emitter: Emitter = NullEmitter()
        self.compiling: Callable[[], bool] = _look_for_torch
        self._idle = self.emitter
        self._watching: dict[int, ref[Watcher]] = {}

    def load(self) -> None:
        """Set up NVTX, once a tool can be listening and nothing else is in use.

        Asked with each new label: importing nvtx takes time, and a tool may come late.
        """
        if self.on and self.emitter is self._idle and tool_possible():
            self._put(_nvtx_emitter())
        self.compiling()

    def turn(self, on: bool) -> None:
        """Switch marking on or off."""
        self.on = on
        self.load()
        self._put(self.emitter)

    def use(self, emitter: Emitter) -> Emitter:
        """Send ranges to ``emitter`` from now on; returns the one before."""
        self.load()
        before = self.emitter
        self._put(emitter)
        return before

    def _put(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.live = self.on and not isinstance(emitter, NullEmitter)
        for reference in list(self._watching.values()):
            watcher = reference()
            if watcher is not None:
                watcher.switched()

    def watch(self, watcher: Watcher) -> None:
        """Tell ``watcher`` when the switch is turned or the emitter changes. It is held weakly."""
        number, watching = id(watcher), self._watching
        watching[number] = ref(watcher, lambda _: watching.pop(number, None))

    def __reduce__(self) -> str:
        return "switch"  # a function pickled by value must find the switch of its new process


def _nvtx_emitter() -> Emitter:
    if not _env.nvtx_allowed():
        return NullEmitter()
    try:
        from nvtrace.emit.nvtx import emitter
    except (ImportError, AttributeError) as error:
        logger.warning(
            "ranges are not recorded: this nvtx package cannot be used (%s); "
            "install another version of nvtx",
            error,
        )
        return NullEmitter()
    return emitter


def _look_for_torch() -> bool:
    """Whether torch.compile is tracing the caller, as long as torch was not seen imported.

    Once it was, torch's own function takes this one's place. Dynamo takes that call for the
    constant True, so a range leaves nothing in compiled code.
    """
    if "torch" not in modules:
        return False
    found: Callable[[], bool] | None = getattr(
        modules.get("torch.compiler"), "is_dynamo_compiling", None
    )
    if found is None:
        return False
    if found():
        return True
    switch.compiling = found
    return False


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(f"the {what} of a range must be a string, not {value!r}")
    # A lone surrogate has no UTF-8, and C strings end at a zero byte.
    return value.encode(errors="backslashreplace").decode().replace("\0", "\\0")


def _argb(color: object) -> int:
    if color is None:
        return _DEFAULT_COLOR
    if isinstance(color, str):
        if color in _COLORS:
            return _COLORS[color]
        if re.fullmatch(r"#([0-9a-fA-F]{2})?[0-9a-fA-F]{6}", color):
            return int(color[1:].rjust(8, "f"), 16)
    elif isinstance(color, int) and 0 <= color <= 0xFFFFFFFF:
        return color
    raise UsageError(
        f"{color!r} is no color: use 0xAARRGGBB, '#RRGGBB' or one of {', '.join(_COLORS)}"
    )


def _number(payload: object) -> float:
    if type(payload) is int and -(2**63) <= payload < 2**63:
        return payload
    # Told by the abstract types, so that a CUDA tensor, whose value would cost a wait, is refused.
    if isinstance(payload, numbers.Integral):
        if -(2**63) <= int(payload) < 2**63:
            return int(payload)
    elif isinstance(payload, numbers.Real):
        return float(payload)
    raise UsageError(f"the payload of a range must be a 64-bit integer or a float, not {payload!r}")


switch = Switch(on=_env.marking_allowed())
