"""Saves a trace as an SQLite file in the schema of Nsight Systems, which nsys and nvtrace read.

What that schema has no place for goes into tables named ``NVTRACE_*``, which nsys passes over.
Times are those of the trace; a table that was not recorded is absent.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, get_type_hints

from nvtrace.errors import OutputError
from nvtrace.model import schema
from nvtrace.model.nsys_ddl import (
    OWN_RECORDS,
    PRODUCT_VERSION,
    SAVED_FORMAT,
    SCHEMA_VERSION,
    create_statement,
)
from nvtrace.model.trace import TraceData
from nvtrace.sinks.files import STDOUT, atomic_output
from nvtrace.sinks.nsys_sqlite_events import write_events
from nvtrace.sinks.nsys_sqlite_keys import Keys

if TYPE_CHECKING:
    from sqlite_utils import Database

Row = dict[str, Any]

_PRODUCT = "nvtrace"
_MEMORY_KINDS = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static",
                 "Managed Static", "Unknown")  # fmt: skip


def write(trace: TraceData, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write ``trace`` to ``path``, whole or not at all.

    Args:
        trace: what to save.
        path: the SQLite file.
        overwrite: replace a file that is there.

    Raises:
        OutputError: there is a file already, or it cannot be written.
    """
    name = os.fspath(path)
    if name == STDOUT:
        raise OutputError("a saved trace is a database and cannot go to standard output; name one")
    if os.path.lexists(name) and not overwrite:
        raise OutputError(f"{name} exists; pass overwrite=True to replace it, or name another")
    try:
        with atomic_output(name) as file, closing(_connected(file.name)) as connection:
            _write_all(trace, connection)
    except sqlite3.Error as error:
        raise OutputError(f"cannot write {name}: {error}") from error


def _connected(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    # The file has a temporary name until it is whole: after a crash nobody looks at it.
    for pragma in ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _write_all(trace: TraceData, connection: sqlite3.Connection) -> None:
    from sqlite_utils import Database  # takes a third of a second

    keys = Keys.of(trace)
    with connection:
        connection.execute("BEGIN")
        database = Database(connection)
        for table, rows in _small_tables(trace, keys):
            _insert(database, table, rows)
        _insert_records(trace, database)
        write_events(trace, keys, connection)


def _insert(database: Database, table: str, rows: Iterable[Row]) -> None:
    database.execute(create_statement(table))
    database.table(table).insert_all(rows)


def _small_tables(trace: TraceData, keys: Keys) -> Iterable[tuple[str, Iterable[Row]]]:
    yield "META_DATA_EXPORT", _metadata()
    yield "StringIds", _strings(trace)
    yield "ENUM_CUDA_MEMCPY_OPER", _enumeration(schema.COPY_KINDS.values())
    yield "ENUM_CUDA_MEM_KIND", _enumeration(_MEMORY_KINDS)
    if trace.origin_unix_ns is not None:
        yield "TARGET_INFO_SESSION_START_TIME", [{"utcEpochNs": trace.origin_unix_ns}]
    yield from _who(trace, keys)
    yield from _own(trace, keys)


def _metadata() -> Iterable[Row]:
    major, minor, micro = SCHEMA_VERSION.split(".")
    facts = {
        "EXPORT_PRODUCT_NAME": _PRODUCT,
        "EXPORT_PRODUCT_VERSION": PRODUCT_VERSION,
        "EXPORT_SCHEMA_VERSION": SCHEMA_VERSION,
        "EXPORT_SCHEMA_VERSION_MAJOR": major,
        "EXPORT_SCHEMA_VERSION_MINOR": minor,
        "EXPORT_SCHEMA_VERSION_MICRO": micro,
    }
    return [{"name": name, "value": value} for name, value in facts.items()]


def _enumeration(labels: Iterable[str]) -> Iterable[Row]:
    return [{"id": number, "name": label, "label": label} for number, label in enumerate(labels)]


def _strings(trace: TraceData) -> Iterable[Row]:
    """Return the strings by row, and what graph nodes are called, which no string of them is."""
    values = [*trace.strings, "CUDA graph node"]
    return ({"id": row, "value": _storable(value)} for row, value in enumerate(values))


def _who(trace: TraceData, keys: Keys) -> Iterable[tuple[str, Iterable[Row]]]:
    """Return the tables in which nsys looks for processes, threads and devices."""
    yield (
        "PROCESSES",
        [
            {"globalPid": key, "pid": process.pid, "name": process.name}
            for key, process in zip(keys.processes.tolist(), trace.processes, strict=True)
        ],
    )
    named = zip(trace.threads["name"].tolist(), keys.threads.tolist(), strict=True)
    yield "ThreadNames", [{"nameId": name, "globalTid": key} for name, key in named if name >= 0]
    ordinals = [device.ordinal for device in trace.devices]
    one_each = len(set(ordinals)) == len(ordinals)
    numbers = ordinals if one_each else list(range(len(ordinals)))
    yield (
        "TARGET_INFO_GPU",
        [
            {
                "vmId": keys.machine(row),
                "id": number,
                "name": device.name,
                "busLocation": device.bus_id,
                "totalMemory": device.memory_bytes,
                "smCount": device.sm_count,
                "uuid": device.uuid,
                "cuDevice": device.ordinal,
            }
            for row, (number, device) in enumerate(zip(numbers, trace.devices, strict=True))
        ],
    )
    yield (
        "TARGET_INFO_CUDA_DEVICE",
        [
            {"gpuId": numbers[device], "cudaId": cuda, "pid": trace.processes[process].pid}
            for (process, cuda), device in keys.cuda_devices.items()
        ],
    )


def _own(trace: TraceData, keys: Keys) -> Iterable[tuple[str, Iterable[Row]]]:
    """Return nvtrace's own small tables, rows in the order of the model's."""
    facts = {
        "format": SAVED_FORMAT,
        "strings": len(trace.strings),
        "shift_ns": trace.shift_ns,
        "capture_start": trace.capture_start,
    }
    yield "NVTRACE_TRACE", [{"name": name, "value": value} for name, value in facts.items()]
    tids = trace.threads["tid"].tolist()
    yield (
        "NVTRACE_THREADS",
        [
            {"globalTid": key, "tid": tid}
            for key, tid in zip(keys.threads.tolist(), tids, strict=True)
        ],
    )
    yield "NVTRACE_STREAMS", keys.stream_rows(trace)
    yield "NVTRACE_CATEGORIES", [{"name": _storable(name)} for name in trace.categories]


def _insert_records(trace: TraceData, database: Database) -> None:
    """Write the records of the model field by field; a kind without any gets no table."""
    records: tuple[Sequence[Any], ...] = (
        trace.sources,
        trace.notes,
        trace.cpu,
        trace.processes,
        trace.devices,
        trace.domains,
        trace.counters,
    )
    kept = {type(some[0]): some for some in records if some}
    for table, kind in OWN_RECORDS.items():
        if kind in kept:
            hints = get_type_hints(kind)
            types = {name: str if "str" in str(hint) else int for name, hint in hints.items()}
            database.table(table).create(types).insert_all(map(_storable_fields, kept[kind]))


def _storable_fields(record: Any) -> Row:
    return {
        name: _storable(value) if isinstance(value, str) else value
        for name, value in record._asdict().items()
    }


def _storable(text: str) -> str:
    """Return ``text`` as SQLite can hold it: lone surrogates are in no encoding."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
