"""Bulk columns out of an SQLite file, tolerant of what real exports lack."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from nvtrace.errors import CorruptReport, NotAReport, SourceError

I64 = npt.NDArray[np.int64]

_MAGIC = b"SQLite format 3\0"
# sqlite3 fails to decode SQLite's own message where that quotes a damaged schema
_ERRORS = (sqlite3.Error, UnicodeDecodeError)


class SqliteReader:
    r"""One SQLite file, opened read-only.

    Text that is not UTF-8 keeps its bytes as ``\xNN``, so that distinct names stay distinct.

    Raises:
        NotAReport: not an SQLite file.
        CorruptReport: an SQLite file that is truncated or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _check_header(path)
        # immutable: no lock and no -shm file, so a read-only folder works; but it would not see
        # rows that still sit in a write-ahead log
        pending = path.with_name(path.name + "-wal").exists()
        uri = f"file:{quote(str(path.absolute()))}?mode=ro{'' if pending else '&immutable=1'}"
        try:
            self._connection = sqlite3.connect(uri, uri=True)
            self._connection.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
            self.tables = self._tables()
        except _ERRORS as error:
            raise self._damaged(error) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _tables(self) -> dict[str, tuple[str, ...]]:
        names = [
            row[0]
            for row in self._connection.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            )
        ]
        return {
            name: tuple(
                row[1] for row in self._connection.execute(f"PRAGMA table_info({_quoted(name)})")
            )
            for name in names
        }

    def _damaged(self, error: Exception) -> SourceError:
        reason = str(error) if isinstance(error, sqlite3.Error) else "malformed database schema"
        reason = "".join(letter if letter.isprintable() else "?" for letter in reason)
        return CorruptReport(
            f"{self.path}: the database cannot be read ({reason}); export the report again"
        )

    def columns(self, table: str) -> tuple[str, ...]:
        """Return the column names of ``table``; empty when there is no such table."""
        return self.tables.get(table, ())

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a small query.

        Raises:
            CorruptReport: the file is damaged.
        """
        try:
            return self._connection.execute(sql).fetchall()
        except _ERRORS as error:
            raise self._damaged(error) from error

    def integers(
        self, table: str, wanted: Mapping[str, int], where: str = "", count: int | None = None
    ) -> dict[str, I64]:
        """Return integer columns of ``table``, int64 of shape (n,) each, in the file's order.

        Args:
            table: its name; a missing table gives columns of no rows.
            wanted: column name or SQL expression -> value for NULL and for a missing column.
                Keys that are plain names are checked against the table.
            where: an SQL condition.
            count: the number of rows, when known.
        """
        present = self.columns(table)
        if not present:
            return {name: np.empty(0, np.int64) for name in wanted}
        clause = f" WHERE {where}" if where else ""
        name = _quoted(table)
        if count is None:
            count = int(self.query(f"SELECT count(*) FROM {name}{clause}")[0][0])
        chosen = [key for key in wanted if not key.isidentifier() or key in present]
        result = {key: np.full(count, wanted[key], np.int64) for key in wanted if key not in chosen}
        if chosen:
            plain = ", ".join(f"ifnull({key}, {wanted[key]})" for key in chosen)
            safe = ", ".join(f"CAST(ifnull({key}, {wanted[key]}) AS INTEGER)" for key in chosen)
            sql = f"SELECT {{}} FROM {name}{clause}"
            try:
                flat = self._flat(sql.format(plain), count * len(chosen), np.int64)
            except (ValueError, TypeError, OverflowError):
                # a column of another affinity: a modified file
                flat = self._flat(sql.format(safe), count * len(chosen), np.int64)
            matrix = flat.reshape(count, len(chosen))
            result |= {key: np.ascontiguousarray(matrix[:, i]) for i, key in enumerate(chosen)}
        return {key: result[key] for key in wanted}

    def reals(self, table: str, expression: str, where: str = "") -> npt.NDArray[np.float64]:
        """Return one float64 column of ``table``, in the file's order; NULL becomes 0."""
        clause = f" WHERE {where}" if where else ""
        sql = f"SELECT CAST(ifnull({expression}, 0) AS REAL) FROM {_quoted(table)}{clause}"
        return self._flat(sql, -1, np.float64)

    def texts(
        self, table: str, column: str, intern: Callable[[str], int], where: str = ""
    ) -> npt.NDArray[np.int32]:
        """Return one text column as interned rows, int32 of shape (n,); -1 for NULL."""
        clause = f" WHERE {where}" if where else ""
        sql = f"SELECT CAST({column} AS TEXT) FROM {_quoted(table)}{clause}"
        try:
            rows = self._connection.execute(sql)
            return np.fromiter(
                (-1 if row[0] is None else intern(row[0]) for row in rows), dtype=np.int32
            )
        except _ERRORS as error:
            raise self._damaged(error) from error

    def _flat(self, sql: str, count: int, dtype: type[np.generic]) -> npt.NDArray[Any]:
        try:
            cursor = self._connection.execute(sql)
            return np.fromiter(chain.from_iterable(cursor), dtype=dtype, count=count)
        except _ERRORS as error:
            raise self._damaged(error) from error

    @cached_property
    def string_ids(self) -> tuple[I64, list[str]]:
        """The StringIds table: ids in ascending order, and their texts."""
        if not {"id", "value"} <= set(self.columns("StringIds")):
            return np.empty(0, np.int64), []
        # a modified file may have ids as text, or none
        rows = self.query(
            "SELECT CAST(id AS INTEGER), CAST(ifnull(value, '') AS TEXT) FROM StringIds "
            "WHERE id GLOB '[0-9]*' ORDER BY 1"
        )
        ids = np.fromiter((row[0] for row in rows), np.int64, len(rows))
        return ids, [row[1] for row in rows]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _check_header(path: Path) -> None:
    """Tell a damaged or foreign file apart before SQLite's own, vaguer, words do."""
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(100)
    if not size:
        raise CorruptReport(f"{path}: the file is empty; export or copy the report again")
    if not header.strip(b"\0"):
        raise CorruptReport(
            f"{path}: the header is zeroed, an export was interrupted; export the report again"
        )
    if not header.startswith(_MAGIC):
        raise NotAReport(
            f"{path}: not an Nsight Systems report or SQLite export; "
            "give a .nsys-rep, .qdrep or .sqlite file"
        )
    page_size = int.from_bytes(header[16:18], "big")
    page_size = 65536 if page_size == 1 else page_size
    pages = int.from_bytes(header[28:32], "big")
    if size < max(pages * page_size, 512):
        raise CorruptReport(
            f"{path}: truncated ({size:,} of {pages * page_size:,} bytes); "
            "copy or export the report again"
        )
