"""Bulk columns out of an SQLite file, tolerant of what real exports lack.

Columns are read from the table's pages where these are plain, else through SQLite.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from nvtrace.errors import CorruptReport, NotAReport, SourceError
from nvtrace.sources import sqlite_cells, sqlite_native, sqlite_queries
from nvtrace.sources.columns import Column, Rows, Wanted, absent
from nvtrace.sources.sqlite_pages import PageFile, Unusual
from nvtrace.sources.sqlite_queries import quoted
from nvtrace.sources.table_reader import TableReader

I64 = npt.NDArray[np.int64]

_MAGIC = b"SQLite format 3\0"
# sqlite3 fails to decode SQLite's own message where that quotes a damaged schema
_ERRORS = (sqlite3.Error, UnicodeDecodeError)


class SqliteReader(TableReader):
    """One SQLite file, opened read-only.

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
        except _ERRORS as error:
            raise self._damaged(error) from error
        self._connection.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
        try:
            self.tables = self._columns = self._read_schema()
            self._roots = self._plain_roots()
        except _ERRORS as error:
            self._connection.close()
            raise self._damaged(error) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
        if self._pages is not None:
            self._pages.close()

    def _read_schema(self) -> dict[str, tuple[str, ...]]:
        names = [
            row[0]
            for row in self._connection.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            )
        ]
        return {
            name: tuple(
                row[1] for row in self._connection.execute(f"PRAGMA table_info({quoted(name)})")
            )
            for name in names
        }

    def _plain_roots(self) -> dict[str, int]:
        """Return the root pages of tables whose rows hold every column as a value of its own."""
        found = {}
        sql = "SELECT name, rootpage FROM sqlite_master WHERE type = 'table'"
        for name, root in self._connection.execute(sql).fetchall():
            facts = self._connection.execute(f"PRAGMA table_xinfo({quoted(name)})").fetchall()
            # hidden and generated columns, and integer keys that are the rowid itself
            if root and not any(row[5] or row[6] for row in facts):
                found[name] = root
        return found

    @cached_property
    def _pages(self) -> PageFile | None:
        try:
            return PageFile(self.path)
        except (Unusual, OSError, ValueError):
            return None

    def _damaged(self, error: Exception) -> SourceError:
        reason = str(error) if isinstance(error, sqlite3.Error) else "malformed database schema"
        reason = "".join(letter if letter.isprintable() else "?" for letter in reason)
        return CorruptReport(
            f"{self.path}: the database cannot be read ({reason}); export the report again"
        )

    def columns(self, table: str) -> tuple[str, ...]:
        """Return the column names of ``table``; empty when there is no such table."""
        return self._columns.get(table, ())

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a small query.

        Raises:
            CorruptReport: the file is damaged.
        """
        try:
            return self._connection.execute(sql).fetchall()
        except _ERRORS as error:
            raise self._damaged(error) from error

    def rows(self, table: str, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return some columns of a small table, row by row; all of them must be there."""
        return self.query(f"SELECT {', '.join(map(quoted, names))} FROM {quoted(table)}")

    def read(
        self, table: str, wanted: Mapping[str, Wanted], where: Rows | None = None
    ) -> dict[str, Any]:
        """Return columns of ``table`` in one pass, in the file's order."""
        present = self.columns(table)
        asked = {name: one for name, one in wanted.items() if name in present}
        read = self._from_pages(table, asked, where) if asked else None
        found, count = read or self._from_sql(table, asked, where)
        return {
            name: found[name] if name in found else absent(one, count)
            for name, one in wanted.items()
        }

    def _from_pages(
        self, table: str, wanted: Mapping[str, Wanted], where: Rows | None
    ) -> tuple[dict[str, Column], int] | None:
        """Return columns read from the table's pages; None where SQLite must be asked."""
        root, file = self._roots.get(table), self._pages
        if root is None or file is None:
            return None
        place = self.columns(table).index
        decode = sqlite_native.read if sqlite_native.library() else sqlite_cells.read
        try:
            columns = decode(
                file,
                file.leaves(root),
                {place(name): one for name, one in wanted.items()},
                (place(where.column), where) if where else None,
            )
        except Unusual:
            return None
        found = {name: columns[place(name)] for name in wanted}
        return found, len(next(iter(found.values())))

    def _from_sql(
        self, table: str, wanted: Mapping[str, Wanted], where: Rows | None
    ) -> tuple[dict[str, Column], int]:
        if table not in self.tables:
            return {}, 0
        source = quoted(table) + (f" WHERE {where.sql}" if where else "")
        try:
            return sqlite_queries.read(self._connection, source, wanted)
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
