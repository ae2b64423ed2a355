"""What an nsys export says about itself: versions, capture bounds, diagnostics, missing answers.

The process environment, command lines, users, hosts and captured output that exports hold are
personal: nothing here reads them.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterable

from nvtrace.model.trace import Note, Recorded
from nvtrace.sources.table_reader import TableReader

NEWEST_KNOWN_SCHEMA = (3, 25)

EVENT_TABLES = {
    "NVTX_EVENTS": "ranges",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "calls",
    "CUPTI_ACTIVITY_KIND_KERNEL": "kernels",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "memcpy",
    "CUPTI_ACTIVITY_KIND_MEMSET": "memset",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "graphs",
}

# tables that only nsys writes: one of them is enough to know an export without any event
_SIGNATURES = {
    "ANALYSIS_DETAILS",
    "ANALYSIS_FILE",
    "EXPORT_META_DATA",
    "META_DATA_EXPORT",
    "StringIds",
    "TARGET_INFO_SYSTEM_ENV",
    "TARGET_INFO_SESSION_START_TIME",
    "ThreadNames",
    *EVENT_TABLES,
}

_COSTS = {
    "NVTX_EVENTS": {
        "end": "every range counts as unfinished",
        "globalTid": "ranges have no thread and own no GPU work",
        "domainId": "NVTX domains are not told apart",
        "textId": "registered names are not known",
        "text": "names that are not registered are not known",
    },
    "CUPTI_ACTIVITY_KIND_RUNTIME": {
        "globalTid": "calls have no thread, so GPU work finds no range",
        "correlationId": "GPU work cannot be joined to its launch",
        "nameId": "CUDA calls have no names",
    },
    "CUPTI_ACTIVITY_KIND_KERNEL": {
        "globalPid": "kernels have no process",
        "correlationId": "kernels cannot be joined to their launch",
        "deviceId": "devices are not told apart",
        "streamId": "streams are not told apart",
    },
    "CUPTI_ACTIVITY_KIND_MEMCPY": {
        "globalPid": "copies have no process",
        "correlationId": "copies cannot be joined to their launch",
        "bytes": "sizes of copies are not known",
        "copyKind": "directions of copies are not known",
    },
    "CUPTI_ACTIVITY_KIND_MEMSET": {
        "globalPid": "memory sets have no process",
        "correlationId": "memory sets cannot be joined to their launch",
        "bytes": "sizes of memory sets are not known",
    },
    "StringIds": {"id": "names are not known", "value": "names are not known"},
}

_WARNING, _ERROR = 2, 3  # DIAGNOSTIC_EVENT.severity
_UNKNOWN = -(2**63)  # stands for NULL: no time
_PATH = re.compile(r"(?:[A-Za-z]:)?[\\/][^\s,;:'\"]+")
_DIAGNOSTICS_SHOWN = 5


def is_export(tables: Iterable[str]) -> bool:
    """Return whether any of the tables is one that Nsight Systems writes."""
    return not _SIGNATURES.isdisjoint(tables)


def recorded(reader: TableReader) -> Recorded:
    """Return which kinds of events the export has a table for."""
    return Recorded(
        **{
            kind: {"start", "end"} <= set(reader.columns(table))
            for table, kind in EVENT_TABLES.items()
        }
    )


def versions(reader: TableReader) -> tuple[str | None, str | None]:
    """Return the exporter's version and the schema's version, None where the file is silent."""
    facts = _export_facts(reader)
    product = facts.get("EXPORT_PRODUCT_VERSION")
    schema = facts.get("EXPORT_SCHEMA_VERSION")
    return f"Nsight Systems {product}" if product else None, str(schema) if schema else None


def added_to_times(reader: TableReader) -> int:
    """Return what the export was told to add to all event times, ns (``nsys export --ts-shift``).

    With ``--ts-normalize`` that is the Unix time at which the capture began.
    """
    facts = _export_facts(reader)
    for name in ("EXPORT_CONFIG_TIME_SHIFT", "EXPORT_PARAM_TIME_SHIFT"):
        stated = str(facts.get(name, ""))
        if re.fullmatch(r"-?\d{1,18}|-?[1-8]\d{18}", stated):
            return int(stated)
    return 0


def _export_facts(reader: TableReader) -> dict[str, object]:
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        if {"name", "value"} <= set(reader.columns(table)):
            return dict(reader.rows(table, ("name", "value")))
    return {}


def capture_end(reader: TableReader) -> int | None:
    """Return when the capture ended, in the file's own ns; None when the file is silent."""
    if "duration" not in reader.columns("ANALYSIS_DETAILS"):
        return None
    stated = (duration for (duration,) in reader.rows("ANALYSIS_DETAILS", ("duration",)))
    return max((one for one in stated if isinstance(one, int)), default=None)


def origin(reader: TableReader) -> int | None:
    """Return the Unix time of the file's zero in ns; None when the file is silent."""
    if "utcEpochNs" not in reader.columns("TARGET_INFO_SESSION_START_TIME"):
        return None
    rows = reader.rows("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))
    return rows[0][0] if rows and isinstance(rows[0][0], int) else None


def notes(reader: TableReader, schema: str | None) -> list[Note]:
    """Return what the export itself gives reason to say."""
    found = list(_missing_columns(reader))
    if schema and tuple(int(part) for part in re.findall(r"\d+", schema)[:2]) > NEWEST_KNOWN_SCHEMA:
        newest = ".".join(map(str, NEWEST_KNOWN_SCHEMA))
        found.append(
            Note(
                "newer_schema",
                f"the export's schema {schema} is newer than {newest}, the newest this version of "
                "nvtrace was tested with; compare one figure with nsys stats",
            )
        )
    found += _diagnostics(reader)
    found += _overhead(reader)
    return found


def _missing_columns(reader: TableReader) -> list[Note]:
    found = []
    for table, costs in _COSTS.items():
        columns = reader.columns(table)
        if not columns:
            continue
        if table in EVENT_TABLES and not {"start", "end"} <= {*columns, *costs}:
            missing = sorted({"start", "end"} - set(columns))
            found.append(
                Note("missing_column", f"{table} has no {missing[0]}: its rows were not read")
            )
        found += [
            Note("missing_column", f"{table} has no {column}: {cost}")
            for column, cost in costs.items()
            if column not in columns
        ]
    if "StringIds" not in reader.tables and set(EVENT_TABLES) & set(reader.tables):
        found.append(Note("missing_table", "the export has no StringIds: names are not known"))
    return found


def _diagnostics(reader: TableReader) -> list[Note]:
    if not {"severity", "text"} <= set(reader.columns("DIAGNOSTIC_EVENT")):
        return []
    # paths and numbers tell about a machine, and make repetitions look different
    tally = Tally(
        (severity, re.sub(r"\d+", "#", _PATH.sub("…", str(text or ""))))
        for severity, text in reader.rows("DIAGNOSTIC_EVENT", ("severity", "text"))
        if severity in (_WARNING, _ERROR)
    )
    ordered = sorted(tally.items(), key=lambda item: (-item[0][0], -item[1], item[0][1]))
    found = [
        Note(
            "nsys_error" if severity == _ERROR else "nsys_warning",
            f"Nsight Systems said: {' '.join(text.split())}"
            + (f" ({count} times)" if count > 1 else ""),
        )
        for (severity, text), count in ordered[:_DIAGNOSTICS_SHOWN]
    ]
    rest = len(ordered) - len(found)
    if rest > 0:
        found.append(Note("nsys_warning", f"Nsight Systems gave {rest} more kinds of warning"))
    return found


def _overhead(reader: TableReader) -> list[Note]:
    if not {"start", "end"} <= set(reader.columns("PROFILER_OVERHEAD")):
        return []
    times = reader.integers("PROFILER_OVERHEAD", {"start": _UNKNOWN, "end": _UNKNOWN})
    start, end = times["start"], times["end"]
    known = (start != _UNKNOWN) & (end != _UNKNOWN)
    count, total = len(start), int((end[known] - start[known]).sum())
    if not count:
        return []
    return [
        Note(
            "profiler_overhead",
            f"Nsight Systems recorded {total / 1e6:,.1f} ms of its own overhead in "
            f"{count:,} places: do not compare these times with those of an unprofiled run",
        )
    ]
