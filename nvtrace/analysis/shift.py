"""By what factor one sample of times exceeds another, and how sure that is, from ranks alone.

The estimate is the median of all ratios between a value of the one sample and a value of the other,
the interval the one that the test of Mann and Whitney (1947) leaves: Hodges and Lehmann, Annals of
Mathematical Statistics 34 (1963); Bauer, JASA 67 (1972). It takes no distribution for granted, and
a few outliers move it little.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

CONFIDENCE = 0.95
_QUANTILE = 1.959963984540054  # of the normal distribution, for CONFIDENCE on two sides
_EXACT = 900  # pairs, up to which the distribution of the ranks is counted out
_HALVINGS = 80


@dataclass(frozen=True)
class Shift:
    """What one sample is to another.

    Attributes:
        ratio: the factor; 1.1 is 10 per cent more.
        low: lower end of its confidence interval; None where the samples are too small for one.
        high: upper end.
    """

    ratio: float
    low: float | None
    high: float | None


def shift(before: npt.NDArray[np.int64], after: npt.NDArray[np.int64]) -> Shift:
    """Return by what factor ``after`` exceeds ``before``; both hold at least one positive value."""
    first, second = (np.sort(np.log(np.maximum(times, 1))) for times in (before, after))
    pairs = len(first) * len(second)
    middle = [_difference(first, second, k) for k in {(pairs + 1) // 2, pairs // 2 + 1}]
    ratio = float(np.exp(np.mean(middle)))
    outside = left_out(len(first), len(second))
    if not outside:
        return Shift(ratio, None, None)
    low, high = (_difference(first, second, k) for k in (outside, pairs + 1 - outside))
    return Shift(ratio, float(np.exp(low)), float(np.exp(high)))


def left_out(first: int, second: int) -> int:
    """Return which of the ordered differences, from either end, bounds the interval; 0 for none.

    Args:
        first: size of one sample.
        second: size of the other.
    """
    pairs = first * second
    if pairs > _EXACT:
        deviation = (pairs * (first + second + 1) / 12) ** 0.5
        return int(pairs / 2 - _QUANTILE * deviation)
    below = np.cumsum(_rank_sums(first, second))
    return int(np.searchsorted(below, (1 - CONFIDENCE) / 2, side="right"))


def _rank_sums(first: int, second: int) -> F64:
    """Return how likely each number of pairs in one order is where there is no difference.

    The largest value belongs to either sample; the rest is the same question, one value less.
    """
    size = first * second + 1
    row: list[F64] = [np.eye(1, size)[0] for _ in range(first + 1)]
    for m in range(1, second + 1):
        for n in range(1, first + 1):
            above = np.zeros(size)
            above[m:] = row[n - 1][: size - m]
            row[n] = (n * above + m * row[n]) / (n + m)
    return row[first]


def _difference(first: F64, second: F64, k: int) -> float:
    """Return the k-th smallest difference of a value of ``second`` and one of ``first``, sorted."""
    low, high = second[0] - first[-1], second[-1] - first[0]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if np.searchsorted(second, first + middle, side="right").sum() >= k:
            high = middle
        else:
            low = middle
    nearest = np.searchsorted(second, first + high, side="right") - 1
    found = nearest >= 0
    return float((second[nearest[found]] - first[found]).max())
