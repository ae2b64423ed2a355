"""The readers of pages against SQLite itself, on tables of every shape, whole and damaged."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nvtrace.sources import sqlite_cells, sqlite_native, sqlite_queries
from nvtrace.sources.columns import REALS, TEXTS, Coded, Column, Rows, Wanted, codes, values
from nvtrace.sources.sqlite_pages import PageFile, Unusual

INTEGERS = st.one_of(
    st.sampled_from([0, 1, -1, 127, 128, -128, 255, 256, 2**15, 2**23, 2**31, 2**47, 2**63 - 1]),
    st.integers(-(2**63), 2**63 - 1),
)
NUMBERS = st.one_of(st.none(), INTEGERS)
FEW = st.sampled_from([None, 5, -7, 2**40])
FLOATS = st.one_of(NUMBERS, st.floats(allow_nan=False))
TEXT = st.one_of(
    st.none(),
    st.sampled_from(["", "forward", "backward"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
)
MISSING = -7
FORMS = {"values": values(MISSING), "codes": codes(MISSING), "reals": REALS, "texts": TEXTS}

Read = Callable[[Path, dict[int, Wanted], "Rows | None"], dict[int, Column]]


def made(path: Path, rows: Sequence[Sequence[Any]], columns: int, page_size: int = 512) -> Path:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"PRAGMA page_size = {page_size}")
        names = ", ".join(f"c{i}" for i in range(columns))
        database.execute(f"CREATE TABLE t ({names})")
        database.executemany(f"INSERT INTO t VALUES ({', '.join('?' * columns)})", rows)
    return path


def root_of(path: Path, table: str = "t") -> int:
    with closing(sqlite3.connect(path)) as database:
        sql = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        return int(database.execute(sql, (table,)).fetchone()[0])


def by_pages(decode: Callable[..., dict[int, Column]]) -> Read:
    def read(path: Path, wanted: dict[int, Wanted], where: Rows | None) -> dict[int, Column]:
        file = PageFile(path)
        tested = None if where is None else (int(where.column[1:]), where)
        return decode(file, file.leaves(root_of(path)), wanted, tested)

    return read


def by_queries(path: Path, wanted: dict[int, Wanted], where: Rows | None) -> dict[int, Column]:
    with closing(sqlite3.connect(path)) as database:
        source = "t" if where is None else f"t WHERE {where.sql}"
        named = {f"c{place}": one for place, one in wanted.items()}
        found, _ = sqlite_queries.read(database, source, named)
    return {int(name[1:]): column for name, column in found.items()}


READERS: dict[str, Read] = {
    "native": by_pages(sqlite_native.read),
    "numpy": by_pages(sqlite_cells.read),
    "queries": by_queries,
}


def built(name: str) -> Read:
    if name == "native" and sqlite_native.library() is None:
        where_required = pytest.fail if os.environ.get("CI") else pytest.skip
        where_required("nvtrace/native/pages.so was not built: pip install --editable .")
    return READERS[name]


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest) -> Read:
    return built(request.param)


@pytest.fixture(params=["native", "numpy"])
def page_reader(request: pytest.FixtureRequest) -> Read:
    return built(request.param)


def listed(column: Column) -> list[Any]:
    if isinstance(column, Coded):
        return [column.values[code] for code in column.codes.tolist()]
    return column.tolist()


def read(reader: Read, path: Path, where: Rows | None = None, **wanted: str) -> list[list[Any]]:
    """The columns ``c0="values"``, ... of table t, as lists."""
    asked = {int(name[1:]): FORMS[form] for name, form in wanted.items()}
    found = reader(path, asked, where)
    return [listed(found[place]) for place in asked]


def or_missing(values: Sequence[Any]) -> list[int]:
    return [MISSING if value is None else value for value in values]


HERE = settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@HERE
@given(st.lists(st.tuples(NUMBERS, FEW, TEXT, FLOATS, FEW), max_size=150))
def test_columns_are_those_of_sqlite(
    tmp_path: Path, reader: Read, rows: list[tuple[Any, ...]]
) -> None:
    path = made(tmp_path / "t.sqlite", rows, 5, page_size=4096)
    forms = {"c0": "values", "c1": "codes", "c2": "texts", "c3": "reals", "c4": "codes"}
    plain, few, texts, reals, more = read(reader, path, **forms)
    columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * 5
    assert (plain, few, more) == tuple(or_missing(columns[place]) for place in (0, 1, 4))
    assert texts == columns[2]
    wanted = [float("nan") if value is None else float(value) for value in columns[3]]
    np.testing.assert_array_equal(
        np.array(reals, float).view(np.int64), np.array(wanted).view(np.int64)
    )


@HERE
@given(st.lists(st.tuples(FEW, NUMBERS), max_size=60), st.booleans())
def test_rows_are_chosen_as_sqlite_chooses(
    tmp_path: Path, reader: Read, rows: list[tuple[Any, ...]], inverse: bool
) -> None:
    path = made(tmp_path / "t.sqlite", rows, 2)
    where = Rows("c0", (5, 2**40), inverse)
    kept = [row for row in rows if (row[0] in (5, 2**40)) != inverse]
    assert read(reader, path, where, c1="values") == [or_missing([row[1] for row in kept])]
    assert read(reader, path, where, c0="codes") == [or_missing([row[0] for row in kept])]


def test_many_pages_keep_the_order_of_rows(tmp_path: Path, reader: Read) -> None:
    """And so many distinct values that codes outgrow one byte, then two."""
    rows = [(row * 1_000_003 % 2**40, f"{row % 300}" * (row % 9), row) for row in range(70_000)]
    path = made(tmp_path / "t.sqlite", rows, 3)
    assert read(reader, path, c0="codes", c1="texts", c2="values") == [
        [row[place] for row in rows] for place in range(3)
    ]


def test_rows_of_one_byte_a_column_fill_no_more_than_was_set_aside(
    tmp_path: Path, page_reader: Read
) -> None:
    rows = [(None,)] * 30_000
    path = made(tmp_path / "t.sqlite", rows, 1)
    assert read(page_reader, path, c0="values") == [[MISSING] * 30_000]


def test_deleted_rows_are_gone(tmp_path: Path, reader: Read) -> None:
    path = made(tmp_path / "t.sqlite", [(row,) for row in range(5_000)], 1)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM t WHERE c0 % 3 = 0")
    assert read(reader, path, c0="values") == [[row for row in range(5_000) if row % 3]]


def test_reals_among_integers_are_cut(tmp_path: Path, reader: Read) -> None:
    path = made(tmp_path / "t.sqlite", [(2.9,), (-2.9,), (None,), (2.0**62,)], 1)
    assert read(reader, path, c0="values") == [[2, -2, MISSING, 2**62]]


def test_bytes_that_are_no_text_stay_apart(tmp_path: Path, page_reader: Read) -> None:
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE t (c0)")
        for data in ("x'ff41'", "x'fe41'", "x'41'"):
            database.execute(f"INSERT INTO t VALUES (CAST({data} AS TEXT))")
    assert read(page_reader, path, c0="texts") == [["\\xffA", "\\xfeA", "A"]]


def test_an_empty_table_has_no_rows(tmp_path: Path, reader: Read) -> None:
    path = made(tmp_path / "t.sqlite", [], 4)
    forms = {"c0": "values", "c1": "codes", "c2": "reals", "c3": "texts"}
    assert read(reader, path, **forms) == [[], [], [], []]


def test_a_column_of_one_value_takes_no_memory(tmp_path: Path, page_reader: Read) -> None:
    path = made(tmp_path / "t.sqlite", [(4, row) for row in range(9)], 2)
    found = page_reader(path, {0: codes()}, None)[0]
    assert isinstance(found, Coded)
    column = found.astype(np.int32)
    assert (column.tolist(), column.strides) == ([4] * 9, (0,))


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("values", "two"),
        ("codes", b"2"),
        ("values", 1e300),
        ("values", float("-inf")),
        ("reals", "two"),
        ("texts", 2),
        ("texts", b"two"),
        ("values", "x" * 5_000),  # goes on in overflow pages
    ],
)
def test_what_is_unusual_is_left_to_sqlite(
    tmp_path: Path, page_reader: Read, form: str, value: Any
) -> None:
    path = made(tmp_path / "t.sqlite", [(None,), (value,)], 1)
    with pytest.raises(Unusual):
        read(page_reader, path, c0=form)


def test_rows_older_than_a_column_are_left_to_sqlite(tmp_path: Path, page_reader: Read) -> None:
    path = made(tmp_path / "t.sqlite", [(1,), (2,)], 1)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("ALTER TABLE t ADD COLUMN late INTEGER DEFAULT 5")
    assert read(page_reader, path, c0="values") == [[1, 2]]
    with pytest.raises(Unusual):
        read(page_reader, path, c1="values")


def test_a_table_without_rowid_is_left_to_sqlite(tmp_path: Path, page_reader: Read) -> None:
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE t (c0 INTEGER PRIMARY KEY, c1) WITHOUT ROWID")
        database.executemany("INSERT INTO t VALUES (?, ?)", [(n, n) for n in range(10)])
    with pytest.raises(Unusual):
        read(page_reader, path, c0="values")


def test_a_pending_journal_is_left_to_sqlite(tmp_path: Path) -> None:
    path = made(tmp_path / "t.sqlite", [(1,)], 1)
    path.with_name(path.name + "-wal").write_bytes(b"")
    with pytest.raises(Unusual, match="journal"):
        PageFile(path)


def test_utf_16_is_left_to_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA encoding = 'UTF-16le'")
        database.execute("CREATE TABLE t (c0)")
    with pytest.raises(Unusual, match="encoding"):
        PageFile(path)


def rows_of_sqlite(path: Path) -> list[tuple[Any, ...]] | None:
    """The table as SQLite reads it, None where it refuses."""
    with closing(sqlite3.connect(path)) as database:
        database.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
        try:
            return database.execute("SELECT c0, c1, c2, c3 FROM t").fetchall()
        except sqlite3.DatabaseError:
            return None


def test_damage_is_unusual_or_read_as_sqlite_reads_it(tmp_path: Path, page_reader: Read) -> None:
    """Flipped bytes never crash a reader, nor make it differ from what SQLite accepts."""
    random = np.random.default_rng(5)
    rows = [(row, row % 7, f"name {row % 9}", row / 4 + 0.1) for row in range(400)]
    path = made(tmp_path / "t.sqlite", rows, 4)
    root, original = root_of(path), path.read_bytes()
    headers = [
        place for start in range(512, len(original), 512) for place in range(start, start + 40)
    ]
    compared = 0
    for attempt in range(300):
        damaged = bytearray(original)
        places = headers if attempt % 2 else range(512, len(original))
        for place in random.choice(places, 2).tolist():
            damaged[place] = int(random.integers(0, 256))
        path.write_bytes(damaged)
        expected = rows_of_sqlite(path)
        forms = {"c0": "values", "c1": "codes", "c2": "texts", "c3": "reals"}
        assert root == root_of(path)
        try:
            found = read(page_reader, path, **forms)
        except Unusual:
            continue
        if expected is not None:
            columns = [list(column) for column in zip(*expected, strict=True)]
            assert found[:2] == [or_missing(columns[0]), or_missing(columns[1])]
            assert found[2] == columns[2]
            np.testing.assert_array_equal(found[3], np.array(columns[3], float))
            compared += expected != rows
    assert compared > 20
