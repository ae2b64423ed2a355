"""Reports as one strict JSON object, a row a line."""

from __future__ import annotations

import json
import re

from nvtrace.report import Report
from nvtrace.sinks.names import valid_utf8

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_SURROGATE = re.compile("[\ud800-\udfff]")


def render(report: Report) -> str:
    """Return ``report.to_dict()`` as JSON text; rows stand on lines of their own."""
    fields = report.to_dict()
    views = ",\n".join(f" {_encode(key)}: {_rows(rows)}" for key, rows in fields["views"].items())
    lines = [f"{_encode(key)}: {_encode(fields[key])}" for key in fields if key != "views"]
    text = "{" + ",\n".join([*lines, f'"views": {{\n{views}\n}}']) + "}\n"
    return text if text.isascii() else _SURROGATE.sub(_escape, text)


def _rows(rows: list[dict[str, object]]) -> str:
    return "[\n  " + ",\n  ".join(map(_encode, rows)) + "\n ]" if rows else "[]"


def _escape(match: re.Match[str]) -> str:
    return _encode(valid_utf8(match[0]))[1:-1]
