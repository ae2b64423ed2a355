"""Bulk columns out of an SQLite file, tolerant of what real exports lack.

Columns are read from the table's pages where these are plain, else through SQLite.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from nvtrace.errors import CorruptReport, NotAReport, SourceError
from nvtrace.sources import sqlite_cells, sqlite_native, sqlite_queries
from nvtrace.sources.sqlite_columns import Column, Rows, Wanted, absent, values
from nvtrace.sources.sqlite_pages import PageFile, Unusual
from nvtrace.sources.sqlite_queries import quoted

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
        except _ERRORS as error:
            raise self._damaged(error) from error
        self._connection.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
        try:
            self.tables = self._tables()
            self._roots = self._plain_roots()
        except _ERRORS as error:
            self._connection.close()
            raise self._damaged(error) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
        if self._pages is not None:
            self._pages.close()

    def _tables(self) -> dict[str, tuple[str, ...]]:
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
        self, table: str, wanted: Mapping[str, int], where: str | Rows = ""
    ) -> dict[str, I64]:
        """Return integer columns of ``table``, int64 of shape (n,) each, in the file's order.

        Args:
            table: its name; a missing table gives columns of no rows.
            wanted: column -> value for NULL and for a missing column.
            where: which rows.
        """
        found = self.read(table, {name: values(missing) for name, missing in wanted.items()}, where)
        return {name: column for name, column in found.items() if isinstance(column, np.ndarray)}

    def read(
        self, table: str, wanted: Mapping[str, Wanted], where: str | Rows = ""
    ) -> dict[str, Any]:
        """Return columns of ``table`` in one pass, in the file's order.

        Args:
            table: its name; a missing table gives columns of no rows.
            wanted: column -> its form. A column that the table lacks is as if it were NULL.
            where: which rows.

        Returns:
            int64 arrays for ``values``, Coded for the other forms.

        Raises:
            CorruptReport: the file is damaged.
        """
        present = self.columns(table)
        asked = {name: one for name, one in wanted.items() if name in present}
        read = self._from_pages(table, asked, where) if asked else None
        found, count = read or self._from_sql(table, asked, where)
        return {
            name: found[name] if name in found else absent(one, count)
            for name, one in wanted.items()
        }

    def _from_pages(
        self, table: str, wanted: Mapping[str, Wanted], where: str | Rows
    ) -> tuple[dict[str, Column], int] | None:
        """Return columns read from the table's pages; None where SQLite must be asked."""
        root, file = self._roots.get(table), self._pages
        if root is None or file is None or (where and not isinstance(where, Rows)):
            return None
        place = self.columns(table).index
        decode = sqlite_native.read if sqlite_native.library() else sqlite_cells.read
        try:
            columns = decode(
                file,
                file.leaves(root),
                {place(name): one for name, one in wanted.items()},
                (place(where.column), where) if isinstance(where, Rows) else None,
            )
        except Unusual:
            return None
        found = {name: columns[place(name)] for name in wanted}
        return found, len(next(iter(found.values())))

    def _from_sql(
        self, table: str, wanted: Mapping[str, Wanted], where: str | Rows
    ) -> tuple[dict[str, Column], int]:
        if table not in self.tables:
            return {}, 0
        try:
            return sqlite_queries.read(self._connection, f"{quoted(table)}{_clause(where)}", wanted)
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


def _clause(where: str | Rows) -> str:
    condition = where.sql if isinstance(where, Rows) else where
    return f" WHERE {condition}" if condition else ""


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
