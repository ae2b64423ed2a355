"""What the calls inside each range add up to.

A range contains the calls of its thread that neither begin before it nor end after it. Where ranges
nest, these are the calls owned by it and by what lies below it, so totals of owners are added up
from the deepest level. Start/end ranges, and ranges that cross, ask for their calls one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.intervals import sum_at
from nvtrace.model.arrays import distinct
from nvtrace.model.explained import Explained
from nvtrace.model.schema import RangeFlag, RangeStyle

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class _Inside(NamedTuple):
    """Rows of ranges, and the calls inside each: those from ``first`` to before ``last``."""

    rows: I64
    calls: I64
    first: I64
    last: I64


@dataclass(frozen=True)
class Containment:
    """Sums over the calls that each range contains.

    Attributes:
        explained: the trace.
        launching: the calls that count.
    """

    explained: Explained
    launching: Mask

    def total(self, weights: I64) -> I64:
        """Return the sum of ``weights`` of the calls that each range contains.

        Args:
            weights: one a call, 0 for calls that launch nothing.
        """
        explained = self.explained
        total = sum_at(explained.call_range, weights, explained.trace.ranges.rows)
        for level in reversed(explained.range_levels):
            if level.depth:
                total[level.parents] += np.add.reduceat(total[level.rows], level.heads)
        total[self._apart] = 0
        for part in self._inside:
            sums = np.concatenate([[0], np.cumsum(weights[part.calls])])
            total[part.rows] += sums[part.last] - sums[part.first]
        return total

    @cached_property
    def _apart(self) -> I64:
        """Ranges that may contain calls that nothing below them owns."""
        ranges, calls = self.explained.trace.ranges, self.explained.trace.calls
        timed = ranges["style"] != RangeStyle.MARK
        # a call of no length may lie on the border of two ranges, and in both
        instants = self.launching & (calls["start"] == calls["end"])
        if instants.any() or not self.explained.range_levels:
            return np.flatnonzero(timed)
        crossing = (self.explained.range_flags & np.uint8(RangeFlag.CROSSING)) != 0
        return np.flatnonzero(timed & (crossing | (ranges["style"] == RangeStyle.START_END)))

    @cached_property
    def _inside(self) -> list[_Inside]:
        ranges, calls = self.explained.trace.ranges, self.explained.trace.calls
        found = []
        threads, of_call = ranges["thread"][self._apart], calls["thread"]
        for thread in distinct(threads).tolist():
            rows = self._apart[threads == thread]
            left = np.flatnonzero(self.launching & (of_call == thread))
            while len(left):
                # calls of a thread end in the order they start, unless one runs inside another:
                # those that end too early wait for the next round
                ends = calls["end"][left]
                early = ends < np.maximum.accumulate(ends)
                here, left = left[~early], left[early]
                first = np.searchsorted(calls["start"][here], ranges["start"][rows], side="left")
                last = np.searchsorted(calls["end"][here], ranges["end"][rows], side="right")
                found.append(_Inside(rows, here, first, np.maximum(last, first)))
        return found
