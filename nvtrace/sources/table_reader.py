"""What an import asks of the tables of an export, whatever kind of file they are in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.sources.columns import Rows, Wanted, values

I64 = npt.NDArray[np.int64]


class TableReader(ABC):
    r"""The tables of one export; whoever makes one closes it.

    Numbers are signed, as SQLite has them. Text that is not UTF-8 keeps its bytes as ``\xNN``, so
    that distinct names stay distinct. Whatever reads raises CorruptReport where a file is damaged.

    Attributes:
        path: the export.
        tables: the names of its tables.
    """

    path: Path
    tables: Collection[str]

    @abstractmethod
    def close(self) -> None:
        """Close what is open."""

    @abstractmethod
    def columns(self, table: str) -> tuple[str, ...]:
        """Return the column names of ``table``; empty when there is no such table."""

    @abstractmethod
    def rows(self, table: str, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return some columns of a small table, row by row; all of them must be there."""

    @abstractmethod
    def read(
        self, table: str, wanted: Mapping[str, Wanted], where: Rows | None = None
    ) -> dict[str, Any]:
        """Return columns of ``table`` in one pass, in the file's order.

        Args:
            table: its name; a missing table gives columns of no rows.
            wanted: column -> its form. A column that the table lacks is as if it were NULL.
            where: which rows.

        Returns:
            int64 arrays for ``values``, Coded for the other forms.
        """

    def integers(
        self, table: str, wanted: Mapping[str, int], where: Rows | None = None
    ) -> dict[str, I64]:
        """Return integer columns of ``table``, int64 of shape (n,) each, in the file's order.

        Args:
            table: its name; a missing table gives columns of no rows.
            wanted: column -> value for NULL and for a missing column.
            where: which rows.
        """
        found = self.read(table, {name: values(missing) for name, missing in wanted.items()}, where)
        return {name: column for name, column in found.items() if isinstance(column, np.ndarray)}

    @property
    @abstractmethod
    def string_ids(self) -> tuple[I64, list[str]]:
        """The StringIds table: ids in ascending order, and their texts."""
