"""A table to which one part after the other is added, without a copy of all of them beside it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import constant, is_constant, smallest_type
from nvtrace.model.schema import ColumnSpec
from nvtrace.model.table import Table

Array = npt.NDArray[Any]
Change = Callable[[Array], Array]

# times the rows so far: sizes of files say little about one table of theirs
_MOST_RESERVED = 16


class GrowingTable:
    """The columns of all parts so far.

    Args:
        spec: the catalogue entry that names the columns and their dtypes.
        narrow: the columns to keep in as few bytes as their numbers need.
    """

    def __init__(self, spec: Mapping[str, ColumnSpec], narrow: Collection[str] = ()) -> None:
        self.spec = spec
        self._columns = {
            name: GrowingColumn(column.dtype, narrow=name in narrow)
            for name, column in spec.items()
        }
        self._bounds = [0]

    @property
    def rows(self) -> int:
        """The number of rows so far."""
        return self._bounds[-1]

    @property
    def parts(self) -> list[slice]:
        """The rows of each part."""
        return [slice(*bounds) for bounds in pairwise(self._bounds)]

    def add(self, part: Table, changes: Mapping[str, Change], share: float) -> None:
        """Add rows.

        Args:
            part: the rows.
            changes: by column, what becomes of its values; each value by itself.
            share: how much of everything there is then, from 0 to 1: memory is reserved by it.
        """
        self._bounds.append(self.rows + part.rows)
        for name, column in self._columns.items():
            values = _changed(part[name], changes.get(name))
            # untouched memory costs nothing, but to be moved for a few rows more does
            column.add(values, int(self.rows * min(1.0625 / share, _MOST_RESERVED)))

    def so_far(self) -> Table:
        """Return the rows so far."""
        return Table(self.spec, {name: one.so_far() for name, one in self._columns.items()})

    def shift(self, names: Iterable[str], offsets: Sequence[int]) -> None:
        """Add to some columns what each part's are to be moved by."""
        for name in self._columns.keys() & names:
            for rows, offset in zip(self.parts, offsets, strict=True):
                self._columns[name].shift(rows, offset)

    def finished(self) -> dict[str, Array]:
        """Return the columns; the table is used up."""
        return {name: self._columns.pop(name).finished() for name in self.spec}


def changed(table: Table, changes: Mapping[str, Change]) -> Table:
    """Return a table with some of its columns changed; each value by itself."""
    return Table(table.spec, {name: _changed(table[name], changes.get(name)) for name in table})


def _changed(values: Array, change: Change | None) -> Array:
    if change is None or not len(values):
        return values
    if is_constant(values):
        return constant(change(values[:1])[0], len(values), values.dtype)
    return change(values)


class GrowingColumn:
    """One column: constant, in the memory of one value, as long as its parts are so.

    Args:
        dtype: of the values.
        narrow: whether to keep them in as few bytes as they need.
    """

    def __init__(self, dtype: npt.DTypeLike, *, narrow: bool = False) -> None:
        self._rows = 0
        self._narrow = narrow
        self._column: Array = np.empty(0, dtype)

    def add(self, values: Array, expected: int) -> None:
        """Add rows; ``expected`` is how many there may be at last.

        If these are all, their memory is taken over.
        """
        first, self._rows = self._rows, self._rows + len(values)
        if not len(values):
            return
        if is_constant(values) and (not first or self._holds_only(values[0])):
            self._column = constant(values[0], self._rows, self._column.dtype)
            return
        if not self._narrow and not first and len(values) >= expected and values.flags.owndata:
            self._column = values
            return
        dtype = self._type_with(values, first)
        room = 0 if is_constant(self._column) else len(self._column)
        if room < self._rows or dtype != self._column.dtype:
            more = room * 3 // 2 if room < self._rows else room
            column = np.empty(max(expected, self._rows, more), dtype)
            column[:first] = self._column[:first]
            self._column = column
        self._column[first : self._rows] = values

    def _type_with(self, values: Array, first: int) -> np.dtype[Any]:
        """Return the type that holds these values and the ``first`` ones before."""
        if not self._narrow:
            return self._column.dtype
        own = smallest_type(values)
        if not first:
            return own
        before = self._column[:1] if is_constant(self._column) else None
        known = self._column.dtype if before is None else smallest_type(before)
        return np.promote_types(own, known)

    def _holds_only(self, value: Any) -> bool:
        return is_constant(self._column) and bool(self._column[0] == value)

    def shift(self, rows: slice, offset: int) -> None:
        """Add ``offset`` to some rows."""
        if not offset or rows.start == rows.stop:
            return
        if is_constant(self._column):
            self._column = self._column.copy()
        self._column[rows] += offset

    def so_far(self) -> Array:
        """Return a copy of the rows so far: the column may be moved in memory afterwards."""
        return self._column if is_constant(self._column) else self._column[: self._rows].copy()

    def finished(self) -> Array:
        """Return the column."""
        if not is_constant(self._column) and len(self._column) > self._rows:
            self._column.resize(self._rows, refcheck=False)
        return self._column
