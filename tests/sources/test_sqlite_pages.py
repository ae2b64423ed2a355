"""The page reader against SQLite itself, on tables of every shape."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nvtrace.sources.sqlite_pages import PageReader, Unusual

NUMBERS = st.one_of(
    st.none(),
    st.sampled_from([0, 1, -1, 127, 128, -128, 255, 256, 2**15, 2**23, 2**31, 2**47, 2**63 - 1]),
    st.integers(-(2**63), 2**63 - 1),
)
TEXTS = st.one_of(
    st.none(),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=80),
)


def made(path: Path, rows: Sequence[Sequence[Any]], columns: int, page_size: int = 512) -> Path:
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA page_size = {page_size}")
        names = ", ".join(f"c{i}" for i in range(columns))
        database.execute(f"CREATE TABLE t ({names})")
        database.executemany(f"INSERT INTO t VALUES ({', '.join('?' * columns)})", rows)
    database.close()
    return path


def root_of(path: Path, table: str = "t") -> int:
    with sqlite3.connect(path) as database:
        sql = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        return int(database.execute(sql, (table,)).fetchone()[0])


def read(path: Path, wanted: Sequence[int], how: str) -> dict[int, list[Any]]:
    reader = PageReader(path)
    found: dict[int, list[Any]] = {column: [] for column in wanted}
    for batch in reader.columns(root_of(path), wanted):
        for column, cells in batch.items():
            if how == "texts":
                found[column] += list(cells.texts())
            elif how == "reals":
                found[column] += cells.reals().tolist()
            else:
                found[column] += cells.integers(-7).tolist()
    return found


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.tuples(NUMBERS, NUMBERS, TEXTS, NUMBERS), max_size=150))
def test_integers_are_those_of_sqlite(tmp_path: Path, rows: list[tuple[Any, ...]]) -> None:
    path = tmp_path / "t.sqlite"
    path.unlink(missing_ok=True)
    made(path, rows, 4)
    try:
        found = read(path, [0, 1, 3], "integers")
    except Unusual:
        # a row of 512 bytes and more goes on in overflow pages
        assert any(sum(len(str(value)) * 4 for value in row) > 300 for row in rows)
        return
    for column in (0, 1, 3):
        assert found[column] == [-7 if row[column] is None else row[column] for row in rows]


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.tuples(NUMBERS, TEXTS), max_size=100))
def test_texts_are_those_of_sqlite(tmp_path: Path, rows: list[tuple[Any, ...]]) -> None:
    path = tmp_path / "t.sqlite"
    path.unlink(missing_ok=True)
    made(path, rows, 2, page_size=4096)
    found = read(path, [1], "texts")
    assert found[1] == [None if row[1] is None else row[1].encode() for row in rows]


def test_many_pages_keep_the_order_of_rows(tmp_path: Path) -> None:
    rows = [(row * 1_000_003 % 2**40, "x" * (row % 70), row) for row in range(60_000)]
    path = made(tmp_path / "t.sqlite", rows, 3)
    found = read(path, [0, 2], "integers")
    assert found[0] == [row[0] for row in rows]
    assert found[2] == list(range(60_000))


def test_deleted_rows_are_gone(tmp_path: Path) -> None:
    path = made(tmp_path / "t.sqlite", [(row,) for row in range(5_000)], 1)
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM t WHERE c0 % 3 = 0")
    assert read(path, [0], "integers")[0] == [row for row in range(5_000) if row % 3]


def test_reals_keep_their_bits(tmp_path: Path) -> None:
    values = [0.1, -2.5e300, None, 3, 2**53 + 1, 1e-320]
    path = made(tmp_path / "t.sqlite", [(value,) for value in values], 1)
    assert read(path, [0], "reals")[0] == [0.0 if v is None else float(v) for v in values]


def test_an_empty_table_has_no_rows(tmp_path: Path) -> None:
    path = made(tmp_path / "t.sqlite", [], 2)
    assert read(path, [0, 1], "integers") == {0: [], 1: []}


def test_text_among_numbers_is_left_to_sqlite(tmp_path: Path) -> None:
    path = made(tmp_path / "t.sqlite", [(1,), ("two",)], 1)
    with pytest.raises(Unusual):
        read(path, [0], "integers")


def test_long_rows_are_left_to_sqlite(tmp_path: Path) -> None:
    path = made(tmp_path / "t.sqlite", [(1, "x" * 5_000)], 2)
    with pytest.raises(Unusual):
        read(path, [0], "integers")


def test_rows_older_than_a_column_are_left_to_sqlite(tmp_path: Path) -> None:
    path = made(tmp_path / "t.sqlite", [(1,), (2,)], 1)
    with sqlite3.connect(path) as database:
        database.execute("ALTER TABLE t ADD COLUMN late INTEGER DEFAULT 5")
    assert read(path, [0], "integers")[0] == [1, 2]
    with pytest.raises(Unusual):
        read(path, [1], "integers")


def test_a_table_without_rowid_is_left_to_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (c0 INTEGER PRIMARY KEY, c1) WITHOUT ROWID")
        database.executemany("INSERT INTO t VALUES (?, ?)", [(n, n) for n in range(10)])
    database.close()
    with pytest.raises(Unusual):
        read(path, [0], "integers")


def test_a_pending_journal_is_left_to_sqlite(tmp_path: Path) -> None:
    path = made(tmp_path / "t.sqlite", [(1,)], 1)
    path.with_name(path.name + "-wal").write_bytes(b"")
    with pytest.raises(Unusual, match="journal"):
        PageReader(path)


def test_utf_16_is_left_to_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA encoding = 'UTF-16le'")
        database.execute("CREATE TABLE t (c0)")
    database.close()
    with pytest.raises(Unusual, match="encoding"):
        PageReader(path)


def test_any_damage_is_unusual_or_changes_values_only(tmp_path: Path) -> None:
    """Flipped bytes never crash the reader: SQLite has the last word on a damaged file."""
    path = made(tmp_path / "t.sqlite", [(row, "name") for row in range(2_000)], 2)
    original = path.read_bytes()
    random = np.random.default_rng(5)
    for _ in range(200):
        damaged = bytearray(original)
        for place in random.integers(1024, len(original), 3).tolist():
            damaged[place] = int(random.integers(0, 256))
        path.write_bytes(damaged)
        try:
            reader = PageReader(path)
            for batch in reader.columns(2, [0]):
                batch[0].integers(0)
        except Unusual:
            continue
