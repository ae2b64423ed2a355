"""Report: titled tables of typed, unit-carrying columns. All that a renderer ever sees.

Figures are final here: a renderer chooses units and layout and computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

JSON_SCHEMA = 1


class Unit(Enum):
    """What a column's numbers are."""

    TEXT = "text"
    COUNT = "count"
    NS = "ns"
    PERCENT = "%"
    BYTES = "bytes"
    BYTES_PER_S = "bytes/s"
    BOOL = "bool"


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        key: its name in JSON, CSV and data frames (``"cpu_total_ns"``).
        title: its heading for people (``"Total"``).
        unit: what the values are.
        values: shape (n,): int64 for NS, COUNT, BYTES; float64 for PERCENT and BYTES_PER_S;
            bool for BOOL; object (str or None) for TEXT.
        valid: shape (n,) bool, False where the figure was not recorded; None when all are.
        group: columns of one group are printed in one cell, joined by " / ".
        shown: False keeps the column out of printed tables (data formats still carry it).
    """

    key: str
    title: str
    unit: Unit
    values: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_] | None = None
    group: str = ""
    shown: bool = True

    def to_list(self) -> list[Any]:
        """Return Python values, None where not recorded."""
        values: list[Any] = self.values.tolist()
        if self.valid is None:
            return values
        return [v if ok else None for v, ok in zip(values, self.valid.tolist(), strict=True)]


@dataclass(frozen=True)
class ReportTable:
    """One view.

    Attributes:
        key: its name in JSON (``"kernel"``).
        title: its heading (``"Kernel Summary"``).
        columns: all of one length.
        indent: shape (n,) int, the level by which printed names are indented; None for flat.
        sections: shape (n,) object, a heading printed above each run of rows; None for one run.
        notes: lines printed under the table: what it counts, what its percentages are of.
        empty: said in place of the table when it has no rows: why, and what to do.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    indent: npt.NDArray[np.int64] | None = None
    sections: npt.NDArray[Any] | None = None
    notes: tuple[str, ...] = ()
    empty: str = "no rows"

    def __len__(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    def __getitem__(self, key: str) -> npt.NDArray[Any]:
        """Return the values of the column ``key``."""
        return self.column(key).values

    def column(self, key: str) -> Column:
        """Return the column ``key``.

        Raises:
            KeyError: there is none; the message lists those there are.
        """
        for column in self.columns:
            if column.key == key:
                return column
        raise KeyError(f"no column {key!r} in {self.key}: {', '.join(self.keys())}")

    def keys(self) -> list[str]:
        """Return the column keys in order."""
        return [column.key for column in self.columns]

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict a row, None where not recorded."""
        lists = [column.to_list() for column in self.columns]
        return [dict(zip(self.keys(), row, strict=True)) for row in zip(*lists, strict=True)]


@dataclass(frozen=True)
class Report:
    """What one analysis found: tables in order, totals, notes, and where the data came from.

    Attributes:
        tables: by key, in printing order.
        totals: whole-trace figures by name, integers in ns or counts; None when not recorded.
        notes: ``{"code", "message"}`` pairs about the input and the figures.
        sources: one dict an input file.
        headline: lines printed above the tables: what was read, and how much of the GPU time
            found its range.
    """

    tables: Mapping[str, ReportTable]
    totals: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[Mapping[str, str]] = ()
    sources: Sequence[Mapping[str, Any]] = ()
    headline: Sequence[str] = ()

    def __getitem__(self, key: str) -> ReportTable:
        return self.tables[key]

    def __iter__(self) -> Iterator[ReportTable]:
        return iter(self.tables.values())

    def __len__(self) -> int:
        return len(self.tables)

    def to_dict(self) -> dict[str, Any]:
        """Return the versioned JSON object that ``--format json`` prints."""
        return {
            "schema": JSON_SCHEMA,
            "sources": [dict(source) for source in self.sources],
            "notes": [dict(note) for note in self.notes],
            "totals": dict(self.totals),
            "views": {key: table.rows() for key, table in self.tables.items()},
        }
