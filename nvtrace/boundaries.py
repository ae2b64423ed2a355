"""Where steps end: where the program says so, and else where its framework does."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns, time_ns
from typing import NamedTuple


class Moment(NamedTuple):
    """One moment on two clocks: the benchmark's, and the one that traces are stamped with."""

    perf_ns: int
    unix_ns: int

    @classmethod
    def now(cls) -> Moment:
        """Return this moment."""
        return cls(perf_counter_ns(), time_ns())


class Boundaries:
    """Decides whose ends of steps count.

    Where a framework ends a step counts when the program ends none. That is known at the second
    such moment, and the first is made good then.

    Args:
        advance: ends a step at a moment, with what was settled at it.

    Attributes:
        by_framework: the framework's count.
    """

    def __init__(self, advance: Callable[[Moment, str], None]) -> None:
        self._advance = advance
        self._by_program = False
        self._first: Moment | None = None
        self.by_framework = False

    def program(self) -> None:
        """Note that the program ends its steps itself."""
        self._by_program = True
        self.by_framework = False
        self._first = None

    def framework(self, settle: Callable[[], str]) -> None:
        """Note where a framework ends a step.

        Args:
            settle: called first where that may count; returns what of the step is left out.
        """
        if self._by_program:
            return
        left_out = settle()
        now = Moment.now()
        if not self.by_framework and self._first is None:
            self._first = now
            return
        self.make_good()
        self.by_framework = True
        self._advance(now, left_out)

    def make_good(self) -> None:
        """End the step that the first moment ended, now that it counts."""
        first, self._first = self._first, None
        if first is not None:
            self.by_framework = True
            self._advance(first, "")
