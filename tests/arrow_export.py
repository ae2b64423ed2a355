"""An SQLite export as the folder that ``nsys export -t parquetdir`` makes of the same report.

The types are those of Nsight Systems 2023.4.4: tests/sources/test_arrow_reader.py holds them
against what the real nsys writes for all its tables, empty ones too (``--lazy=false``).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

_DECLARED = {"INTEGER": pa.int64(), "REAL": pa.float64(), "TEXT": pa.string()}

# where nsys writes another type than the one that stands for what SQLite declares
UNSIGNED = {
    "NVTX_EVENTS": "rangeId category globalTid endGlobalTid domainId uint64Value",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "globalTid nameId",
    "CUPTI_ACTIVITY_KIND_KERNEL": "contextId greenContextId streamId globalPid demangledName "
    "shortName mangledName graphNodeId",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "contextId greenContextId streamId globalPid bytes copyKind "
    "graphNodeId virtualAddress",
    "CUPTI_ACTIVITY_KIND_MEMSET": "contextId greenContextId streamId globalPid bytes graphNodeId",
    "CUDA_GRAPH_EVENTS": "globalTid nameId graphNodeId originalGraphNodeId",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "globalPid contextId address pc bytes localMemoryPoolAddress "
    "localMemoryPoolReleaseThreshold localMemoryPoolSize localMemoryPoolUtilizedSize "
    "importedMemoryPoolAddress importedMemoryPoolProcessId",
    "GPU_METRICS": "typeId",
    "ThreadNames": "nameId priority globalTid",
    "PROCESSES": "globalPid pid",
    "PROFILER_OVERHEAD": "globalTid nameId",
    "ANALYSIS_DETAILS": "globalVid duration startTime stopTime",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs",
    "TARGET_INFO_GPU": "totalMemory memoryBandwidth luid",
    "TARGET_INFO_GPU_METRICS": "typeId sourceId",
}
OTHERS = {
    ("NVTX_EVENTS", "floatValue"): pa.float32(),
    ("NVTX_EVENTS", "int32Value"): pa.int32(),
    ("StringIds", "id"): pa.int32(),
    ("TARGET_INFO_GPU", "isDiscrete"): pa.bool_(),
    ("TARGET_INFO_GPU", "cuDevice"): pa.int32(),
    **{
        ("CUPTI_ACTIVITY_KIND_KERNEL", name): pa.int32()
        for name in (
            *("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"),
            *("staticSharedMemory", "dynamicSharedMemory"),
            *("localMemoryPerThread", "localMemoryTotal"),
        )
    },
}


def schema_of(table: str, declared: Iterable[tuple[str, str, bool]]) -> pa.Schema:
    """The columns that nsys would write for those of an SQLite table: name, type, NOT NULL."""
    unsigned = UNSIGNED.get(table, "").split()
    return pa.schema(
        pa.field(
            name,
            pa.uint64() if name in unsigned else OTHERS.get((table, name), _DECLARED[kind]),
            nullable=not not_null,
        )
        for name, kind, not_null in declared
    )


def declared_in(database: sqlite3.Connection, table: str) -> list[tuple[str, str, bool]]:
    facts = database.execute(f'PRAGMA table_info("{table}")')
    return [(name, kind, bool(not_null)) for _, name, kind, not_null, *_ in facts]


def tables_of(database: sqlite3.Connection) -> list[str]:
    return [
        name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    ]


def convert(export: Path, folder: Path, *, suffix: str = ".parquet") -> Path:
    """Write the tables of an SQLite export as files in ``folder``, and return that.

    Args:
        export: the SQLite export.
        folder: made here.
        suffix: ``.parquet``, or ``.arrow`` for streams of Arrow's own format (``arrowdir``).
    """
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(f"{export.as_uri()}?mode=ro&immutable=1", uri=True)) as database:
        database.text_factory = bytes
        for table in map(bytes.decode, tables_of(database)):
            write(_table(database, table), folder / f"{table}{suffix}")
    return folder


def write(table: pa.Table, file: Path, **options: Any) -> None:
    """Write one file as nsys does: one row group, not compressed, types of Parquet 1.0."""
    if file.suffix == ".parquet":
        ways = {"version": "1.0", "compression": "none", "store_schema": False}
        parquet.write_table(table, file, **(ways | {"row_group_size": 2**26} | options))
    else:
        with pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)


def _table(database: sqlite3.Connection, table: str) -> pa.Table:
    facts = database.execute(f'PRAGMA table_info("{table}")').fetchall()
    declared = [(name.decode(), kind.decode(), bool(strict)) for _, name, kind, strict, *_ in facts]
    schema = schema_of(table, declared)
    columns = []
    for field in schema:
        rows = database.execute(f'SELECT "{field.name}" FROM "{table}"')
        columns.append(_array([value for (value,) in rows], field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind):  # not checked by nsys: some names are not UTF-8
        return pa.array(values, pa.binary()).cast(kind, safe=False)
    if pa.types.is_uint64(kind):
        values = [None if one is None else one % 2**64 for one in values]
    elif pa.types.is_boolean(kind):
        values = [None if one is None else bool(one) for one in values]
    return pa.array(values, kind)
