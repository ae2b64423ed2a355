"""Reports as one self-contained page, and as the fragment that notebooks show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby

from nvtrace.report import Report, ReportTable
from nvtrace.sinks.cells import (
    AUTO,
    PrintedColumn,
    choose_time_unit,
    has_times,
    print_columns,
    remainder,
)
from nvtrace.sinks.names import one_line

NOTEBOOK_ROWS = 50

_STYLE = """\
.nvtrace table { border-collapse: collapse; margin: .5em 0; }
.nvtrace th, .nvtrace td { padding: .15em .7em; text-align: right; vertical-align: top;
  white-space: nowrap; border: 0 solid #8886; border-bottom-width: 1px; }
.nvtrace th.text, .nvtrace td.text { text-align: left; }
.nvtrace th.group { text-align: center; }
.nvtrace td { font-variant-numeric: tabular-nums; }
.nvtrace td.text { font-family: ui-monospace, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; min-width: 12em; max-width: 60em; }
.nvtrace th.section { text-align: left; background: #8882; }
.nvtrace p { margin: .3em 0; }
"""
_PAGE_STYLE = """\
:root { color-scheme: light; --text: #1a1a1a; --page: #fff; }
@media (prefers-color-scheme: dark) { :root { color-scheme: dark; --text: #ddd; --page: #181818; } }
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em;
  color: var(--text); background: var(--page); }
div.scroll { overflow-x: auto; }
"""


def render(report: Report, *, unit: str, top: int, width: int | None) -> str:
    """Return ``report`` as a whole HTML page that loads nothing from elsewhere.

    Args:
        report: what to print.
        unit: the unit of times, ``"auto"`` to choose one for each table.
        top: rows of each table, 0 for all.
        width: not used; names wrap.
    """
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>nvtrace report</title>\n<style>\n{_PAGE_STYLE}</style>\n</head>\n<body>\n"
        f"{fragment(report, unit=unit, top=top)}</body>\n</html>\n"
    )


def fragment(report: Report, *, unit: str = AUTO, top: int = NOTEBOOK_ROWS) -> str:
    """Return ``report`` as HTML to place in a page, its style with it."""
    lines = ['<div class="nvtrace">', f"<style>\n{_STYLE}</style>"]
    lines += [f"<p>{_text(line)}</p>" for line in report.headline]
    for table in report:
        lines += _table(table, unit, top)
    if report.notes:
        lines += ["<h2>Notes</h2>", "<ul>"]
        lines += [
            f"<li><b>{_text(note['code'])}</b>: {_text(note['message'])}</li>"
            for note in report.notes
        ]
        lines.append("</ul>")
    return "\n".join([*lines, "</div>\n"])


def _table(table: ReportTable, unit: str, top: int) -> Iterator[str]:
    shown = table.head(top) if top else table
    time_unit = choose_time_unit(shown, unit)
    yield f"<h2>{_text(table.title)}</h2>"
    if not len(shown):
        yield f"<p>{_text(table.empty)}</p>"
        return
    if has_times(shown):
        yield f"<p>Time unit: {time_unit}</p>"
    columns = print_columns(shown, time_unit)
    yield '<div class="scroll"><table>'
    yield from _head(columns)
    yield "<tbody>"
    yield from _body(shown, columns)
    yield "</tbody></table></div>"
    if len(shown) < len(table):
        yield f"<p>{_text(remainder(table, len(shown)))}</p>"
    yield from (f"<p>{_text(note)}</p>" for note in table.notes)


def _head(columns: list[PrintedColumn]) -> Iterator[str]:
    yield "<thead>"
    if any(column.group for column in columns):
        runs = [(group, len(list(run))) for group, run in groupby(columns, lambda c: c.group)]
        yield _row(f'<th class="group" colspan="{n}">{_text(group)}</th>' for group, n in runs)
    yield _row(f"<th{_class(column)}>{_text(column.title)}</th>" for column in columns)
    yield "</thead>"


def _body(table: ReportTable, columns: list[PrintedColumn]) -> Iterator[str]:
    levels = [0] * len(table) if table.indent is None else table.indent.tolist()
    sections = [""] * len(table) if table.sections is None else table.sections.tolist()
    names = next((i for i, column in enumerate(columns) if column.is_text), None)
    above: object = ""
    rows = zip(*(column.cells for column in columns), strict=True)
    for level, section, row in zip(levels, sections, rows, strict=True):
        if section != above and section:
            yield _section(section, columns)
        above = section
        cells = [
            f"<td{_class(c)}>{escape(cell)}</td>" for c, cell in zip(columns, row, strict=True)
        ]
        if level and names is not None:
            style = f' style="padding-left: {1.5 * level + 0.7:.1f}em">'
            cells[names] = cells[names].replace(">", style, 1)
        yield _row(cells)


def _section(section: str | tuple[str, ...], columns: list[PrintedColumn]) -> str:
    if isinstance(section, tuple):
        return _row(
            f"<th{_class(column)}>{_text(title)}</th>"
            for column, title in zip(columns, section, strict=True)
        )
    return f'<tr><th class="section" colspan="{len(columns)}">{_text(section)}</th></tr>'


def _row(cells: Iterable[str]) -> str:
    return f"<tr>{''.join(cells)}</tr>"


def _class(column: PrintedColumn) -> str:
    return ' class="text"' if column.is_text else ""


def _text(text: str) -> str:
    return escape(one_line(text))
