"""Bulk columns out of an SQLite file, tolerant of what real exports lack.

Columns are read from the table's pages where these are plain, else through SQLite.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from nvtrace.errors import CorruptReport, NotAReport, SourceError
from nvtrace.sources.sqlite_pages import Cells, PageReader, Unusual

I64 = npt.NDArray[np.int64]

_MAGIC = b"SQLite format 3\0"
# sqlite3 fails to decode SQLite's own message where that quotes a damaged schema
_ERRORS = (sqlite3.Error, UnicodeDecodeError)


@dataclass(frozen=True)
class Rows:
    """Which rows to read: those whose ``column`` is one of ``values``, or is none of them.

    NULL counts as -1.
    """

    column: str
    values: tuple[int, ...]
    inverse: bool = False

    @property
    def sql(self) -> str:
        """The same as an SQL condition."""
        values = ", ".join(map(str, self.values))
        return f"ifnull({self.column}, -1) {'NOT ' if self.inverse else ''}IN ({values})"

    def mask(self, found: I64) -> npt.NDArray[np.bool_]:
        """Return which rows to read, given the column's values."""
        return np.isin(found, self.values, invert=self.inverse)


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
            self._roots = self._plain_roots()
        except _ERRORS as error:
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
                row[1] for row in self._connection.execute(f"PRAGMA table_info({_quoted(name)})")
            )
            for name in names
        }

    def _plain_roots(self) -> dict[str, int]:
        """Return the root pages of tables whose rows hold every column as a value of its own."""
        found = {}
        sql = "SELECT name, rootpage FROM sqlite_master WHERE type = 'table'"
        for name, root in self._connection.execute(sql).fetchall():
            facts = self._connection.execute(f"PRAGMA table_xinfo({_quoted(name)})").fetchall()
            # hidden and generated columns, and integer keys that are the rowid itself
            if root and not any(row[5] or row[6] for row in facts):
                found[name] = root
        return found

    @cached_property
    def _pages(self) -> PageReader | None:
        try:
            return PageReader(self.path)
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
            wanted: column name or SQL expression -> value for NULL and for a missing column.
                Keys that are plain names are checked against the table.
            where: which rows.
        """
        return self.columns_of(table, wanted, {}, where)

    def columns_of(
        self,
        table: str,
        integers: Mapping[str, int],
        texts: Mapping[str, Callable[[str], int]],
        where: str | Rows = "",
    ) -> dict[str, npt.NDArray[Any]]:
        """Return integer and text columns of ``table`` in one pass.

        Args:
            table: as for ``integers``.
            integers: as for ``integers``.
            texts: column name -> what turns a text into a row; such a column is int32, -1 for NULL
                and where it is missing.
            where: which rows.
        """
        present = self.columns(table)
        if not present:
            return {
                **{name: np.empty(0, np.int64) for name in integers},
                **{name: np.empty(0, np.int32) for name in texts},
            }
        numbers = [key for key in integers if not key.isidentifier() or key in present]
        decoders: dict[str, Callable[[Cells], npt.NDArray[Any]]] = {
            key: partial(Cells.integers, default=integers[key]) for key in numbers
        }
        decoders |= {key: _interner(texts[key]) for key in texts if key in present}
        found: dict[str, npt.NDArray[Any]] | None = None
        if numbers and set(decoders) <= set(present):
            found = self._from_pages(table, decoders, where)
        if found is None:
            found = dict(self._from_sql(table, {key: integers[key] for key in numbers}, where))
            for key in texts:
                if key in present:
                    found[key] = self._texts_from_sql(table, key, texts[key], where)
        return _completed(integers, texts, found)

    def _from_sql(self, table: str, wanted: Mapping[str, int], where: str | Rows) -> dict[str, I64]:
        source = f"{_quoted(table)}{_clause(where)}"
        count = int(self.query(f"SELECT count(*) FROM {source}")[0][0])
        if not wanted:
            return {"": np.empty(count, np.int64)}
        plain = ", ".join(f"ifnull({key}, {default})" for key, default in wanted.items())
        try:
            flat = self._flat(f"SELECT {plain} FROM {source}", count * len(wanted), np.int64)
        except (ValueError, TypeError, OverflowError):
            # a column of another affinity: a modified file
            safe = ", ".join(
                f"CAST(ifnull({key}, {default}) AS INTEGER)" for key, default in wanted.items()
            )
            flat = self._flat(f"SELECT {safe} FROM {source}", count * len(wanted), np.int64)
        matrix = flat.reshape(count, len(wanted))
        return {key: np.ascontiguousarray(matrix[:, i]) for i, key in enumerate(wanted)}

    def reals(self, table: str, column: str, where: str | Rows = "") -> npt.NDArray[np.float64]:
        """Return one float64 column of ``table``, in the file's order; NULL becomes 0."""
        parts = self._from_pages(table, {column: Cells.reals}, where)
        if parts is not None:
            return parts[column]
        sql = f"SELECT CAST(ifnull({column}, 0) AS REAL) FROM {_quoted(table)}{_clause(where)}"
        return self._flat(sql, -1, np.float64)

    def texts(
        self, table: str, column: str, intern: Callable[[str], int], where: str | Rows = ""
    ) -> npt.NDArray[np.int32]:
        """Return one text column as interned rows, int32 of shape (n,); -1 for NULL."""
        parts = self._from_pages(table, {column: _interner(intern)}, where)
        if parts is not None:
            return parts[column]
        return self._texts_from_sql(table, column, intern, where)

    def _texts_from_sql(
        self, table: str, column: str, intern: Callable[[str], int], where: str | Rows
    ) -> npt.NDArray[np.int32]:
        sql = f"SELECT CAST({column} AS TEXT) FROM {_quoted(table)}{_clause(where)}"
        try:
            rows = self._connection.execute(sql)
            return np.fromiter(
                (-1 if row[0] is None else intern(row[0]) for row in rows), dtype=np.int32
            )
        except _ERRORS as error:
            raise self._damaged(error) from error

    def _from_pages(
        self,
        table: str,
        decoders: Mapping[str, Callable[[Cells], npt.NDArray[Any]]],
        where: str | Rows,
    ) -> dict[str, npt.NDArray[Any]] | None:
        """Return columns read from the table's pages; None where SQLite must be asked."""
        root, pages = self._roots.get(table), self._pages
        if root is None or pages is None or (where and not isinstance(where, Rows)):
            return None
        columns = self.columns(table)
        place = {name: columns.index(name) for name in decoders}
        tested = columns.index(where.column) if isinstance(where, Rows) else None
        wanted = sorted({*place.values(), *([] if tested is None else [tested])})
        parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in decoders}
        try:
            for batch in pages.columns(root, wanted):
                if isinstance(where, Rows) and tested is not None:
                    kept = where.mask(batch[tested].integers(-1))
                    if not kept.all():
                        rows = np.flatnonzero(kept)
                        batch = {column: cells.take(rows) for column, cells in batch.items()}
                for name, decode in decoders.items():
                    parts[name].append(decode(batch[place[name]]))
        except Unusual:
            return None
        return {name: np.concatenate(parts.pop(name)) for name in decoders}

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


def _interner(intern: Callable[[str], int]) -> Callable[[Cells], npt.NDArray[np.int32]]:
    """Return what turns cells of text into rows, -1 for NULL."""
    known: dict[bytes | None, int] = {None: -1}

    def row_of(data: bytes | None) -> int:
        row = known.get(data)
        if row is None:
            assert data is not None
            row = known[data] = intern(data.decode("utf-8", "backslashreplace"))
        return row

    def rows_of(cells: Cells) -> npt.NDArray[np.int32]:
        if cells.null.all():
            return np.full(len(cells.serial), -1, np.int32)
        return np.fromiter(map(row_of, cells.texts()), np.int32, len(cells.serial))

    return rows_of


def _completed(
    integers: Mapping[str, int], texts: Iterable[str], found: dict[str, npt.NDArray[Any]]
) -> dict[str, npt.NDArray[Any]]:
    """Return all wanted columns: those that the table lacks hold their default."""
    count = len(next(iter(found.values())))
    whole = {
        name: found[name] if name in found else np.full(count, default, np.int64)
        for name, default in integers.items()
    }
    for name in texts:
        whole[name] = found[name] if name in found else np.full(count, -1, np.int32)
    return whole


def _clause(where: str | Rows) -> str:
    condition = where.sql if isinstance(where, Rows) else where
    return f" WHERE {condition}" if condition else ""


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
