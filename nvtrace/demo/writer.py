"""Write an SQLite file as ``nsys export`` would."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType

from nvtrace.model.nsys_ddl import COLUMNS, create_statement, insert_statement

# Columns that vary from row to row, and the values of those that do not. A column with `:` after it
# takes what follows for NULL.
_INSERTS = {
    "NVTX_EVENTS": (
        "start end:-1 eventType rangeId:-1 category color text globalTid endGlobalTid:-1 textId "
        "domainId int64Value:-1",
        {},
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start end eventClass globalTid correlationId nameId",
        {"returnValue": 0},
    ),
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start end deviceId streamId correlationId globalPid demangledName shortName "
        "registersPerThread gridX blockX staticSharedMemory graphNodeId:0 gridId",
        {
            "contextId": 1, "launchType": 1, "cacheConfig": 1, "sharedMemoryLimitConfig": 0,
            "gridY": 1, "gridZ": 1, "blockY": 1, "blockZ": 1, "dynamicSharedMemory": 0,
            "localMemoryPerThread": 0, "localMemoryTotal": 0, "sharedMemoryExecuted": 16384,
        },
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "start end deviceId streamId correlationId globalPid bytes copyKind srcKind dstKind",
        {"contextId": 1},
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": (
        "start end deviceId streamId correlationId globalPid bytes",
        {"contextId": 1, "value": 0, "memKind": 2},
    ),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": (
        "start end deviceId streamId correlationId globalPid graphId",
        {"contextId": 1, "greenContextId": 0, "graphExecId": 4},
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        "start end deviceId correlationId globalPid",
        {"contextId": 1, "streamId": 7, "syncType": 3, "eventId": 0},
    ),
    "CUDA_GPU_MEMORY_USAGE_EVENTS": (
        "start globalPid deviceId address bytes memoryOperationType correlationId",
        {"contextId": 1, "pc": 0, "memKind": 2},
    ),
    "CUDA_GRAPH_EVENTS": (
        "start end globalTid nameId graphNodeId originalGraphNodeId:0",
        {"eventClass": 77},
    ),
}  # fmt: skip


class Writer:
    """An open report; rows keep the order in which they are inserted.

    Args:
        path: a file that does not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self.rows = dict.fromkeys(COLUMNS, 0)
        self._strings: dict[str, int] = {}
        # The file is made under a temporary name; a crash leaves nothing worth a journal.
        for pragma in ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute("BEGIN")
        for table in COLUMNS:
            self._connection.execute(create_statement(table))
        self._sql = {table: insert_statement(table, *parts) for table, parts in _INSERTS.items()}

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    def string(self, value: str) -> int:
        """Return the id of a string in StringIds."""
        return self._strings.setdefault(value, len(self._strings) + 1)

    def insert(self, table: str, columns: Sequence[list[object]]) -> None:
        """Append rows to an event table, given the columns that vary."""
        self._connection.executemany(self._sql[table], zip(*columns, strict=True))
        self.rows[table] += len(columns[0])

    def insert_rows(self, table: str, names: str, rows: Iterable[Sequence[object]]) -> None:
        """Append rows to a small table.

        Args:
            table: its name.
            names: the columns given, separated by blanks; the others are NULL.
            rows: one sequence of values a row.
        """
        listed = names.split()
        marks = ", ".join("?" * len(listed))
        sql = f"INSERT INTO {table} ({', '.join(listed)}) VALUES ({marks})"
        for row in rows:
            self._connection.execute(sql, row)
            self.rows[table] += 1

    def close_range(self, rowid: int, end: int) -> None:
        """Set the end of a range that was written while it was open."""
        self._connection.execute('UPDATE NVTX_EVENTS SET "end" = ? WHERE rowid = ?', (end, rowid))

    def commit(self) -> None:
        """Write the string table and finish the file."""
        self.insert_rows("StringIds", "id value", ((i, s) for s, i in self._strings.items()))
        self._connection.execute("COMMIT")
