"""Interned strings: every name of a trace once, referred to by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt


class Strings:
    """An append-only list of distinct strings."""

    __slots__ = ("_rows", "_values")

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: list[str] = []
        self._rows: dict[str, int] = {}
        self.intern_all(values)

    def intern(self, value: str) -> int:
        """Return the row of ``value``, adding it when new."""
        row = self._rows.get(value)
        if row is None:
            row = self._rows[value] = len(self._values)
            self._values.append(value)
        return row

    def intern_all(self, values: Iterable[str]) -> npt.NDArray[np.int32]:
        """Return the rows of ``values`` in order: int32 of shape (n,)."""
        return np.fromiter(map(self.intern, values), dtype=np.int32)

    def find(self, value: str) -> int:
        """Return the row of ``value``, or -1."""
        return self._rows.get(value, -1)

    def take(self, rows: npt.NDArray[np.integer]) -> list[str]:
        """Return the strings of ``rows``; -1 gives an empty string."""
        values = self._values
        return [values[row] if row >= 0 else "" for row in rows.tolist()]

    def __getitem__(self, row: int) -> str:
        return self._values[row]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)
