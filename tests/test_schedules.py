"""Schedules, step by step; the windows are those that paddle.profiler 3.3.1 was seen to have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvtrace import ProfilerState, UsageError, make_scheduler
from nvtrace.schedules import as_scheduler

LETTERS = {
    ProfilerState.CLOSED: ".",
    ProfilerState.READY: "r",
    ProfilerState.RECORD: "R",
    ProfilerState.RECORD_AND_RETURN: "X",
}


def states(scheduler: Any, steps: int) -> str:
    schedule = as_scheduler(scheduler)
    return "".join(LETTERS[schedule(step)] for step in range(steps))


@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [
        ((3, 14), "..rRRRRRRRRRRX...."),
        ([3, 14], "..rRRRRRRRRRRX...."),
        ((1, 3), "rRX....."),
        ((0, 3), "RRX....."),
        ((-2, 3), "RRX....."),
        ((2, 3), ".rX....."),
        ((0, 1), "X......."),
        (make_scheduler(closed=1, ready=1, record=3, repeat=3), ".rRRX.rRRX.rRRX....."),
        (make_scheduler(closed=1, ready=1, record=4, skip_first=1), "..rRRRX.rRRRX.rRRRX."),
        (make_scheduler(closed=0, ready=0, record=1), "XXXXXXXX"),
        (make_scheduler(closed=0, ready=0, record=2, repeat=1), "RX......"),
        (make_scheduler(closed=0, ready=2, record=1, skip_first=3, repeat=2), "...rrXrrX..."),
        (None, "RRRRRRRR"),
        (lambda step: ProfilerState(step % 4), ".rRX.rRX"),
    ],
)
def test_windows(scheduler: Any, expected: str) -> None:
    assert states(scheduler, len(expected)) == expected


def test_first_at_100_then_every_1000() -> None:
    """O-28: what other schedulers cannot say."""
    schedule = make_scheduler(closed=999, ready=0, record=1, skip_first=0)
    shifted = as_scheduler(lambda step: schedule(step + 899))
    assert [n for n in range(3000) if shifted(n).recording] == [100, 1100, 2100]


count = st.integers(0, 5)


@given(count, count, st.integers(1, 5), st.integers(0, 3), count)
def test_cycles_laid_end_to_end(
    closed: int, ready: int, record: int, repeat: int, skip_first: int
) -> None:
    cycle = "." * closed + "r" * ready + "R" * (record - 1) + "X"
    text = ("." * skip_first + cycle * (repeat or 100)).ljust(100, ".")[:100]
    schedule = make_scheduler(
        closed=closed, ready=ready, record=record, repeat=repeat, skip_first=skip_first
    )
    assert states(schedule, 100) == text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: as_scheduler((5, 5)), r"\(5, 5\): stop must be a step number after start"),
        (lambda: as_scheduler((7, 3)), "stop must be a step number after start"),
        (lambda: as_scheduler((-5, 0)), "ends before step 0"),
        (lambda: as_scheduler((1.0, 3)), "stop must be a step number after start"),
        (lambda: as_scheduler((False, True)), "stop must be a step number after start"),
        (lambda: as_scheduler((1, 2, 3)), r"give \(start, stop\), make_scheduler"),
        (lambda: as_scheduler("13"), r"give \(start, stop\), make_scheduler"),
        (lambda: as_scheduler(5), r"give \(start, stop\), make_scheduler"),
        (lambda: make_scheduler(closed=1, ready=1, record=0), "record=0 never records"),
        (lambda: make_scheduler(closed=-1, ready=1, record=1), "closed=-1 must be a whole number"),
        (lambda: make_scheduler(closed=1, ready=0.5, record=1), "ready=0.5 must be a whole"),
        (lambda: make_scheduler(closed=1, ready=1, record=True), "record=True must be a whole"),
        (lambda: make_scheduler(closed=1, ready=1, record=1, repeat=-1), "repeat=-1 must be"),
        (lambda: make_scheduler(closed=1, ready=1, record=1, skip_first="x"), "skip_first='x'"),
    ],
)
def test_bad_values_are_one_line(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
