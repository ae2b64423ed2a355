"""Reports as GitHub-flavoured Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from tabulate import tabulate

from nvtrace.report import Report, ReportTable
from nvtrace.sinks.cells import choose_time_unit, has_times, remainder
from nvtrace.sinks.grid import Grid, make_grid
from nvtrace.sinks.names import NOT_RECORDED, one_line

_INDENT = "\N{NO-BREAK SPACE}" * 2
_MARKUP = re.compile(r"^[-+]|[\\`*_{}\[\]<>#|~&]")
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")


def render(report: Report, *, unit: str, top: int, width: int | None) -> str:
    """Return ``report`` as Markdown.

    Args:
        report: what to print.
        unit: the unit of times, ``"auto"`` to choose one for each table.
        top: rows of each table, 0 for all.
        width: columns of a table's source to stay within; None for no limit.
    """
    blocks = [_escape(line) for line in report.headline]
    for table in report:
        blocks += _table(table, unit, top, width)
    if report.notes:
        notes = [f"- **{_escape(n['code'])}**: {_escape(n['message'])}" for n in report.notes]
        blocks += ["## Notes", "\n".join(notes)]
    return "\n\n".join(blocks) + "\n"


def _table(table: ReportTable, unit: str, top: int, width: int | None) -> Iterator[str]:
    yield f"## {_escape(table.title)}"
    shown = table.head(top) if top else table
    time_unit = choose_time_unit(shown, unit)
    if not len(shown):
        yield _escape(table.empty)
        return
    if has_times(shown):
        yield f"Time unit: {time_unit}"
    yield from _runs(shown, make_grid(shown, time_unit, width, _INDENT, _code))
    if len(shown) < len(table):
        yield _escape(remainder(table, len(shown)))
    yield from map(_escape, table.notes)


def _runs(table: ReportTable, grid: Grid) -> Iterator[str]:
    """Yield a table for each section, under its heading."""
    sections = [""] * len(table) if table.sections is None else table.sections.tolist()
    for section, run in groupby(zip(sections, grid.rows, strict=True), key=itemgetter(0)):
        headers = section if isinstance(section, tuple) else grid.headers
        if section and headers is grid.headers:
            yield f"### {_escape(section)}"
        yield tabulate(
            [row for _, row in run],
            [_escape(header) for header in headers],
            tablefmt="pipe",
            disable_numparse=True,
            preserve_whitespace=True,
        )


def _code(name: str) -> str:
    """Return ``name`` as code, so that ``<float>`` is no tag and ``*`` no emphasis."""
    if name == NOT_RECORDED:
        return name
    if "`" in name or "\\" in name:
        # Renderers disagree on a backslash before a pipe; none touches entities.
        return f"<code>{_PUNCTUATION.sub(_entity, name)}</code>"
    return "`" + name.replace("|", r"\|") + "`"


def _escape(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", one_line(text))


def _entity(match: re.Match[str]) -> str:
    return f"&#{ord(match[0])};"
