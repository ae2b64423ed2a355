"""Damaged and modified exports: each is read, or refused in one line that names the file.

Every capture is cut to a few hundred rows a table first; what happens to it then is drawn from a
seed. Where a change touches one table only, figures that rest on the others must stay.
"""

from __future__ import annotations

import io
import json
import random
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import nvtrace
from nvtrace.analysis.views import VIEWS
from nvtrace.demo import write_report

ROWS = 120
CAPTURES = (
    *("a01", "a02", "a03", "a04", "a05", "a06", "a07", "a08", "a09", "a10", "a30"),
    *("kitchen", "multi_fork", "multi_fork_traced", "multi_spawn"),
)
NVTX, RUNTIME = "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME"
DEVICE = tuple(f"CUPTI_ACTIVITY_KIND_{k}" for k in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"))
EVENTS = (NVTX, RUNTIME, *DEVICE)
USED = (
    *EVENTS,
    *("StringIds", "ThreadNames", "PROCESSES", "DIAGNOSTIC_EVENT", "PROFILER_OVERHEAD"),
    *("TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE", "TARGET_INFO_SESSION_START_TIME"),
    *("ANALYSIS_DETAILS", "META_DATA_EXPORT", "CUDA_GRAPH_EVENTS"),
    "CUDA_GPU_MEMORY_USAGE_EVENTS",
)

Database = sqlite3.Connection
Change = Callable[[Database, random.Random], None]


class Figures(NamedTuple):
    """What nvtrace makes of a file: reports as plain data."""

    summary: dict[str, Any]
    ranges: list[dict[str, Any]]
    info: dict[str, Any]


class Export:
    """A small export, its figures, and a place for changed copies of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.copy = path.with_name("changed.sqlite")
        self.figures = examine(path)
        with closing(sqlite3.connect(path)) as db:
            self.tables = {
                name: [row[1] for row in db.execute(f"PRAGMA table_info({name})")]
                for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            }

    def present(self, *tables: str) -> list[str]:
        return [table for table in tables if table in self.tables]

    def changed(self, name: str, change: Change) -> Figures | None:
        """Return the figures of a changed copy, None where nvtrace refuses it as it should."""
        shutil.copyfile(self.path, self.copy)
        with closing(sqlite3.connect(self.copy)) as db:
            change(db, random.Random(zlib.crc32(name.encode())))
            db.commit()
        return self.read(name)

    def read(self, name: str) -> Figures | None:
        try:
            return examine(self.copy)
        except nvtrace.NvtraceError as error:
            message = str(error)
            assert "\n" not in message, name
            assert str(self.copy) in message, name
            return None
        except Exception as error:
            raise AssertionError(f"{name}: {error!r}") from error


def examine(path: Path) -> Figures:
    """Read a file and ask for everything; hold what must be so of any file."""
    trace = nvtrace.load(path)
    report = trace.summary(VIEWS)
    listing = trace.ranges_report(marks=True)
    info = trace.info()
    timeline = io.BytesIO()
    trace.export(timeline)
    json.loads(timeline.getvalue(), parse_constant=pytest.fail)
    for one in (report, listing, info):
        json.dumps(one.to_dict(), allow_nan=False)
        assert str(one)
    totals = report.totals
    if totals["gpu_ns"] is not None:
        parts = ("attributed_gpu_ns", "inferred_gpu_ns", "unattributed_gpu_ns")
        assert totals["gpu_ns"] == sum(totals[part] for part in parts)
        ran = report["kernel"].rows() + report["memory"].rows()
        assert totals["gpu_ns"] == sum(row["gpu_total_ns"] for row in ran)
        assert min(totals[part] for part in parts) >= 0
    assert totals["window_ns"] >= 0
    return Figures(report.to_dict(), listing["ranges"].rows(), info.to_dict())


def rebuild(db: Database, table: str, columns: list[str], constraints: str = "") -> None:
    """Make ``table`` anew with the given columns and no types, as a tool of the user's might."""
    listed = ", ".join(columns)
    db.execute(f"ALTER TABLE {table} RENAME TO was_{table}")
    db.execute(f"CREATE TABLE {table} ({listed}{constraints})")
    db.execute(f"INSERT INTO {table} SELECT {listed} FROM was_{table}")
    db.execute(f"DROP TABLE was_{table}")


def columns_of(db: Database, table: str) -> list[str]:
    return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]


def run(statement: str, db: Database, _: random.Random) -> None:
    db.execute(statement)


def shuffle(table: str, db: Database, draw: random.Random) -> None:
    rows = db.execute(f"SELECT * FROM {table}").fetchall()
    draw.shuffle(rows)
    db.execute(f"DELETE FROM {table}")
    slots = ", ".join("?" * len(columns_of(db, table)))
    db.executemany(f"INSERT INTO {table} VALUES ({slots})", rows)


def drop_column(table: str, column: str, db: Database, _: random.Random) -> None:
    rebuild(db, table, [one for one in columns_of(db, table) if one != column])


def as_view(table: str, db: Database, _: random.Random) -> None:
    db.execute(f"ALTER TABLE {table} RENAME TO kept_{table}")
    db.execute(f"CREATE VIEW {table} AS SELECT * FROM kept_{table}")


def without_rowid(table: str, db: Database, _: random.Random) -> None:
    columns = columns_of(db, table)
    db.execute(f"ALTER TABLE {table} RENAME TO was_{table}")
    listed = ", ".join(columns)
    db.execute(f"CREATE TABLE {table} (n INTEGER PRIMARY KEY, {listed}) WITHOUT ROWID")
    db.execute(f"INSERT INTO {table} SELECT rowid, {listed} FROM was_{table}")


def some_rows(table: str, column: str, value: str, db: Database, draw: random.Random) -> None:
    """Put an SQL value into a column of a third of the rows, whatever the column was for."""
    rebuild(db, table, columns_of(db, table))  # drops NOT NULL and types
    rows = [row for (row,) in db.execute(f"SELECT rowid FROM {table}")]
    chosen = ", ".join(map(str, draw.sample(rows, (len(rows) + 2) // 3)))
    db.execute(f"UPDATE {table} SET {column} = {value} WHERE rowid IN ({chosen})")


ODD_VALUES = ("NULL", "'a text'", "-1", "2.5", "9223372036854775807", "-9223372036854775808",
              "x'00ff'", "1e300", "4294967297")  # fmt: skip


Mutation = tuple[str, str, Change]


def of_tables(export: Export) -> Iterator[Mutation]:
    """Yield what may happen to whole tables: a name, the table and the change."""
    for table in export.present(*USED):
        for name, statement in (
            ("drop", f"DROP TABLE {table}"),
            ("rename", f"ALTER TABLE {table} RENAME TO {table}_V2"),
            ("empty", f"DELETE FROM {table}"),
            ("widen", f"ALTER TABLE {table} ADD COLUMN kernel_name TEXT DEFAULT 'mine'"),
        ):
            yield f"{name} {table}", table, partial(run, statement)
        for change in (as_view, without_rowid, shuffle):
            yield f"{change.__name__} {table}", table, partial(change, table)


def of_columns(export: Export) -> Iterator[Mutation]:
    """Yield columns dropped and renamed."""
    for table in export.present(*USED):
        for column in export.tables[table]:
            yield f"drop {table}.{column}", table, partial(drop_column, table, column)
            rename = f"ALTER TABLE {table} RENAME COLUMN {column} TO {column}_2"
            yield f"rename {table}.{column}", table, partial(run, rename)


def of_values(export: Export) -> Iterator[Mutation]:
    """Yield values that no column is made for: NULLs, texts, reals, huge numbers, bytes."""
    for table in export.present(*USED):
        for column in export.tables[table]:
            for value in ODD_VALUES:
                change = partial(some_rows, table, column, value)
                yield f"{table}.{column} = {value}", table, change


def of_rows(export: Export) -> Iterator[Mutation]:
    """Yield what real exports have been seen to hold, or lack."""
    for name, table, statement in (
        ("some names missing", "StringIds", "DELETE FROM StringIds WHERE id % 3 = 0"),
        ("all names missing", "StringIds", "DELETE FROM StringIds"),
        ("bytes in names", "StringIds", "UPDATE StringIds SET value = CAST(x'c3ff80' AS TEXT)"),
        ("reversed times", NVTX, "UPDATE NVTX_EVENTS SET end = start - 7 WHERE rowid % 4 = 0"),
        ("no end", NVTX, "UPDATE NVTX_EVENTS SET end = NULL WHERE rowid % 4 = 0"),
        ("both names", NVTX, "UPDATE NVTX_EVENTS SET text = 'inline'"),
        ("no name", NVTX, "UPDATE NVTX_EVENTS SET text = NULL, textId = NULL"),
        ("bytes in text", NVTX, "UPDATE NVTX_EVENTS SET text = CAST(x'41ff42' AS TEXT)"),
        (
            "domains twice",
            NVTX,
            "INSERT INTO NVTX_EVENTS SELECT * FROM NVTX_EVENTS WHERE eventType = 75",
        ),
        ("rows twice", NVTX, "INSERT INTO NVTX_EVENTS SELECT * FROM NVTX_EVENTS"),
        ("negative times", NVTX, "UPDATE NVTX_EVENTS SET start = start - 20000000000"),
        ("calls twice", RUNTIME, f"INSERT INTO {RUNTIME} SELECT * FROM {RUNTIME}"),
        ("calls reversed", RUNTIME, f"UPDATE {RUNTIME} SET end = start - 1"),
        ("kernels untimed", DEVICE[0], f"UPDATE {DEVICE[0]} SET start = 0, end = 0"),
        ("kernels reversed", DEVICE[0], f"UPDATE {DEVICE[0]} SET end = start - 5"),
        ("one correlation", DEVICE[0], f"UPDATE {DEVICE[0]} SET correlationId = 0"),
        ("graphs twice", DEVICE[3], f"INSERT INTO {DEVICE[3]} SELECT * FROM {DEVICE[3]}"),
    ):
        if table in export.tables:
            yield name, table, partial(run, statement)


@pytest.fixture(scope="module", params=["generated", *CAPTURES])
def export(request, tmp_path_factory) -> Export:
    path = tmp_path_factory.mktemp(request.param) / "small.sqlite"
    if request.param == "generated":
        options = {"graph": True, "graph_trace": True, "edge": True, "unfinished": True}
        write_report(path, kernels=60, ranks=2, truth=False, **options)
        return Export(path)
    shared = request.getfixturevalue("shared_data")
    name = request.param
    (whole,) = [*shared.glob(f"nsys/{name}_*.sqlite"), *shared.glob(f"*-here/{name}.sqlite")]
    shutil.copyfile(whole, path)
    with closing(sqlite3.connect(path)) as db:
        tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for table in {name for (name,) in tables} - {"StringIds"}:
            last = f"SELECT rowid FROM {table} LIMIT 1 OFFSET {ROWS}"
            db.execute(f"DELETE FROM {table} WHERE rowid >= ({last})")
        db.commit()
        db.execute("VACUUM")
    return Export(path)


def drawn(mutations: Iterator[Mutation], count: int, seed: str) -> list[Mutation]:
    every = list(mutations)
    return random.Random(zlib.crc32(seed.encode())).sample(every, min(count, len(every)))


KERNELS_FROM = {DEVICE[0], DEVICE[3], "StringIds"}
MEMORY_FROM = {DEVICE[1], DEVICE[2]}
RANGES_FROM = {NVTX, "StringIds", "ANALYSIS_DETAILS"}  # the last says when the capture ended


def rows_of(figures: Figures, view: str, *keys: str) -> list[str]:
    return sorted(str([row[key] for key in keys]) for row in figures.summary["views"][view])


def ranges_of(figures: Figures) -> list[str]:
    """The finished ranges, by what does not depend on other tables."""
    keys = ("name", "domain", "style", "depth", "duration_ns", "self_ns", "payload", "attributes")
    return sorted(str([row[k] for k in keys]) for row in figures.ranges if not row["unfinished"])


def hold(export: Export, mutations: list[Mutation]) -> None:
    before = export.figures
    for name, table, change in mutations:
        after = export.changed(name, change)
        assert after is not None, f"{name}: refused, though no more than a table is odd"
        if table not in KERNELS_FROM:
            keys = ("name", "short_name", "calls", "gpu_total_ns")
            assert rows_of(after, "kernel", *keys) == rows_of(before, "kernel", *keys), name
        if table not in MEMORY_FROM:
            keys = ("name", "calls", "bytes", "gpu_total_ns")
            assert rows_of(after, "memory", *keys) == rows_of(before, "memory", *keys), name
        if table not in RANGES_FROM:
            assert ranges_of(after) == ranges_of(before), name


def test_tables(export):
    hold(export, drawn(of_tables(export), 20, f"tables {export.path.parent.name}"))


def test_columns(export):
    hold(export, drawn(of_columns(export), 12, f"columns {export.path.parent.name}"))


def test_values(export):
    hold(export, drawn(of_values(export), 12, f"values {export.path.parent.name}"))


def test_rows(export):
    hold(export, list(of_rows(export)))


def test_shuffled_rows_change_no_figure(export):
    """Nor do equal bounds of ranges, whose nesting is by order of appearance, change a total."""

    def everything(db: Database, draw: random.Random) -> None:
        for table in export.present(*USED):
            shuffle(table, db, draw)

    after = export.changed("shuffle", everything)
    assert after is not None
    before = export.figures
    assert after.summary["totals"] == before.summary["totals"]
    assert after.summary["notes"] == before.summary["notes"]
    for view, rows in before.summary["views"].items():
        assert sorted(map(str, after.summary["views"][view])) == sorted(map(str, rows)), view
    assert sorted(map(str, after.ranges)) == sorted(map(str, before.ranges))


def test_damaged_files(export):
    """Cut off, zeroed and overwritten at places drawn at random."""
    whole = export.path.read_bytes()
    draw = random.Random(len(whole))
    for name, data in damaged(whole, draw):
        export.copy.write_bytes(data)
        figures = export.read(name)
        assert figures is None or name.startswith("flip"), name


def damaged(whole: bytes, draw: random.Random) -> Iterator[tuple[str, bytes]]:
    for length in (0, 1, 15, 16, 99, 100, 512, 4096, len(whole) // 2, len(whole) - 1):
        yield f"cut to {length}", whole[:length]
    yield "zeroed header", bytes(100) + whole[100:]
    yield "another header", b"a text file, not a database\n" * 40
    for number in range(10):
        place = draw.randrange(100, len(whole) - 64)
        noise = draw.randbytes(64)
        yield f"flip {number}", whole[:place] + noise + whole[place + 64 :]


def test_rows_still_in_the_log(export):
    """An export under a writer: rows that are only in the write-ahead log count."""
    shutil.copyfile(export.path, export.copy)
    log = export.copy.with_name(export.copy.name + "-wal")
    with closing(sqlite3.connect(export.copy)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute(
            "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) "
            "VALUES (100, 200, 59, 'still in the log', 281474993487889, 0)"
        ) if NVTX in export.tables else db.execute(f"DELETE FROM {RUNTIME}")
        db.commit()
        assert log.stat().st_size > 0
        figures = examine(export.copy)
    if NVTX in export.tables:
        assert "still in the log" in {row["name"] for row in figures.ranges}
    else:
        assert nvtrace.load(export.copy).calls.rows == 0
