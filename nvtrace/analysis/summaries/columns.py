"""Columns that the views share: names, and the figures of one side, CPU or GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.parts import Figures
from nvtrace.report import Column, ReportTable, Unit

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

SORT_KEYS = (
    "cpu_total",
    "cpu_avg",
    "cpu_max",
    "cpu_min",
    "gpu_total",
    "gpu_avg",
    "gpu_max",
    "gpu_min",
    "calls",
    "name",
)


def text(key: str, title: str, values: Sequence[str | None], *, shown: bool = True) -> Column:
    """Return a column of text."""
    array = np.empty(len(values), object)
    array[:] = list(values)
    return Column(key, title, Unit.TEXT, array, shown=shown)


def count(
    key: str, title: str, values: npt.NDArray[Any], valid: Mask | None = None, *, shown: bool = True
) -> Column:
    """Return a column of counts."""
    return Column(key, title, Unit.COUNT, values.astype(np.int64), valid, shown=shown)


def time(
    key: str,
    title: str,
    values: npt.NDArray[Any],
    valid: Mask | None = None,
    *,
    group: str = "",
    shown: bool = True,
) -> Column:
    """Return a column of integer ns."""
    return Column(key, title, Unit.NS, values.astype(np.int64), valid, group=group, shown=shown)


def percent(
    key: str,
    title: str,
    values: npt.NDArray[Any],
    valid: Mask | None = None,
    *,
    group: str = "",
) -> Column:
    """Return a column of percentages, 0 to 100."""
    return Column(key, title, Unit.PERCENT, values.astype(np.float64), valid, group=group)


def share(part: npt.NDArray[Any], whole: npt.NDArray[Any] | float) -> npt.NDArray[np.float64]:
    """Return ``part`` in per cent of ``whole``; 0 of nothing."""
    wholes = np.broadcast_to(np.asarray(whole, np.float64), np.shape(part))
    result = np.zeros(np.shape(part), np.float64)
    np.divide(np.asarray(part, np.float64) * 100, wholes, out=result, where=wholes > 0)
    return result


def figures(
    side: str,
    values: Figures,
    ratio: npt.NDArray[np.float64],
    valid: Mask,
    *,
    ratio_valid: Mask | None = None,
    spread_valid: Mask | None = None,
) -> tuple[Column, ...]:
    """Return total, average, maximum, minimum and ratio of one side.

    Args:
        side: ``"cpu"`` or ``"gpu"``.
        values: the figures, one a row.
        ratio: per cent, one a row.
        valid: where the side was recorded.
        ratio_valid: where a ratio has a meaning, all recorded rows by default. More than 100 is
            never shown.
        spread_valid: where average, maximum and minimum have one, likewise.
    """
    group = side.upper()
    spread = valid if spread_valid is None else valid & spread_valid
    # what adds up over threads, or over ranges that cross, may be no share of the whole
    ratios = valid & (ratio < 100 + 1e-9)
    if ratio_valid is not None:
        ratios = ratios & ratio_valid
    return (
        time(f"{side}_total_ns", "Total", values.total, valid, group=group),
        time(f"{side}_avg_ns", "Avg", values.average, spread, group=group),
        time(f"{side}_max_ns", "Max", values.maximum, spread, group=group),
        time(f"{side}_min_ns", "Min", values.minimum, spread, group=group),
        percent(f"{side}_ratio", "Ratio(%)", ratio, ratios, group=group),
    )


def everywhere(value: bool, rows: int) -> Mask:
    """Return a mask that says the same of every row."""
    return np.full(rows, value, np.bool_)


def with_row(table: ReportTable, values: Mapping[str, object]) -> ReportTable:
    """Return ``table`` with one more row at its end.

    Args:
        table: a flat table.
        values: by column key; what is missing was not recorded, or has no meaning there.
    """
    columns = []
    for column in table.columns:
        value = values.get(column.key)
        if column.unit is Unit.TEXT:
            array = np.empty(len(column.values) + 1, object)
            array[:-1], array[-1] = column.values, value
            columns.append(replace(column, values=array))
            continue
        numbers = np.append(column.values, column.values.dtype.type(value or 0))
        valid = np.append(column.recorded(), value is not None)
        columns.append(replace(column, values=numbers, valid=valid))
    return replace(table, columns=tuple(columns))


def sort_order(columns: Sequence[Column], sorted_by: str) -> I64:
    """Return the rows by the chosen figure: the largest first, for ``_min`` the smallest.

    Args:
        columns: the view's columns.
        sorted_by: one of SORT_KEYS. A view without that column is sorted by the other side's.
    """
    by_key = {column.key: column for column in columns}
    if sorted_by == "name" and "name" in by_key:
        return np.argsort(by_key["name"].values.astype(str), kind="stable")
    side, _, figure = sorted_by.partition("_")
    other = {"cpu": "gpu", "gpu": "cpu"}.get(side, "")
    for key in (sorted_by, f"{sorted_by}_ns", f"{other}_{figure}_ns", "calls"):
        column = by_key.get(key)
        if column is not None and (column.valid is None or column.valid.any()):
            values = column.values.astype(np.float64)
            if column.valid is not None:
                values = np.where(column.valid, values, np.inf if figure == "min" else -np.inf)
            return np.argsort(values if figure == "min" else -values, kind="stable")
    return np.arange(len(columns[0].values))
