"""When some things went on, in one file or in several: how many in a window, how long any did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.intervals import Union, ascending_runs, clipped, merged, spans
from nvtrace.model.table import Table

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Window = tuple[I64, I64]
Intervals = Callable[[], tuple[I64, I64]]


class Events:
    """When some things went on. What it takes to say so is fetched when asked for.

    Args:
        spans: return starts and ends, of which the union is the time that any went on.
        uncounted: return starts and ends of those that are still to be counted.
        counted: how many share time with the window, whatever more belongs to it.
    """

    def __init__(
        self, spans: Sequence[Intervals], uncounted: Sequence[Intervals], counted: int = 0
    ) -> None:
        self._spans, self._uncounted, self._counted = spans, uncounted, counted

    @classmethod
    def of(cls, table: Table, rows: npt.NDArray[Any], *, count: bool = True) -> Events:
        """Return chosen rows of a table, by place or by mask, to be counted or not."""

        def intervals() -> tuple[I64, I64]:
            start, end = table["start"], table["end"]
            if rows.dtype == np.bool_ and rows.all():
                return start, end
            return start[rows], end[rows]

        return cls([intervals], [intervals] if count else [])

    @classmethod
    def added(cls, parts: Sequence[Events]) -> Events:
        """Return what went on in any of several files."""
        return cls(
            [one for part in parts for one in part._spans],
            [one for part in parts for one in part._uncounted],
            sum(part._counted for part in parts),
        )

    def kept(self, window: Window) -> Events:
        """Return the same without the rows, in few bytes.

        Args:
            window: what surely belongs to any window that will be asked about.
        """
        starts, ends = _joined(self._uncounted)
        reaching = _reaching(starts, ends, window)
        others = _Packed.of(starts[~reaching], ends[~reaching])
        counted = self._counted + int(np.count_nonzero(reaching))
        return Events([_Packed.of(*merged(*_joined(self._spans)))], [others], counted)

    def moved(self, offset: int) -> Events:
        """Return what was kept, that much later in ns."""
        spans, uncounted = (
            [one.moved(offset) for one in sources if isinstance(one, _Packed)]
            for sources in (self._spans, self._uncounted)
        )
        return Events(spans, uncounted, self._counted)

    def intervals(self) -> tuple[I64, I64]:
        """Return the union as disjoint intervals in ascending order."""
        return merged(*_joined(self._spans))

    def within(self, window: Window) -> int:
        """Return how long any went on in a window, ns."""
        return Union(*_joined(self._spans)).within(window)

    def clipped(self, window: Window) -> tuple[I64, I64]:
        """Return when any went on in a window: disjoint intervals in ascending order."""
        return clipped(*_joined(self._spans), window)

    def calls(self, window: Window) -> int:
        """Return how many share time with a window: disjoint intervals in ascending order.

        An instant in it, or on its border, does.
        """
        starts, ends = _joined(self._uncounted)
        return self._counted + int(np.count_nonzero(_reaching(starts, ends, window)))


NOTHING = Events([], [])


@dataclass(frozen=True)
class _Packed:
    """Intervals by their starts, in few bytes.

    Attributes:
        first: where the first one starts.
        delays: from one start to the next.
        lengths: of each.
    """

    first: int
    delays: npt.NDArray[np.unsignedinteger]
    lengths: npt.NDArray[np.unsignedinteger]

    @classmethod
    def of(cls, starts: I64, ends: I64) -> _Packed:
        if len(ascending_runs(starts)) > 1:
            order = np.argsort(starts, kind="stable")
            starts, ends = starts[order], ends[order]
        first = int(starts[0]) if len(starts) else 0
        delays = np.diff(starts, prepend=starts[:1])
        return cls(first, *(_narrow(column) for column in (delays, ends - starts)))

    def __call__(self) -> tuple[I64, I64]:
        starts = np.cumsum(self.delays, dtype=np.int64)
        starts += self.first
        return starts, starts + self.lengths.astype(np.int64)

    def moved(self, offset: int) -> _Packed:
        return replace(self, first=self.first + offset)


def _narrow(numbers: I64) -> npt.NDArray[np.unsignedinteger]:
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _joined(sources: Sequence[Intervals]) -> tuple[I64, I64]:
    if len(sources) == 1:
        return sources[0]()
    parts = [source() for source in sources] or [(np.empty(0, np.int64),) * 2]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _reaching(starts: I64, ends: I64, window: Window) -> Mask:
    """Return which intervals share time with the window, or lie as instants in or at its border."""
    found = np.ones(len(starts), np.bool_)
    for run in ascending_runs(starts):
        # who starts inside does; the others are looked at one by one
        first = np.searchsorted(starts[run], window[0], side="left")
        last = np.searchsorted(starts[run], window[1], side="left")
        others = spans(np.append(0, last), np.append(first, run.stop - run.start)) + run.start
        start, end = starts[others], ends[others]
        first = np.searchsorted(window[1], start, side="right")
        last = np.searchsorted(window[0], end, side="left")
        instants = start == end
        first[instants] = np.searchsorted(window[1], start[instants], side="left")
        last[instants] = np.searchsorted(window[0], end[instants], side="right")
        found[others] = first < last
    return found
