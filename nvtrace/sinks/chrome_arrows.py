"""Which call each arrow leaves from."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I32, I64, picked
from nvtrace.model.explained import Explained
from nvtrace.sinks.chrome_choice import Chosen

_PART = 1 << 16


class Behind:
    """What stands right behind some rows of a table.

    Args:
        rows: rows, ascending; one may come several times.
        what: what stands behind each.
        count: how many rows the table has.
    """

    def __init__(
        self, rows: npt.NDArray[np.integer], what: npt.NDArray[np.integer], count: int
    ) -> None:
        self._rows = rows
        self._what = what
        self._known = np.zeros(count + 1 if len(rows) else 0, np.bool_)
        self._known[rows] = True

    def find(self, rows: I32) -> tuple[I64, I64]:
        """Return which of ``rows`` are followed, by their place, ascending, and by what.

        Args:
            rows: rows of the table, -1 for none.
        """
        if not len(self._rows):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        followed = np.flatnonzero(self._known.take(rows))
        low, high = (
            np.searchsorted(self._rows, rows[followed].astype(self._rows.dtype), side)
            for side in ("left", "right")
        )
        count = high - low
        nth = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        what = self._what[np.repeat(low, count) + nth]
        return np.repeat(followed, count), what.astype(np.int64)


class Launches:
    """The device rows that an arrow joins to each call.

    Attributes:
        first: the first of them, for each row of ``calls``, -1 none; the last, which -1 finds, is
            -1, too.
        more: all others.
    """

    def __init__(self, explained: Explained, chosen: Chosen) -> None:
        self.first: I32 = np.full(explained.trace.calls.rows + 1, -1, np.int32)
        call_of = explained.device_call
        others = []
        for start in range(0, len(call_of), _PART):
            rows = start + np.flatnonzero(chosen.arrows[start : start + _PART])
            calls = picked(call_of, rows)
            free = self.first.take(calls) < 0
            # of several that find their call free, the first is to be the last that is written
            self.first[calls[free][::-1]] = rows[free][::-1]
            others.append(rows[self.first.take(calls) != rows])
        more = np.concatenate([np.empty(0, np.int64), *others])
        more = more[np.argsort(call_of[more], kind="stable")].astype(np.int32)
        self.more = Behind(call_of[more], more, explained.trace.calls.rows)
