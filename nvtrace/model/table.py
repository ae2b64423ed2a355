"""A frozen struct of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import choose, constant, is_constant, joined
from nvtrace.model.schema import ColumnSpec

Array = npt.NDArray[Any]


class Table(Mapping[str, npt.NDArray[Any]]):
    """Columns of equal length, by name, read-only: ``table["start"]``.

    A column that holds one value throughout may lie in the memory of one (``arrays.constant``), and
    two columns that are equal in that of either. A narrow one takes fewer bytes than its dtype, and
    is made anew each time it is asked for.

    Args:
        spec: the catalogue entry that names the columns and their dtypes.
        columns: one array a column, all of shape (n,). A missing column is an error.
        narrow: keep columns of integers that take fewer bytes as they are.

    Raises:
        ValueError: a column is missing, unknown, or of another length.
    """

    __slots__ = ("_columns", "_length", "spec")

    def __init__(
        self,
        spec: Mapping[str, ColumnSpec],
        columns: Mapping[str, npt.ArrayLike],
        *,
        narrow: bool = False,
    ) -> None:
        if set(spec) != set(columns):
            raise ValueError(f"columns {sorted(columns)} do not match {sorted(spec)}")
        self.spec = spec
        self._columns: dict[str, Array] = {}
        for name, column in spec.items():
            self._columns[name] = _frozen(columns[name], column.dtype, narrow)
        lengths = {array.shape for array in self._columns.values()}
        if len(lengths) != 1 or len(next(iter(lengths))) != 1:
            raise ValueError(f"columns differ in shape: {lengths}")
        self._length = int(next(iter(lengths))[0])

    @classmethod
    def empty(cls, spec: Mapping[str, ColumnSpec]) -> Table:
        """Return a table of no rows."""
        return cls(spec, {name: np.empty(0, column.dtype) for name, column in spec.items()})

    @classmethod
    def concatenate(
        cls, spec: Mapping[str, ColumnSpec], parts: Sequence[Mapping[str, Array]]
    ) -> Table:
        """Return the rows of all ``parts``, in order."""
        if not parts:
            return cls.empty(spec)
        return cls(spec, {name: joined([part[name] for part in parts]) for name in spec})

    @property
    def rows(self) -> int:
        """The number of rows (``len(table)`` counts columns, as for any mapping)."""
        return self._length

    def take(self, rows: Array) -> Table:
        """Return the chosen rows: an index array or a boolean mask."""
        columns = dict(self._columns)
        choose(columns, rows)
        return Table(self.spec, columns, narrow=True)

    def part(self, rows: slice) -> Table:
        """Return rows that stand together, in the memory of this table."""
        columns = {name: column[rows] for name, column in self._columns.items()}
        return Table(self.spec, columns, narrow=True)

    def __getitem__(self, name: str) -> Array:
        column, dtype = self._columns[name], self.spec[name].dtype
        return column if column.dtype == dtype else _frozen(column, dtype)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"<Table of {self._length} rows: {', '.join(self._columns)}>"


def _frozen(column: npt.ArrayLike, dtype: npt.DTypeLike, narrow: bool = False) -> Array:
    if isinstance(column, np.ndarray):
        if is_constant(column):
            return constant(column[0], len(column), dtype)
        if narrow and np.can_cast(column.dtype, dtype):
            dtype = column.dtype
    array = np.ascontiguousarray(column, dtype=dtype).view()
    array.flags.writeable = False
    return array
