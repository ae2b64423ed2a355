"""Where steps end: where the program says so, and else where its framework does."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns, time_ns

Advance = Callable[[int, int, str, float | None], None]
"""Ends a step, given time.perf_counter_ns, which benchmarks go by; Unix ns, which traces go by; why
the step is no sample; and how much work it did."""


class Boundaries:
    """Decides whose ends of steps count.

    Where a framework ends a step counts when the program ends none. That is known at the second
    such moment, and the first is made good then; or at the first, where `marked` tells.

    Args:
        advance: ends a step.

    Attributes:
        settle: called first where a step may end; returns why it is no sample, "" where it is one.
        marked: whether the program has marked steps, where it does not call `program` itself; None
            where it may.
        by_framework: the framework's count.
    """

    def __init__(self, advance: Advance) -> None:
        self._advance = advance
        self._thread = get_ident()
        self._by_program = False
        self._first: tuple[int, int] | None = None
        self.settle: Callable[[], str] | None = None
        self.marked: Callable[[], bool] | None = None
        self.by_framework = False

    def program(self, num_samples: float | None) -> None:
        """End a step, as the program says that one ends.

        Args:
            num_samples: how much work it did; None where that was not said.
        """
        if not self._by_program:
            self._by_program = True
            self.by_framework = False
            self._first = None
        left_out = self.settle() if self.settle else ""
        self._advance(perf_counter_ns(), time_ns(), left_out, num_samples)

    def framework(self) -> None:
        """Note where a framework ends a step; on the thread that made this object alone."""
        if self._by_program or get_ident() != self._thread:
            return
        left_out = self.settle() if self.settle else ""
        perf_ns, unix_ns = perf_counter_ns(), time_ns()
        if not self.by_framework and not self._counts(perf_ns, unix_ns):
            return
        self._advance(perf_ns, unix_ns, left_out, None)

    def _counts(self, perf_ns: int, unix_ns: int) -> bool:
        """Whether a moment counts, as far as can be told by now."""
        if self.marked is not None:
            self.by_framework = not self.marked()
            return self.by_framework
        if self._first is None:
            self._first = perf_ns, unix_ns
            return False
        self.make_good()
        return True

    def make_good(self) -> None:
        """End the step that the first moment ended, now that it counts."""
        first, self._first = self._first, None
        if first is not None:
            self.by_framework = True
            self._advance(*first, "", None)
