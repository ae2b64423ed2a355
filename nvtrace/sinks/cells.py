"""A table's columns as printed cells: the unit of each chosen, figures rounded, gaps dashed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from nvtrace.errors import UsageError
from nvtrace.report import Column, ReportTable, Unit
from nvtrace.sinks.names import NOT_RECORDED, one_line

AUTO = "auto"
TIME_UNITS: Mapping[str, int] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_BYTE_UNITS = {"TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "B": 1}
_RATE_UNITS = {"TB/s": 10**12, "GB/s": 10**9, "MB/s": 10**6, "kB/s": 10**3, "B/s": 1}
_SMALLEST = 0.01  # the last digit printed


class PrintedColumn(NamedTuple):
    """One shown column: its heading, unit included where it varies, and a text for each row."""

    title: str
    cells: list[str]
    source: Column

    @property
    def group(self) -> str:
        """Return the name of its group, empty for none."""
        return self.source.group

    @property
    def is_text(self) -> bool:
        """Return whether it holds names, not figures."""
        return self.source.unit is Unit.TEXT


def print_columns(table: ReportTable, time_unit: str) -> list[PrintedColumn]:
    """Return the shown columns of ``table``, times in ``time_unit``, names whole."""
    return [_print(column, time_unit) for column in table.columns if column.shown]


def choose_time_unit(table: ReportTable, wanted: str = AUTO) -> str:
    """Return the one unit for all times of ``table``: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``.

    Left to choose, it is milliseconds, and another where those read badly: from 1,000 seconds
    up, under a millisecond, and where a small figure would print as 0.00.

    Raises:
        UsageError: ``wanted`` is no unit.
    """
    if wanted != AUTO:
        if wanted not in TIME_UNITS:
            raise UsageError(f"unknown unit {wanted!r}: choose {AUTO}, {', '.join(TIME_UNITS)}")
        return wanted
    largest, smallest = _extent(c for c in table.columns if c.unit is Unit.NS and c.shown)
    if largest >= 1000 * TIME_UNITS["s"]:
        return "s"
    ms = TIME_UNITS["ms"]
    if not largest or (largest >= ms and (smallest >= _SMALLEST * ms or largest >= 1000 * ms)):
        return "ms"
    return "us" if largest >= TIME_UNITS["us"] else "ns"


def has_times(table: ReportTable) -> bool:
    """Return whether a shown column of ``table`` is a time."""
    return any(column.unit is Unit.NS and column.shown for column in table.columns)


def remainder(table: ReportTable, shown: int) -> str:
    """Return the line that says how many rows of ``table`` were left out, or nothing."""
    more = len(table) - shown
    return f"... {more} more {'row' if more == 1 else 'rows'} (use --top 0)" if more else ""


def _print(column: Column, time_unit: str) -> PrintedColumn:
    values, title, unit = column.to_list(), column.title, column.unit
    if unit is Unit.TEXT:
        cells = [NOT_RECORDED if v is None else one_line(v) for v in values]
    elif unit is Unit.BOOL:
        cells = [NOT_RECORDED if v is None else ("no", "yes")[v] for v in values]
    elif unit is Unit.NS:
        cells = [_figure(v, TIME_UNITS[time_unit]) for v in values]
    elif unit in (Unit.BYTES, Unit.BYTES_PER_S):
        units = _BYTE_UNITS if unit is Unit.BYTES else _RATE_UNITS
        largest, _ = _extent([column])
        name = next((name for name, size in units.items() if largest >= size), list(units)[-1])
        title = f"{title} ({name})"
        cells = [_figure(v, units[name]) for v in values]
    else:
        cells = [_figure(v, 1) for v in values]
    return PrintedColumn(title, cells, column)


def _figure(value: float | None, size: int) -> str:
    """Return ``value`` in units of ``size``: integers exact, else two digits."""
    if value is None:
        return NOT_RECORDED
    if size == 1 and isinstance(value, int):
        return str(value)
    scaled = value / size
    if scaled and abs(scaled) < _SMALLEST / 2:
        return f"<{_SMALLEST}" if scaled > 0 else f">-{_SMALLEST}"
    return f"{scaled:.2f}"


def _extent(columns: Iterable[Column]) -> tuple[float, float]:
    """Return the largest and the smallest size of all figures that are not zero; 0, 0 if none."""
    sizes = [np.abs(column.values[column.recorded()].astype(np.float64)) for column in columns]
    sizes = [some[some > 0] for some in sizes]
    sizes = [some for some in sizes if len(some)]
    if not sizes:
        return 0.0, 0.0
    return max(float(some.max()) for some in sizes), min(float(some.min()) for some in sizes)
