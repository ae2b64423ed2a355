"""Times of CUPTI on the host's clock, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from nvtrace.sources.cupti import clock
from nvtrace.sources.cupti.clock import Anchor, Clock, measure

T = 1_790_000_000_000_000_000  # a Unix time that no float holds exactly


def times(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def test_one_clock_is_left_alone() -> None:
    fitted = Clock((Anchor(T, T + 30, 200), Anchor(T + 10**9, T + 10**9 - 40, 180)))
    assert fitted.to_unix(times(T + 1, T + 5 * 10**9 + 7)).tolist() == [T + 1, T + 5 * 10**9 + 7]
    assert (fitted.offset_ns, fitted.drift_ns, fitted.foreign) == (0, 0, False)


def test_a_distance_beyond_the_reading_is_taken_off() -> None:
    fitted = Clock((Anchor(T, T + 500, 200),))
    assert fitted.to_unix(times(T - 3, T + 9)).tolist() == [T + 497, T + 509]
    assert not fitted.foreign


def test_a_drift_is_spread_evenly() -> None:
    fitted = Clock(
        (Anchor(T, T, 100), Anchor(T + 1000, T + 1000, 100), Anchor(T + 3000, T + 5000, 100))
    )
    assert fitted.to_unix(times(T + 500, T + 2000, T + 3000)).tolist() == [
        T + 500,
        T + 3000,
        T + 5000,
    ]
    assert fitted.drift_ns == 2000


def test_ticks_of_another_unit() -> None:
    # 2.5 ticks a ns: 1,000 ns are 2,500 ticks
    anchors = Anchor(10**12, T, 90), Anchor(10**12 + 25 * 10**9, T + 10**10, 90)
    fitted = Clock(anchors)
    assert fitted.foreign
    ticks = times(10**12 + 2500, 10**12 + 25 * 10**9 + 2500, 10**12 - 2500)
    assert fitted.to_unix(ticks).tolist() == [T + 1000, T + 10**10 + 1000, T - 1000]


def test_measuring_takes_the_closest_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    now, calls = T, 0

    def slow_but_once() -> int:
        nonlocal now, calls
        now += 40 if calls == 20 else 1_000_000
        calls += 1
        return now + 10**9

    monkeypatch.setattr(clock, "time", SimpleNamespace(time_ns=lambda: now))
    # the twenty-first reading, a second ahead of the host's clock
    assert measure(slow_but_once) == Anchor(T + 20 * 10**6 + 40 + 10**9, T + 20 * 10**6 + 20, 40)
    assert calls == 50
