"""The printed cells of a table: names indented and cut to fit, grouped columns in one cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from nvtrace.report import ReportTable, Unit
from nvtrace.sinks.cells import PrintedColumn, print_columns
from nvtrace.sinks.names import printed_names

NAME_WIDTH = 90
_NARROWEST = 20
_GAP = 2  # blanks between cells
_PAD = 2  # tabulate pads a heading by two
_DEEPEST = 16  # levels shown by indenting


@dataclass(frozen=True)
class Grid:
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
    columns = print_columns(table, time_unit)
    margins = _margins(table, indent)
    cells = [_join(list(group)) for group in _grouped(columns)]
    texts = [i for i, (_, _, is_text) in enumerate(cells) if is_text]
    limits = _limits([_width(*cell[:2]) for cell in cells], texts, width)
    names = [c for c in table.columns if c.shown and c.unit is Unit.TEXT]
    for rank, (at, column) in enumerate(zip(texts, names, strict=True)):
        own = margins if rank == 0 else [""] * len(table)
        room = max(limits[at] - max(map(len, own)), _NARROWEST)
        fitted = printed_names(column.to_list(), room)
        dressed = [margin + style(name) for margin, name in zip(own, fitted, strict=True)]
        cells[at] = (cells[at][0], dressed, True)
    rows = [list(row) for row in zip(*(texts for _, texts, _ in cells), strict=True)]
    return Grid([header for header, _, _ in cells], rows)


def _grouped(columns: Sequence[PrintedColumn]) -> Iterator[Iterator[PrintedColumn]]:
    """Yield runs of columns that share a cell."""
    numbered = enumerate(columns)
    for _, run in groupby(numbered, key=lambda pair: pair[1].group or pair[0]):
        yield (column for _, column in run)


def _join(columns: Sequence[PrintedColumn]) -> tuple[str, list[str], bool]:
    header = " / ".join(column.title for column in columns)
    if columns[0].group:
        header = f"{columns[0].group} {header}"
    if len(columns) == 1:
        return header, columns[0].cells, columns[0].is_text
    rows = zip(*(column.cells for column in columns), strict=True)
    return header, [" / ".join(row) for row in rows], False


def _margins(table: ReportTable, indent: str) -> list[str]:
    """Return what stands before each name; levels too deep to indent are told by number."""
    if table.indent is None:
        return [""] * len(table)
    return [
        indent * level if level <= _DEEPEST else f"{indent * _DEEPEST}[{level}] "
        for level in table.indent.tolist()
    ]


def _width(header: str, cells: Sequence[str]) -> int:
    return max(len(header) + _PAD, max(map(len, cells)))


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
