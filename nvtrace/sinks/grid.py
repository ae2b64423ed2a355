"""The printed cells of a table: names indented and cut to fit, grouped columns in one cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from nvtrace.report import ReportTable
from nvtrace.sinks.cells import PrintedColumn, print_columns
from nvtrace.sinks.layout import HEADING_ROOM
from nvtrace.sinks.names import printed_names

NAME_WIDTH = 90
_NARROWEST = 20
_GAP = 2  # blanks between cells
_DEEPEST = 16  # levels shown by indenting


class Grid(NamedTuple):
    """Texts ready to lay out: ``rows`` has one text for each of ``headers``."""

    headers: list[str]
    rows: list[list[str]]


def make_grid(
    table: ReportTable,
    time_unit: str,
    width: int | None,
    indent: str = "  ",
    style: Callable[[str], str] = str,
) -> Grid:
    """Return the cells of ``table``.

    Args:
        table: what to print, at least one row.
        time_unit: the unit of its times.
        width: the line's length to stay within, as far as names can be cut; None for no limit.
        indent: what one level of ``table.indent`` is printed as.
        style: what dresses a name, once cut.
    """
    groups = list(_grouped(print_columns(table, time_unit)))
    headers = [_header(group) for group in groups]
    cells = [_join(group) for group in groups]
    names = [at for at, group in enumerate(groups) if len(group) == 1 and group[0].is_text]
    margins = _margins(table, indent)
    limits = _limits(list(map(_width, headers, cells)), names, width)
    for at in names:
        room = max(limits[at] - max(map(len, margins)), _NARROWEST)
        fitted = printed_names(groups[at][0].source.to_list(), room)
        cells[at] = [margin + style(name) for margin, name in zip(margins, fitted, strict=True)]
        margins = [""] * len(table)  # the first column of names alone is indented
    return Grid(headers, [list(row) for row in zip(*cells, strict=True)])


def _grouped(columns: Sequence[PrintedColumn]) -> Iterator[list[PrintedColumn]]:
    """Yield runs of columns that share a cell."""
    for _, run in groupby(enumerate(columns), key=lambda pair: pair[1].group or pair[0]):
        yield [column for _, column in run]


def _header(group: Sequence[PrintedColumn]) -> str:
    titles = " / ".join(column.title for column in group)
    return f"{group[0].group} {titles}".lstrip()


def _join(group: Sequence[PrintedColumn]) -> list[str]:
    rows = zip(*(column.cells for column in group), strict=True)
    return [" / ".join(row) for row in rows]


def _margins(table: ReportTable, indent: str) -> list[str]:
    """Return what stands before each name; levels too deep to indent are told by number."""
    if table.indent is None:
        return [""] * len(table)
    return [
        indent * level if level <= _DEEPEST else f"{indent * _DEEPEST}[{level}] "
        for level in table.indent.tolist()
    ]


def _width(header: str, cells: Sequence[str]) -> int:
    return max(len(header) + HEADING_ROOM, max(map(len, cells)))


def _limits(widths: list[int], texts: Sequence[int], width: int | None) -> list[int]:
    """Return the widths with those of ``texts`` narrowed, the widest first, to fit ``width``."""
    limits = [min(w, NAME_WIDTH) if i in texts else w for i, w in enumerate(widths)]
    over = sum(limits) + _GAP * (len(limits) - 1) - width if width else 0
    for _ in range(over):
        widest = max(texts, key=limits.__getitem__, default=None)
        if widest is None or limits[widest] <= _NARROWEST:
            break
        limits[widest] -= 1
    return limits
