"""When a Profiler records: pure functions from step number to state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from nvtrace.errors import UsageError


class ProfilerState(Enum):
    """What a Profiler does during one step.

    CLOSED costs nothing. READY arms the collectors and keeps nothing. RECORD records, and
    RECORD_AND_RETURN is the last step of a window, after which the result is delivered.
    """

    CLOSED = 0
    READY = 1
    RECORD = 2
    RECORD_AND_RETURN = 3

    @property
    def recording(self) -> bool:
        """Whether events are kept."""
        return self.value >= ProfilerState.RECORD.value


Scheduler = Callable[[int], ProfilerState]


def make_scheduler(
    *, closed: int, ready: int, record: int, repeat: int = 0, skip_first: int = 0
) -> Scheduler:
    """Return a schedule of repeated windows: closed, ready, record, and again.

    Args:
        closed: steps of each cycle that cost nothing.
        ready: steps that arm the collectors and are not kept.
        record: steps that are kept, the last of them as RECORD_AND_RETURN.
        repeat: number of cycles, 0 for no end.
        skip_first: closed steps before the first cycle.

    Raises:
        UsageError: a count is negative or no whole number, or ``record`` is 0.
    """
    for name, value in {
        "closed": closed,
        "ready": ready,
        "record": record,
        "repeat": repeat,
        "skip_first": skip_first,
    }.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise UsageError(f"make_scheduler: {name}={value!r} must be a whole number, 0 or more")
    if record == 0:
        raise UsageError("make_scheduler: record=0 never records; use 1 or more")
    period = closed + ready + record

    def schedule(step: int) -> ProfilerState:
        cycle, place = divmod(step - skip_first, period)
        if step < skip_first or (repeat and cycle >= repeat) or place < closed:
            return ProfilerState.CLOSED
        if place < closed + ready:
            return ProfilerState.READY
        return ProfilerState.RECORD if place < period - 1 else ProfilerState.RECORD_AND_RETURN

    return schedule


def always(_: int) -> ProfilerState:
    """Record every step; the result comes when the Profiler stops."""
    return ProfilerState.RECORD


def as_scheduler(scheduler: Scheduler | Sequence[int] | None) -> Scheduler:
    """Return the schedule that a Profiler's argument means.

    Args:
        scheduler: None to record everything; ``(start, stop)`` to record the steps from ``start``
            to before ``stop``, the step before them being READY; or a function of the step number.

    Raises:
        UsageError: it is none of these.
    """
    if scheduler is None:
        return always
    if callable(scheduler):
        return scheduler
    if not isinstance(scheduler, tuple | list) or len(scheduler) != 2:
        raise UsageError(
            f"scheduler={scheduler!r}: give (start, stop), make_scheduler(...), or a function of "
            "the step number that returns a ProfilerState"
        )
    start, stop = scheduler
    if not all(isinstance(n, int) and not isinstance(n, bool) for n in scheduler) or stop <= start:
        raise UsageError(f"scheduler={scheduler!r}: stop must be a step number after start")
    if stop <= 0:
        raise UsageError(f"scheduler={scheduler!r} ends before step 0, the first there is")
    start = max(start, 0)
    ready = min(start, 1)
    return make_scheduler(closed=start - ready, ready=ready, record=stop - start, repeat=1)
