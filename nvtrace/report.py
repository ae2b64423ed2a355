"""Report: titled tables of typed, unit-carrying columns. All that a renderer ever sees.

Figures are final here: a renderer chooses units and layout and computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

JSON_SCHEMA = 1


class Unit(Enum):
    """What a column's numbers are."""

    TEXT = "text"
    COUNT = "count"
    NUMBER = "number"
    NS = "ns"
    PERCENT = "%"
    BYTES = "bytes"
    BYTES_PER_S = "bytes/s"
    BOOL = "bool"


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table.

    Attributes:
        key: its name in JSON, CSV and data frames (``"cpu_total_ns"``).
        title: its heading for people (``"Total"``).
        unit: what the values are.
        values: shape (n,): int64 for NS, COUNT, BYTES; float64 for PERCENT, NUMBER and
            BYTES_PER_S;
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

    def recorded(self) -> npt.NDArray[np.bool_]:
        """Return where there is a figure: bool of shape (n,). What is not a number is none."""
        if self.unit is Unit.TEXT:
            return np.array([value is not None for value in self.values], dtype=np.bool_)
        there = np.ones(len(self.values), np.bool_) if self.valid is None else self.valid
        return there & np.isfinite(self.values) if self.values.dtype.kind == "f" else there

    def to_list(self) -> list[Any]:
        """Return Python values, None where not recorded."""
        values: list[Any] = self.values.tolist()
        if self.unit is Unit.TEXT:
            return values
        return [v if ok else None for v, ok in zip(values, self.recorded().tolist(), strict=True)]

    def head(self, n: int) -> Column:
        """Return the first ``n`` values."""
        return self.take(slice(n))

    def take(self, rows: npt.NDArray[Any] | slice) -> Column:
        """Return the chosen values: a slice, or row numbers in the order wanted."""
        valid = None if self.valid is None else self.valid[rows]
        return replace(self, values=self.values[rows], valid=valid)


@dataclass(frozen=True, eq=False, repr=False)
class ReportTable:
    """One view.

    Attributes:
        key: its name in JSON (``"kernel"``).
        title: its heading (``"Kernel Summary"``).
        columns: all of one length.
        indent: shape (n,) int, the level by which printed names are indented; None for flat.
        sections: shape (n,) object, a heading printed above each run of rows: a line, or a
            tuple of column headings (one a printed cell) for a run that names its columns anew;
            an empty one prints nothing. None for one run.
        notes: lines printed under the table: what it counts, what its percentages are of.
        empty: said in place of the table when it has no rows: why, and what to do.
        whole: rows make sense together only: ``head`` keeps them all.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    indent: npt.NDArray[np.int64] | None = None
    sections: npt.NDArray[Any] | None = None
    notes: tuple[str, ...] = ()
    empty: str = "no rows"
    whole: bool = False

    def __post_init__(self) -> None:
        lengths = {len(column.values) for column in self.columns}
        if len(lengths) > 1:
            raise ValueError(f"columns of {self.key} differ in length: {sorted(lengths)}")

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

    def __iter__(self) -> Iterator[dict[str, Any]]:
        keys = self.keys()
        lists = [column.to_list() for column in self.columns]
        return (dict(zip(keys, row, strict=True)) for row in zip(*lists, strict=True))

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict a row, None where not recorded."""
        return list(self)

    def head(self, n: int) -> ReportTable:
        """Return the table with its first ``n`` rows."""
        if self.whole:
            return self
        return replace(
            self,
            columns=tuple(column.head(n) for column in self.columns),
            indent=None if self.indent is None else self.indent[:n],
            sections=None if self.sections is None else self.sections[:n],
        )

    def to_arrow(self) -> pyarrow.Table:
        """Return a ``pyarrow.Table``: int64, float64, bool and string columns, null as null.

        Raises:
            MissingDependency: pyarrow is not installed.
        """
        from nvtrace.sinks import frames

        return frames.to_arrow(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas frame with nullable dtypes: Int64, Float64, boolean, string.

        Raises:
            MissingDependency: pandas is not installed.
        """
        from nvtrace.sinks import frames

        return frames.to_pandas(self)

    def to_polars(self) -> polars.DataFrame:
        """Return a polars frame: Int64, Float64, Boolean and String columns, null as null.

        Raises:
            MissingDependency: polars is not installed.
        """
        from nvtrace.sinks import frames

        return frames.to_polars(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __str__(self) -> str:
        return str(Report({self.key: self}))

    def __repr__(self) -> str:
        return f"<ReportTable {self.key}: {len(self)} rows of {', '.join(self.keys())}>"

    def _repr_html_(self) -> str:
        return Report({self.key: self})._repr_html_()


@dataclass(frozen=True, eq=False, repr=False)
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
        try:
            return self.tables[key]
        except KeyError:
            raise KeyError(f"no table {key!r}: there are {', '.join(self.tables)}") from None

    def __contains__(self, key: object) -> bool:
        return key in self.tables

    def __iter__(self) -> Iterator[ReportTable]:
        return iter(self.tables.values())

    def __len__(self) -> int:
        return len(self.tables)

    def head(self, n: int) -> Report:
        """Return the report with the first ``n`` rows of each table."""
        return replace(self, tables={key: table.head(n) for key, table in self.tables.items()})

    def to_dict(self) -> dict[str, Any]:
        """Return the versioned JSON object that ``--format json`` prints."""
        return {**self.facts(), "views": {key: t.rows() for key, t in self.tables.items()}}

    def facts(self) -> dict[str, Any]:
        """Return ``to_dict()`` without the views."""
        return {
            "schema": JSON_SCHEMA,
            "sources": _plain(self.sources),
            "notes": _plain(self.notes),
            "totals": _plain(self.totals),
        }

    def __str__(self) -> str:
        # Imported here, as above: reports come before their renderers.
        from nvtrace.sinks import render

        return render(self, "table")

    def __repr__(self) -> str:
        return f"<Report: {', '.join(self.tables) or 'no tables'}>"

    def _repr_html_(self) -> str:
        from nvtrace.sinks import html

        return html.fragment(self)


def _plain(value: Any) -> Any:
    """Return ``value`` as JSON knows it: no numpy scalars, no NaN, paths as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float) else str(value)
