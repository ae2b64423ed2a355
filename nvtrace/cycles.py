"""Takes a run through its schedule: opens windows, marks steps in them, delivers them."""

from __future__ import annotations

from collections.abc import Callable
from time import time_ns

from nvtrace.errors import UsageError
from nvtrace.lifecycle import undisturbed
from nvtrace.schedules import ProfilerState, Scheduler, always
from nvtrace.trace import Trace
from nvtrace.window import Window


class Cycles:
    """One run.

    Args:
        schedule: from step number to state.
        open_window: makes an armed window.
        deliver: called with each window's trace, once.

    Attributes:
        state: of the step that is running.
        window: the one that is open, None when none is.
        delivered: number of windows delivered.
        recorded: a step reached RECORD.
        steady: where nothing changes from here on but that steps end: what is called with the Unix
            time of each end in the place of `enter`.
    """

    def __init__(
        self,
        schedule: Scheduler,
        open_window: Callable[[], Window],
        deliver: Callable[[Trace], object],
    ) -> None:
        self._schedule = schedule
        self._open_window = open_window
        self._hand_over = deliver
        self._over = False
        self.state = ProfilerState.CLOSED
        self.window: Window | None = None
        self.delivered = 0
        self.recorded = False
        self.steady: Callable[[int], object] | None = None

    def enter(self, step: int, at_ns: int) -> None:
        """End the step before, if any, and do what the schedule wants for this one.

        Args:
            step: its number.
            at_ns: Unix time at which it began; where a window opens or closes, that takes time
                which is no step's, and the step begins after it.

        Raises:
            UsageError: the schedule returned something else than a state.
        """
        window = self.window
        if window is not None:
            window.steps.end(at_ns)
        before, state = self.state, self._schedule(step)
        if state is before is ProfilerState.RECORD and window is not None:
            if window.steps.onward is not None:  # else it begins where the last one ended
                window.steps.begin(step, at_ns)
        elif state is not before or state is not ProfilerState.CLOSED:
            with undisturbed:
                self._change(_checked(state, step), step, at_ns)

    def _change(self, state: ProfilerState, step: int, at_ns: int) -> None:
        window, before, self.state = self.window, self.state, state
        try:
            if before is ProfilerState.RECORD_AND_RETURN or before.recording > state.recording:
                self._deliver(cut_short=False)
            elif state is ProfilerState.CLOSED:
                self.drop()
        finally:
            if not self._over:  # a handler may have stopped the Profiler
                self._begin(step, at_ns if window is self.window else None)

    def _begin(self, step: int, at_ns: int | None) -> None:
        if self.state is ProfilerState.CLOSED:
            return
        if self.window is None:
            self.window = self._open_window()
        if self.state.recording:
            self.recorded = True
            if self.window.record():
                at_ns = None
            steps = self.window.steps
            steps.begin(step, time_ns() if at_ns is None else at_ns)
            if self._schedule is always and steps.onward is None:
                self.steady = steps.times.append

    def end(self, *, cut_short: bool) -> None:
        """Deliver what is open.

        Args:
            cut_short: the schedule wanted more.
        """
        self._over = True
        self.steady = None
        self._deliver(cut_short=cut_short)

    def drop(self, *, forked: bool = False) -> None:
        """Give up what is open.

        Args:
            forked: this is the child of a fork, and the tracers are the parent's.
        """
        self.steady = None
        window, self.window = self.window, None
        if window is not None and forked:
            window.forsake()
        elif window is not None:
            window.abandon()

    def _deliver(self, *, cut_short: bool) -> None:
        if self.window is None or not self.window.recording:
            self.drop()
            return
        window, self.window = self.window, None
        trace = window.finish(cut_short=cut_short)
        if cut_short and not (trace.ranges.rows or trace.calls.rows or trace.device.rows):
            return  # the run ended with the window before
        self.delivered += 1
        self._hand_over(trace)


def _checked(state: object, step: int) -> ProfilerState:
    if not isinstance(state, ProfilerState):
        raise UsageError(
            f"the scheduler returned {state!r} for step {step}: return a ProfilerState"
        )
    return state
