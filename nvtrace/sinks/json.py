"""Reports as one strict JSON object, a row a line."""

from __future__ import annotations

import json
import re

from nvtrace.report import Report, ReportTable
from nvtrace.sinks.names import valid_utf8

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_SURROGATE = re.compile("[\ud800-\udfff]")


def render(report: Report) -> str:
    """Return ``report.to_dict()`` as JSON text; rows stand on lines of their own."""
    facts = ",\n".join(f"{_encode(key)}: {_encode(fact)}" for key, fact in report.facts().items())
    views = ",\n".join(f" {_encode(key)}: {_rows(t)}" for key, t in report.tables.items())
    text = f'{{{facts},\n"views": {{\n{views}\n}}}}\n'
    return text if text.isascii() else _SURROGATE.sub(_escape, text)


def _rows(table: ReportTable) -> str:
    return "[\n  " + ",\n  ".join(map(_encode, table)) + "\n ]" if len(table) else "[]"


def _escape(match: re.Match[str]) -> str:
    return _encode(valid_utf8(match[0]))[1:-1]
