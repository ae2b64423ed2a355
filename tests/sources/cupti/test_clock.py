"""Times of CUPTI on the host's clock, worked out by hand."""

from __future__ import annotations

import time

import numpy as np

from nvtrace.sources.cupti.clock import Anchor, Clock, measure

T = 1_790_000_000_000_000_000  # a Unix time that no float holds exactly


def times(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def test_one_clock_is_left_alone() -> None:
    clock = Clock((Anchor(T, T + 30, 200), Anchor(T + 10**9, T + 10**9 - 40, 180)))
    assert clock.to_unix(times(T + 1, T + 5 * 10**9 + 7)).tolist() == [T + 1, T + 5 * 10**9 + 7]
    assert (clock.offset_ns, clock.drift_ns, clock.foreign) == (0, 0, False)


def test_a_distance_beyond_the_reading_is_taken_off() -> None:
    clock = Clock((Anchor(T, T + 500, 200),))
    assert clock.to_unix(times(T - 3, T + 9)).tolist() == [T + 497, T + 509]
    assert not clock.foreign


def test_a_drift_is_spread_evenly() -> None:
    clock = Clock(
        (Anchor(T, T, 100), Anchor(T + 1000, T + 1000, 100), Anchor(T + 3000, T + 5000, 100))
    )
    assert clock.to_unix(times(T + 500, T + 2000, T + 3000)).tolist() == [
        T + 500,
        T + 3000,
        T + 5000,
    ]
    assert clock.drift_ns == 2000


def test_ticks_of_another_unit() -> None:
    # 2.5 ticks a ns: 1,000 ns are 2,500 ticks
    anchors = Anchor(10**12, T, 90), Anchor(10**12 + 25 * 10**9, T + 10**10, 90)
    clock = Clock(anchors)
    assert clock.foreign
    ticks = times(10**12 + 2500, 10**12 + 25 * 10**9 + 2500, 10**12 - 2500)
    assert clock.to_unix(ticks).tolist() == [T + 1000, T + 10**10 + 1000, T - 1000]


def test_measuring_takes_the_closest_pair() -> None:
    calls = iter(range(1000))

    def slow_but_once() -> int:
        if next(calls) != 20:
            time.sleep(0.001)
        return time.time_ns() + 10**9

    anchor = measure(slow_but_once)
    assert anchor.width < 1_000_000
    assert abs(anchor.ahead + 10**9) <= anchor.width
    assert next(calls) == 50
