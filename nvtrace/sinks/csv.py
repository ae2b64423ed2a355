"""Reports as comma-separated values: column keys first, integers exact, gaps empty."""

from __future__ import annotations

import re
from typing import Any

from nvtrace.report import Report, ReportTable
from nvtrace.sinks.names import valid_utf8

_NEEDS_QUOTES = re.compile(r'[",\r\n]|^[\s#]|\s$|^$')


def render(report: Report) -> str:
    """Return the tables of ``report`` as CSV.

    One table is a plain CSV file. Several follow one another, each under a line
    ``# key``, with a blank line between.
    """
    if len(report) == 1:
        return "".join(_table(table) for table in report)
    return "\n".join(f"# {table.key}\n{_table(table)}" for table in report)


def _table(table: ReportTable) -> str:
    # Written here: the csv module of Python 3.10 cannot tell "" from not recorded.
    columns = [map(_field, column.to_list()) for column in table.columns]
    lines = [",".join(table.keys()), *(",".join(row) for row in zip(*columns, strict=True))]
    return "\n".join(lines) + "\n"


def _field(value: Any) -> str:
    if isinstance(value, str):
        text = valid_utf8(value)
        return '"' + text.replace('"', '""') + '"' if _NEEDS_QUOTES.search(text) else text
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else repr(value)
