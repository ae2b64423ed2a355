"""What views find in one file, and how that of several files adds up.

A view gathers what it finds as a part: numbers, an array, a set, a tuple, Events, Groups, or
several of these in a NamedTuple or a dictionary. Rows of a trace are needed for no more than that,
so that files can be read one after the other, and none is held while the next one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.events import Events
from nvtrace.analysis.intervals import count_by, sum_by
from nvtrace.model.arrays import first_rows, grouped

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[Any]


class Figures(NamedTuple):
    """Calls, total, maximum and minimum of each group, int64 of shape (groups,).

    ``summed`` is the plain sum that the average comes from, where the total leaves out what
    recursion would count twice.
    """

    calls: I64
    total: I64
    maximum: I64
    minimum: I64
    summed: I64

    @classmethod
    def of(cls, codes: Codes, values: I64, groups: int) -> Figures:
        """Return the figures of ``values`` by group; maximum and minimum of none are 0."""
        calls, total = count_by(codes, groups), sum_by(codes, values, groups)
        return cls(calls, total, *_extremes(codes, values, values, groups), total)

    @classmethod
    def once(cls, codes: Codes, values: I64, counted: Mask, groups: int) -> Figures:
        """Return the figures of all rows, with totals of the ``counted`` rows alone."""
        every = cls.of(codes, values, groups)
        if counted.all():
            return every
        return every._replace(total=sum_by(codes, np.where(counted, values, 0), groups))

    @classmethod
    def none(cls, groups: int) -> Figures:
        """Return the figures of no calls."""
        return cls(*(np.zeros(groups, np.int64) for _ in cls._fields))

    @classmethod
    def joined(cls, parts: Sequence[Figures]) -> Figures:
        """Return the groups of all parts, one behind the other."""
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def take(self, groups: npt.NDArray[Any]) -> Figures:
        """Return the figures of chosen groups, by place or by mask."""
        return Figures(*(column[groups] for column in self))

    def by(self, codes: Codes, groups: int) -> Figures:
        """Return these groups put together into fewer."""
        some = self.calls > 0
        extremes = _extremes(codes[some], self.maximum[some], self.minimum[some], groups)
        calls, total, summed = (
            sum_by(codes, values, groups) for values in (self.calls, self.total, self.summed)
        )
        return Figures(calls, total, *extremes, summed)

    @property
    def average(self) -> I64:
        """The mean, rounded to whole ns; 0 of none."""
        return np.rint(self.summed / np.maximum(self.calls, 1)).astype(np.int64)


def _extremes(codes: Codes, highest: I64, lowest: I64, groups: int) -> tuple[I64, I64]:
    maximum = np.full(groups, np.iinfo(np.int64).min)
    minimum = np.full(groups, np.iinfo(np.int64).max)
    np.maximum.at(maximum, codes, highest)
    np.minimum.at(minimum, codes, lowest)
    none = maximum < minimum
    maximum[none] = minimum[none] = 0
    return maximum, minimum


@dataclass(frozen=True)
class Groups:
    """Figures of groups of rows.

    Attributes:
        keys: what each group is of, shape (groups, keys): distinct, in ascending order.
        figures: such as those of the CPU and those of the GPU.
        sums: numbers of each group that add up.
        firsts: numbers of the first row of each group.
    """

    keys: I64
    figures: tuple[Figures, ...] = ()
    sums: tuple[I64, ...] = ()
    firsts: tuple[I64, ...] = ()

    @classmethod
    def added(cls, parts: Sequence[Groups]) -> Groups:
        """Return the groups of all parts, each key once."""
        keys, codes = grouped(*np.concatenate([part.keys for part in parts]).T)
        first = first_rows(codes, len(keys))
        figures = zip(*(part.figures for part in parts), strict=True)
        sums = zip(*(part.sums for part in parts), strict=True)
        firsts = zip(*(part.firsts for part in parts), strict=True)
        return cls(
            keys,
            tuple(Figures.joined(same).by(codes, len(keys)) for same in figures),
            tuple(sum_by(codes, np.concatenate(same), len(keys)) for same in sums),
            tuple(np.concatenate(same)[first] for same in firsts),
        )

    def take(self, rows: npt.NDArray[Any]) -> Groups:
        """Return chosen groups, by place or by mask."""
        return Groups(
            self.keys[rows],
            tuple(one.take(rows) for one in self.figures),
            tuple(one[rows] for one in self.sums),
            tuple(one[rows] for one in self.firsts),
        )

    def __len__(self) -> int:
        return len(self.keys)


def added(parts: Sequence[Any]) -> Any:
    """Return the parts of several files as that of all."""
    first = parts[0]
    if len(parts) == 1 or first is None:
        return first
    if hasattr(first, "added"):
        return type(first).added(parts)
    if isinstance(first, dict):
        names = dict.fromkeys(name for part in parts for name in part)
        return {name: added([part[name] for part in parts if name in part]) for name in names}
    if isinstance(first, frozenset):
        return first.union(*parts)
    if hasattr(first, "_fields"):
        return type(first)(*map(added, zip(*parts, strict=True)))
    return sum(parts[1:], first)


def with_events(part: Any, change: Callable[[Events], Events]) -> Any:
    """Return a part with all its Events changed."""
    if isinstance(part, Events):
        return change(part)
    if isinstance(part, dict):
        return {name: with_events(one, change) for name, one in part.items()}
    if hasattr(part, "_fields"):
        return type(part)(*(with_events(one, change) for one in part))
    return part
