"""CUPTI's clock against the host's.

Times leave here as Unix nanoseconds on a steady clock: CLOCK_MONOTONIC (``time.perf_counter_ns``)
plus the distance of ``time.time_ns`` from it when the capture began. Where nobody sets the wall
clock meanwhile that is ``time.time_ns`` itself; where somebody does, host and device still agree.

CUPTI's own clock on Linux is the wall clock, unless another client put its own in place. So it is
measured, at start, at each flush and at stop, not assumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]

STEP_NS = 1000
WALL_NS = 1_000_000
_TRIES = 50


@dataclass(frozen=True)
class Anchor:
    """One moment on both clocks, in ns; ``width`` is how far apart the readings around it lay."""

    cupti: int
    monotonic: int
    width: int

    @property
    def ahead(self) -> int:
        """What the host's clock shows minus what CUPTI's shows."""
        return self.monotonic - self.cupti


@dataclass(frozen=True)
class Clock:
    """How times of CUPTI become Unix times.

    Attributes:
        anchors: the measured moments, in order; at least one.
        unix_offset: added to CLOCK_MONOTONIC, ns: measured when the capture began.
    """

    anchors: tuple[Anchor, ...]
    unix_offset: int

    @property
    def wall(self) -> bool:
        """Whether CUPTI's clock is the wall clock, as it is unless another client replaced it."""
        return abs(self.offset_ns + self.unix_offset) < WALL_NS

    @property
    def offset_ns(self) -> int:
        """What CLOCK_MONOTONIC was ahead of CUPTI's clock when the capture began."""
        return self.anchors[0].ahead

    @property
    def drift_ns(self) -> int:
        """How far the two clocks moved apart over the capture."""
        return self.anchors[-1].ahead - self.anchors[0].ahead

    @property
    def steps(self) -> list[tuple[int, int, int]]:
        """Where the wall clock was set: monotonic ns before and after, and how far it moved."""
        if not self.wall:
            return []
        return [
            (one.monotonic, two.monotonic, one.ahead - two.ahead)
            for one, two in zip(self.anchors, self.anchors[1:], strict=False)
            if abs(one.ahead - two.ahead) > STEP_NS + one.width + two.width
        ]

    def to_unix(self, times: npt.NDArray[np.uint64]) -> I64:
        """Return Unix ns, int64 of shape (n,), of times on CUPTI's clock.

        Between two anchors the clocks are taken to run evenly. Where the wall clock was set, the
        moment is unknown, and times up to the next anchor are read as before it.
        """
        first = self.anchors[0]
        # as distances from an anchor, which floats hold exactly, not since 1970
        places = np.array([anchor.cupti - first.cupti for anchor in self.anchors], np.int64)
        ahead = np.array([anchor.ahead - first.ahead for anchor in self.anchors], np.int64)
        since = times.astype(np.int64) - first.cupti
        if self.steps:
            before = np.searchsorted(places, since, "right") - 1
            moved = ahead[np.clip(before, 0, None)]
        else:
            moved = np.rint(_line(since, places, ahead, flat=self.wall)).astype(np.int64)
        return since + moved + (first.monotonic + self.unix_offset)


def _line(at: I64, places: I64, values: I64, *, flat: bool) -> npt.NDArray[np.float64]:
    """Return ``values`` between ``places``; beyond them the outermost value or slope goes on."""
    line = np.interp(at, places, values)
    if flat or len(places) < 2 or places[0] == places[-1]:
        return line
    slope = (values[-1] - values[0]) / (places[-1] - places[0])
    line += np.where(at > places[-1], at - places[-1], 0) * slope
    line += np.where(at < places[0], at - places[0], 0) * slope
    return line


def measure(timestamp: Callable[[], int]) -> Anchor:
    """Read CUPTI's clock between two readings of the host's; the closest pair counts."""
    best = Anchor(0, 0, 2**62)
    for _ in range(_TRIES):
        before = time.perf_counter_ns()
        stamp = timestamp()
        after = time.perf_counter_ns()
        if after - before < best.width:
            best = Anchor(stamp, (before + after) // 2, after - before)
    return best


def unix_offset() -> int:
    """Return how much ``time.time_ns`` is ahead of ``time.perf_counter_ns``."""
    return -measure(time.time_ns).ahead
