"""Which call each arrow leaves from."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I32, I64
from nvtrace.model.explained import Explained
from nvtrace.sinks.chrome_choice import Chosen

_PART = 1 << 16


class Launches:
    """The device rows that an arrow joins to each call.

    Attributes:
        first: the first of them, for each row of ``calls``, -1 none; the last, which -1 finds, is
            -1, too.
    """

    def __init__(self, explained: Explained, chosen: Chosen) -> None:
        self.first: I32 = np.full(explained.trace.calls.rows + 1, -1, np.int32)
        call_of = explained.device_call
        others = []
        for start in range(0, len(call_of), _PART):
            rows = start + np.flatnonzero(chosen.arrows[start : start + _PART])
            calls = call_of[rows]
            free = self.first[calls] < 0
            # of several that find their call free, the first is to be the last that is written
            self.first[calls[free][::-1]] = rows[free][::-1]
            others.append(rows[self.first[calls] != rows])
        more = np.concatenate([np.empty(0, np.int64), *others])
        order = np.argsort(call_of[more], kind="stable")
        self._device: I32 = more[order].astype(np.int32)
        self._call: npt.NDArray[np.int32] = call_of[self._device]

    def more(self, calls: I64) -> tuple[I64, I64]:
        """Return how many arrows each of some calls has but the first, and their device rows.

        Args:
            calls: rows of ``calls``, -1 for none, of shape (n,).

        Returns:
            Counts of shape (n,), and the rows one call after the other.
        """
        if not len(self._call):
            return np.zeros_like(calls), np.empty(0, np.int64)
        low = np.searchsorted(self._call, calls)
        count = np.searchsorted(self._call, calls, side="right") - low
        total = int(count.sum())
        place = np.repeat(low - (np.cumsum(count) - count), count) + np.arange(total)
        return count, self._device[place].astype(np.int64)
