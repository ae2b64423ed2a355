"""What leaves nvtrace: reports in five formats, timelines, and files written whole."""

from __future__ import annotations

import importlib

from nvtrace.errors import UsageError
from nvtrace.report import Report
from nvtrace.sinks.cells import AUTO
from nvtrace.sinks.files import atomic_output, write

__all__ = ["FORMATS", "atomic_output", "render", "write"]

FORMATS = ("table", "json", "csv", "markdown", "html")
_MODULES = {"table": "text"}
_TOP = {"table": 50, "markdown": 50, "html": 1000}  # rows of a table, where not asked for


def render(
    report: Report,
    format: str = "table",
    *,
    unit: str = AUTO,
    top: int | None = None,
    width: int | None = None,
) -> str:
    """Return ``report`` as text.

    Args:
        report: what to render.
        format: one of ``FORMATS``.
        unit: ``"auto"``, ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``, of times in table, markdown and
            html; json and csv are in nanoseconds always.
        top: rows of each table; 0 for all; None for all in json and csv, 1000 in html, else 50.
            Table, markdown and html say how many rows they leave out.
        width: characters a line of table or markdown should stay within, by cutting names.

    Returns:
        Text that ends in a line break and that UTF-8 can encode.

    Raises:
        UsageError: no such format or unit, or ``top`` is negative.
    """
    if top is not None and top < 0:
        raise UsageError(f"top is {top}: give a number of rows, or 0 for all")
    if format not in FORMATS:
        raise UsageError(f"unknown format {format!r}: choose {', '.join(FORMATS)}")
    # Imported when asked for: each brings much that the others do not need.
    write = importlib.import_module(f"nvtrace.sinks.{_MODULES.get(format, format)}").render
    if format in _TOP:
        text: str = write(report, unit=unit, top=_TOP[format] if top is None else top, width=width)
    else:
        text = write(report.head(top) if top else report)
    return text
