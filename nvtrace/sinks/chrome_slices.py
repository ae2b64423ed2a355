"""What a timeline's slices hold, whatever the format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I64
from nvtrace.sinks.chrome_parts import Derived, Source, values_of

Bools = npt.NDArray[np.bool_]
RowsOf = Callable[[I64], I64]


class Description(NamedTuple):
    """What a slice is called, and those of its ``args`` that many slices share.

    An arg is absent where its value is None, False or empty.
    """

    name: str
    category: str
    args: Mapping[str, object]

    @property
    def given(self) -> dict[str, object]:
        """The args that are not absent."""
        return {k: v for k, v in self.args.items() if v is not None and v is not False and v != ""}


class Given(NamedTuple):
    """An arg of some slices: an integer from 0, or a list of them.

    Attributes:
        key: its name.
        values: columns, one for an integer.
        present: a column that is no less than ``least`` where the slice has the arg.
        least: see there.
        thousandths: whether the values are thousandths of what they stand for.
    """

    key: str
    values: tuple[Source, ...]
    present: Source
    least: int = 1
    thousandths: bool = False

    def given(self, rows: I64) -> Bools:
        """Return which of the rows have the arg."""
        given: Bools = values_of(self.present, rows) >= self.least
        return given


class Slices(NamedTuple):
    """The slices of a table.

    Attributes:
        columns: what decides the description of a row: integers, by row.
        describe: returns the description of a row.
        numbers: args that differ from row to row.
        lane: returns the row in ``Tracks`` of the lane of each row.
        start: returns the start of each row, ns.
        end: returns the end, not before the start.
        length: returns how long each row lasts, ns; below 0 stands for 0.
    """

    columns: tuple[Source, ...]
    describe: Callable[[int], Description]
    numbers: tuple[Given, ...]
    lane: RowsOf
    start: RowsOf
    end: RowsOf
    length: RowsOf


def times(starts: I64, ends: I64) -> tuple[RowsOf, RowsOf, RowsOf]:
    """Return the ways to read start, end and length of rows, as Slices has them."""

    def end(rows: I64) -> I64:
        latest: I64 = np.maximum(starts[rows], ends[rows])
        return latest

    return Derived(starts), end, Derived(ends, less=starts)
