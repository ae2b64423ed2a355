"""Tables for a terminal, in the layout that paddle.profiler's users know."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from nvtrace.report import Report, ReportTable
from nvtrace.sinks.cells import choose_time_unit, has_times, remainder
from nvtrace.sinks.grid import make_grid
from nvtrace.sinks.layout import column_widths, padded
from nvtrace.sinks.names import one_line

_GAP = "  "
_TITLE_MARGIN = 20


def render(report: Report, *, unit: str, top: int, width: int | None) -> str:
    """Return ``report`` as plain text.

    Args:
        report: what to print.
        unit: the unit of times, ``"auto"`` to choose one for each table.
        top: rows of each table, 0 for all.
        width: columns to stay within; None takes the environment's COLUMNS, if set.
    """
    width = width or _columns()
    blocks = [[one_line(line) for line in report.headline]]
    blocks += [list(_table(table, unit, top, width)) for table in report]
    if report.notes:
        notes = [f"[{note['code']}] {note['message']}" for note in report.notes]
        blocks.append(["Notes:", *map(one_line, notes)])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _table(table: ReportTable, unit: str, top: int, width: int | None) -> Iterator[str]:
    shown = table.head(top) if top else table
    time_unit = choose_time_unit(shown, unit)
    if not len(shown):
        yield _heading(table.title, len(table.title) + _TITLE_MARGIN)
        yield one_line(table.empty)
        return
    grid = make_grid(shown, time_unit, width)
    widths = column_widths(grid.headers, grid.rows)
    rule = _GAP.join("-" * width for width in widths)
    yield _heading(table.title, len(rule))
    if has_times(shown):
        yield f"Time unit: {time_unit}"
    yield from (rule, _line(grid.headers, widths), rule)
    yield from _body(shown, grid.rows, widths, rule)
    yield rule
    if len(shown) < len(table):
        yield remainder(table, len(shown))
    if table.notes:
        yield "Note:"
        yield from map(one_line, table.notes)
        yield "-" * len(rule)


def _body(table: ReportTable, rows: list[list[str]], widths: list[int], rule: str) -> Iterator[str]:
    """Yield the rows, each run of a section under its heading."""
    sections = [""] * len(table) if table.sections is None else table.sections.tolist()
    above: object = ""
    for section, row in zip(sections, rows, strict=True):
        if section != above and isinstance(section, tuple):
            yield from (rule, _line(section, widths), rule)
        elif section != above and section:
            yield _heading(one_line(section), len(rule))
        above = section
        yield _line(row, widths)


def _line(cells: Sequence[str], widths: list[int]) -> str:
    return _GAP.join(padded(cells, widths)).rstrip()


def _heading(text: str, width: int) -> str:
    """Return ``text`` in the middle of a dashed rule."""
    left = (width - len(text)) // 2
    return "-" * left + text + "-" * (width - len(text) - left)


def _columns() -> int | None:
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdigit() and int(columns) else None
