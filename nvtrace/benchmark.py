"""Throughput of a loop: reader_cost, batch_cost and ips, for next to nothing.

batch_cost is the time from one ``step()`` to the next, reader included; reader_cost the part of it
spent waiting for the loader; ips the work done per second. All figures come from the same steps.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.errors import UsageError

WARMUP = 10
KEPT = 1 << 17
_NAMED = 5


@dataclass(frozen=True)
class Spread:
    """The figures of one quantity over the measured steps.

    ``average`` of ips is work per time, which is not the mean of the steps' ips.
    """

    average: float
    median: float
    p95: float
    maximum: float
    minimum: float


@dataclass(frozen=True)
class BenchmarkSummary:
    """Throughput over the measured steps.

    Attributes:
        steps: number of measured steps.
        first: number of the first of them.
        warmup: number of steps skipped before it.
        reader_cost: s a step; None when no loader was seen.
        batch_cost: s a step.
        ips: work per second.
        unit: what ips counts per second, ``steps`` or ``samples``.
        partly_sized: steps that said how many samples they had, when not all did.
        left_out: steps after the warm-up that are no sample, and why, by number.
        rule: what batch_cost rests on where that is not the clock alone.
    """

    steps: int
    first: int
    warmup: int
    reader_cost: Spread | None
    batch_cost: Spread
    ips: Spread
    unit: str
    partly_sized: int
    left_out: Mapping[int, str] = field(default_factory=dict)
    rule: str = ""

    @property
    def reader_ratio(self) -> float | None:
        """Reader time in per cent of batch time, 0 to 100."""
        if self.reader_cost is None:
            return None
        # a quotient of equal floats, times 100, can round past it
        return min(100 * self.reader_cost.average / self.batch_cost.average, 100.0)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


class Benchmark:
    """Measures a loop step by step. Not for use by several threads at once."""

    def __init__(self) -> None:
        self._batch = array("q")
        self._reader = array("q")
        self._samples = array("d")
        self._forgotten = 0
        self._reader_ns = 0
        self._saw_reader = False
        self._since = 0
        self._info_from = 0
        self._left_out: dict[int, str] = {}
        self.rule = ""

    def begin(self) -> None:
        """Start the first step, or go on after a pause that belongs to no step."""
        self._since = perf_counter_ns()

    def read(self, nanoseconds: int) -> None:
        """Add time spent waiting for data to the step that is running."""
        self._reader_ns += nanoseconds
        self._saw_reader = True

    def lengthen(self, nanoseconds: int) -> None:
        """Add time to the step that ended last: what was still running when it ended."""
        if self._batch:
            self._batch[-1] += nanoseconds

    def step(
        self, samples: float | None = None, at_ns: int | None = None, left_out: str = ""
    ) -> None:
        """End the step that is running, and start the next.

        Args:
            samples: how much work it did; None when not said.
            at_ns: when it ended, by ``time.perf_counter_ns``; now by default.
            left_out: why it is no sample, where it is none.

        Raises:
            UsageError: ``samples`` is no amount of work.
        """
        if samples is not None:
            self._size(_amount(samples))
        now = perf_counter_ns() if at_ns is None else at_ns
        if now < self._since:
            left_out = "known to have ended too late"
        if left_out:
            self._left_out[self.steps] = left_out
        self._batch.append(now - self._since)
        self._reader.append(self._reader_ns)
        self._reader_ns = 0
        self._since = now
        if len(self._batch) >= 2 * KEPT:
            self._forget()

    def _size(self, samples: float) -> None:
        """Note how much work the step did that is ending; -1 stands for steps that did not say."""
        self._samples.extend([-1.0] * (len(self._batch) - len(self._samples)))
        self._samples.append(samples)

    @property
    def steps(self) -> int:
        """The number of steps ended so far."""
        return self._forgotten + len(self._batch)

    def _forget(self) -> None:
        """Keep the last KEPT steps of a long run; the figures say which steps they are of."""
        drop = len(self._batch) - KEPT
        for column in (self._batch, self._reader, self._samples):
            del column[:drop]
        self._forgotten += drop
        self._left_out = {n: why for n, why in self._left_out.items() if n >= self._forgotten}

    def info(self, unit: str | None = None) -> str:
        """Return the averages since the last call, or since the start, and say of which steps."""
        first = max(self._info_from, self._forgotten)
        self._info_from = self.steps
        if first >= self.steps:
            return "no step since the last step_info()"
        found = self._summary(first - self._forgotten, 0)
        per = unit if unit and found.unit == "samples" else found.unit
        reader = f"reader_cost: {found.reader_cost.average:.5f} s " if found.reader_cost else ""
        return (
            f"steps {first}..{self.steps - 1}: {reader}"
            f"batch_cost: {found.batch_cost.average:.5f} s ips: {found.ips.average:.5f} {per}/s"
        )

    def summary(self) -> BenchmarkSummary | None:
        """Return the figures after warm-up; None when no step has ended.

        The first WARMUP steps are skipped when there are more than that.
        """
        if not self.steps:
            return None
        warmup = WARMUP if self.steps > WARMUP else 0
        return self._summary(max(warmup - self._forgotten, 0), warmup)

    def _summary(self, skip: int, warmup: int) -> BenchmarkSummary:
        first = self._forgotten + skip
        left_out = {number: why for number, why in self._left_out.items() if number >= first}
        if len(left_out) == len(self._batch) - skip:
            left_out = {}  # better than no figure at all
        kept = np.ones(len(self._batch) - skip, np.bool_)
        kept[[number - first for number in left_out]] = False
        batch = np.array(self._batch[skip:], np.float64)[kept] / 1e9
        reader = np.array(self._reader[skip:], np.float64)[kept] / 1e9
        samples = np.full(len(self._batch), -1.0)
        samples[: len(self._samples)] = self._samples
        samples = samples[skip:][kept]
        batch = np.maximum(batch, 1e-9)
        sized = samples >= 0
        by_samples = bool(sized.all())
        work = samples if by_samples else np.ones(len(batch))
        return BenchmarkSummary(
            steps=len(batch),
            first=first,
            warmup=warmup,
            reader_cost=_spread(reader, float(reader.mean())) if self._saw_reader else None,
            batch_cost=_spread(batch, float(batch.mean())),
            ips=_spread(work / batch, float(work.sum() / batch.sum())),
            unit="samples" if by_samples else "steps",
            partly_sized=0 if by_samples else int(sized.sum()),
            left_out=left_out,
            rule=self.rule,
        )


def _amount(samples: Any) -> float:
    try:
        amount = float(samples)
    except (TypeError, ValueError):
        amount = math.nan
    if not 0 <= amount < math.inf:
        raise UsageError(f"num_samples={samples!r}: give a number, 0 or more, or leave it out")
    return amount


def _spread(values: npt.NDArray[np.float64], average: float) -> Spread:
    low, high = float(values.min()), float(values.max())
    return Spread(
        # a mean of equal floats can round past them
        average=min(max(average, low), high),
        median=float(np.median(values)),
        p95=float(np.percentile(values, 95)),
        maximum=high,
        minimum=low,
    )


def _left_out_line(left_out: Mapping[int, str]) -> str:
    named = [f"{number} ({why})" for number, why in list(left_out.items())[:_NAMED]]
    more = f" and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
    return f"Left out: {', '.join(named)}{more}"


def _lines(found: BenchmarkSummary) -> list[str]:
    titles = ("avg", "max", "min", "median", "p95")
    rows: list[tuple[str, ...]] = [("", *titles)]
    named = {"reader_cost": found.reader_cost, "batch_cost": found.batch_cost, "ips": found.ips}
    for name, spread in named.items():
        if spread is not None:
            values = (
                spread.average,
                spread.maximum,
                spread.minimum,
                spread.median,
                spread.p95,
            )
            rows.append((name, *(f"{value:.5f}" for value in values)))
    table = ["|" + "|".join(f"{cell:^17}" for cell in row) + "|" for row in rows]
    lines = ["Perf Summary".center(len(table[0]), "=")]
    if found.reader_ratio is not None:
        lines.append(f"Reader Ratio: {found.reader_ratio:.3f}%")
    lines.append(f"Time Unit: s, IPS Unit: {found.unit}/s")
    last = found.first + found.steps + len(found.left_out) - 1
    skipped = (
        f"the first {found.warmup} skipped as warm-up"
        if found.warmup
        else "no warm-up skipped in so short a run"
    )
    lines.append(f"Steps {found.first}..{last} ({found.steps}), {skipped}")
    if found.left_out:
        lines.append(_left_out_line(found.left_out))
    if found.rule:
        lines.append(found.rule)
    if found.partly_sized:
        lines.append(f"Only {found.partly_sized} steps said num_samples: ips counts steps")
    if found.reader_cost is None:
        lines.append("No loader seen: wrap yours in nvtrace.dataloader() for reader_cost")
    return [*lines, *table]
