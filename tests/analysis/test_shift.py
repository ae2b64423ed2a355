"""Ratios of two samples and their interval: against plain search, counting, and printed tables."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import numpy as np
import pytest

from nvtrace.analysis.shift import left_out, shift


def differences(before: list[int], after: list[int]) -> list[float]:
    return sorted(math.log(y) - math.log(x) for x in before for y in after)


@pytest.mark.parametrize("seed", range(40))
def test_ratio_and_interval_are_those_of_all_pairs(seed: int) -> None:
    chosen = random.Random(seed)
    largest = chosen.choice([5, 1000, 10**9])
    before, after = (
        [chosen.randint(1, largest) for _ in range(chosen.randint(1, 25))] for _ in range(2)
    )
    found, pairs = shift(np.array(before), np.array(after)), differences(before, after)
    assert found.ratio == pytest.approx(math.exp(statistics.median(pairs)), rel=1e-12)
    k = left_out(len(before), len(after))
    if k == 0:
        assert (found.low, found.high) == (None, None)
    else:
        ends = [math.exp(pairs[k - 1]), math.exp(pairs[-k])]
        assert [found.low, found.high] == pytest.approx(ends, rel=1e-12)


def by_counting(first: int, second: int) -> int:
    """How many differences to leave out at either end, from every order the values can have."""
    orders = list(itertools.combinations(range(first + second), first))
    # pairs in which a value of the first sample is above one of the second
    above = [sum(place - at for at, place in enumerate(order)) for order in orders]
    k = 0
    while sum(count <= k for count in above) / len(orders) <= 0.025:
        k += 1
    return k


@pytest.mark.parametrize(("first", "second"), list(itertools.product(range(1, 8), repeat=2)))
def test_what_is_left_out_for_small_samples(first: int, second: int) -> None:
    assert left_out(first, second) == by_counting(first, second)


@pytest.mark.parametrize(
    ("first", "second", "critical"),
    [(4, 4, 0), (5, 5, 2), (8, 8, 13), (10, 10, 23), (15, 20, 90), (20, 20, 127)],
)
def test_printed_tables(first: int, second: int, critical: int) -> None:
    """The largest U that is significant at 5 % on two sides, as textbooks print it."""
    assert left_out(first, second) == left_out(second, first) == critical + 1


def test_three_steps_are_too_few() -> None:
    assert left_out(3, 3) == 0
    found = shift(np.array([10, 10, 10]), np.array([20, 20, 20]))
    assert (found.ratio, found.low, found.high) == (pytest.approx(2), None, None)


def test_large_samples_go_by_the_normal_distribution() -> None:
    # 100 * 100 / 2 - 1.96 * sqrt(100 * 100 * 201 / 12) = 5000 - 802.2
    assert left_out(100, 100) == 4197


def test_a_sample_and_itself() -> None:
    times = np.random.default_rng(1).integers(10**6, 2 * 10**6, 500)
    found = shift(times, times)
    assert found.ratio == 1
    assert found.low is not None
    assert found.high is not None
    assert found.low * found.high == pytest.approx(1)
    assert found.low < 1 < found.high
