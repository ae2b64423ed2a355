"""CUPTI's clock against the clock of the ranges, ``time.time_ns``.

On Linux both are CLOCK_REALTIME, so that setting the clock moves both alike. But another client of
CUPTI may have put its own clock in place, in any unit, and it stays when that client leaves. So
the distance is measured at start, at each flush and at stop, not assumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]

_TRIES = 50
_SAME_NS = 1_000_000


@dataclass(frozen=True)
class Anchor:
    """One moment on both clocks.

    Attributes:
        cupti: CUPTI's reading, in its unit.
        unix: ``time.time_ns``, halfway between the readings before and after CUPTI's.
        width: how far apart those lay, ns.
    """

    cupti: int
    unix: int
    width: int

    @property
    def ahead(self) -> int:
        """Unix time minus CUPTI's, 0 where the reading cannot tell them apart."""
        ahead = self.unix - self.cupti
        return ahead if abs(ahead) > self.width else 0


@dataclass(frozen=True)
class Clock:
    """How times of CUPTI become Unix times.

    Attributes:
        anchors: the measured moments, in order; at least one.
    """

    anchors: tuple[Anchor, ...]

    @property
    def offset_ns(self) -> int:
        """What the host's clock was ahead of CUPTI's when the capture began."""
        return self.anchors[0].ahead

    @property
    def drift_ns(self) -> int:
        """How far the two moved apart over the capture."""
        return self.anchors[-1].ahead - self.anchors[0].ahead

    @property
    def foreign(self) -> bool:
        """Whether CUPTI's clock is not the wall clock: another client has put its own in place."""
        return any(abs(anchor.ahead) > _SAME_NS for anchor in self.anchors)

    def to_unix(self, times: npt.NDArray[np.uint64]) -> I64:
        """Return Unix ns, int64 of shape (n,), of times on CUPTI's clock.

        Between two anchors the clocks are taken to run evenly; beyond the first and the last, as
        they do over the whole capture.
        """
        if not any(anchor.ahead for anchor in self.anchors):
            return times.astype(np.int64)
        first, last = self.anchors[0], self.anchors[-1]
        # as distances from an anchor: floats hold those exactly, but not the time since 1970
        since = times.astype(np.int64) - first.cupti
        places = np.array([anchor.cupti - first.cupti for anchor in self.anchors], np.int64)
        ahead = np.array([anchor.ahead - first.ahead for anchor in self.anchors], np.int64)
        moved = np.interp(since, places, ahead)
        if last.cupti > first.cupti:
            beyond = since - np.clip(since, 0, places[-1])
            moved += beyond * (self.drift_ns / (last.cupti - first.cupti))
        return since + np.rint(moved).astype(np.int64) + (first.cupti + first.ahead)


def measure(timestamp: Callable[[], int]) -> Anchor:
    """Read CUPTI's clock between two readings of the host's; the closest pair counts."""
    best = Anchor(0, 0, 2**62)
    for _ in range(_TRIES):
        before = time.time_ns()
        stamp = timestamp()
        after = time.time_ns()
        if 0 <= after - before < best.width:
            best = Anchor(stamp, (before + after) // 2, after - before)
    return best
