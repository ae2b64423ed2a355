"""Folders of Parquet and Arrow files: what SQLite gives of the same report, and clear refusals."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from arrow_export import UNSIGNED, convert, declared_in, schema_of, tables_of, write
from builders import Capture
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import nvtrace
from nvtrace.cli import main
from nvtrace.demo import write_report
from nvtrace.errors import CorruptReport, MissingDependency, NotAReport, NvtraceError, SourceError
from nvtrace.model.table import Table
from nvtrace.sources import arrow_reader
from nvtrace.sources.arrow_reader import ArrowReader
from nvtrace.sources.columns import REALS, TEXTS, Coded, Rows, codes, values
from nvtrace.sources.sqlite_reader import SqliteReader

TABLES = (
    *("ranges", "calls", "device", "kernel_details", "graph_nodes", "samples", "streams"),
    "threads",
)
FACTS = (
    *("domains", "categories", "processes", "devices", "counters", "notes", "recorded", "sources"),
    *("origin_unix_ns", "shift_ns", "capture_start"),
)


def check_columns(found: Table, expected: Table) -> None:
    assert list(found) == list(expected)
    for name in found:
        assert found[name].dtype == expected[name].dtype, name
        assert np.array_equal(found[name], expected[name]), name


def check_same(folder: Path, export: Path, capsysbinary: Any) -> None:
    """Hold a folder, named as the SQLite export is, against that."""
    found, expected = nvtrace.load(folder), nvtrace.load(export)
    for name in TABLES:
        check_columns(getattr(found, name), getattr(expected, name))
    for name in FACTS:
        assert getattr(found, name) == getattr(expected, name), name
    assert list(found.strings) == list(expected.strings)
    said = []
    for path in (folder, export):
        assert main(["summary", "--format", "json", "--no-progress", str(path)]) == 0
        said.append(capsysbinary.readouterr().out)
    assert said[0] == said[1] != b""


# CUDA tables: reports in SQLite, converted


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "edges": {"graph": True, "graph_trace": True, "edge": True, "unfinished": True},
}


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_generated_reports(variant, suffix, tmp_path, capsysbinary, monkeypatch):
    monkeypatch.setattr(arrow_reader, "_AT_ONCE", 1000)
    export = write_report(tmp_path / "a.sqlite", kernels=1500, truth=False, **VARIANTS[variant])
    folder = convert(export, tmp_path / "folder" / "a.sqlite", suffix=suffix)
    check_same(folder, export, capsysbinary)


@pytest.mark.parametrize(
    "report",
    [
        *("a01", "a02", "a03", "a04", "a05", "a06", "a07", "a08", "a09", "a10", "a30"),
        *("kitchen", "multi_fork", "multi_fork_traced", "multi_spawn"),
    ],
)
def test_reports_of_others(report, shared_data, tmp_path, capsysbinary):
    (export,) = [
        *shared_data.glob(f"nsys/{report}_*.sqlite"),
        *shared_data.glob(f"*-here/{report}.sqlite"),
    ]
    check_same(convert(export, tmp_path / export.name), export, capsysbinary)


# NVTX tables: the real nsys

PROGRAM = """
import threading
import nvtrace
from nvtrace import mark, phase, step

def work(number):
    with step(number):
        with phase("forward"):
            for payload in (number, -number, number / 3, number - 2**62):
                with nvtrace.range("layer", payload=payload):
                    with nvtrace.range("load 你好", domain="library", category="io"):
                        mark("tick", domain="library")
        with phase("backward"):
            mark("loss", payload=0.25, category="metrics")
    handed = nvtrace.RecordEvent("handed over")
    handed.begin()
    handed.end()

threads = [threading.Thread(target=work, args=(n,), name=f"worker{n}") for n in range(1, 4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for number in range(4, 7):
    work(number)
"""


@pytest.fixture(scope="module")
def recorded(nsys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a report, and what nsys makes of it with all options as they are."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    options = ["-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-o", "report"]
    recording = [nsys, "profile", *options, sys.executable, "program.py"]
    subprocess.run(recording, cwd=folder, check=True, capture_output=True, timeout=900)
    for kind in ("sqlite", "parquetdir", "arrowdir"):
        export(nsys, folder, kind)
    return folder


def export(nsys: Path, folder: Path, kind: str, *options: str) -> None:
    command = [nsys, "export", "-q", "true", "-t", kind, *options, "report.nsys-rep"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=900)


@pytest.mark.parametrize("kind", ["report_pqtdir", "report_arwdir"])
def test_a_recording_by_nsys(kind, recorded, tmp_path, capsysbinary):
    folder = shutil.copytree(recorded / kind, tmp_path / "report.sqlite")
    check_same(folder, recorded / "report.sqlite", capsysbinary)
    rows = nvtrace.load(folder).ranges_report(marks=True)["ranges"].rows()
    names = [row["name"] for row in rows]
    # by hand: six times work(), with four layers each
    layers, ticks = names.count("layer"), [row for row in rows if row["name"] == "tick"]
    assert (names.count("step"), layers, names.count("load 你好")) == (6, 24, 24)
    assert {row["domain"] for row in ticks} == {"library"}
    assert (len(ticks), names.count("loss"), names.count("handed over")) == (24, 6, 6)
    payloads = {row["payload"] for row in rows if row["name"] == "layer"}
    assert payloads == {str(p) for n in range(1, 7) for p in (n, -n, n / 3, n - 2**62)}
    assert len({row["thread"] for row in rows if row["name"] == "layer"}) == 4


@pytest.mark.parametrize("verb", ["summary", "ranges", "info", "trace", "compare"])
def test_every_verb_takes_the_folder(verb, recorded, tmp_path, capsys):
    folder = str(recorded / "report_pqtdir")
    more = {"trace": ["-o", str(tmp_path / "t.json")], "compare": [str(recorded / "report.sqlite")]}
    assert main([verb, folder, *more.get(verb, []), "--no-progress"]) == 0
    if verb == "info":
        assert "report_pqtdir  Nsight Systems 2023.4.4" in capsys.readouterr().out


def test_the_tables_that_nsys_writes_have_the_types_of_the_converted_ones(nsys, recorded, tmp_path):
    """All tables that it knows, empty ones too: their types are known without a GPU."""
    shutil.copy(recorded / "report.nsys-rep", tmp_path)
    for kind in ("sqlite", "parquetdir", "arrowdir"):
        export(nsys, tmp_path, kind, "--lazy=false")
    read = ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL", "CUDA_GRAPH_EVENTS", "TARGET_INFO_GPU")
    checked = []
    with closing(sqlite3.connect(tmp_path / "report.sqlite")) as database:
        for table in tables_of(database):
            file = tmp_path / "report_pqtdir" / f"{table}.parquet"
            if file.exists() and table in (*UNSIGNED, "StringIds", "META_DATA_EXPORT"):
                expected = schema_of(table, declared_in(database, table))
                assert parquet.read_schema(file) == expected, table
                stream = pa.ipc.open_stream(tmp_path / "report_arwdir" / f"{table}.arrow")
                assert stream.schema.names == expected.names, table
                checked.append(table)
    assert set(read) <= set(checked)
    for kind in ("report_pqtdir", "report_arwdir"):
        found, expected = (nvtrace.load(tmp_path / name) for name in (kind, "report.sqlite"))
        assert found.recorded == expected.recorded
        assert found.info()["contents"].rows() == expected.info()["contents"].rows()


# columns: what SQLite gives of the same rows

NUMBERS = st.one_of(st.none(), st.sampled_from([0, -1, 1, 2**40]), st.integers(-(2**63), 2**63 - 1))
ROWS = st.lists(
    st.tuples(
        NUMBERS,
        NUMBERS,
        # SQLite keeps whole numbers as integers, so that -0.0 loses its sign
        st.one_of(st.none(), st.floats(allow_nan=False).map(lambda real: real + 0.0)),
        st.one_of(st.none(), st.sampled_from(["", "a", "你好"]), st.text("xyz", max_size=3)),
    ),
    max_size=40,
)
WANTED = {
    "signed": values(-7),
    "unsigned": codes(-1),
    "real": REALS,
    "words": TEXTS,
    "absent": codes(3),
}
SCHEMA = pa.schema(
    {"signed": pa.int64(), "unsigned": pa.uint64(), "real": pa.float64(), "words": pa.string()}
)


def plain(column: Any) -> list[Any]:
    """Row by row, with the bits of reals."""
    if not isinstance(column, Coded):
        return column.tolist()
    distinct = column.values
    known = distinct.view(np.int64) if distinct.dtype == np.float64 else distinct
    assert len(set(known.tolist())) == len(known)
    rows: list[Any] = known[column.codes].tolist()
    return rows


def by_sqlite(rows: list[tuple[Any, ...]], path: Path, where: Rows | None) -> dict[str, Any]:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE t (signed INT, unsigned INT, real REAL, words TEXT)")
        database.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    reader = SqliteReader(path)
    try:
        return reader.read("t", WANTED, where)
    finally:
        reader.close()


def by_arrow(rows: list[tuple[Any, ...]], file: Path, where: Rows | None) -> dict[str, Any]:
    signed, unsigned, real, words = zip(*rows, strict=True) if rows else ((),) * 4
    bits = [None if one is None else one % 2**64 for one in unsigned]
    arrays = [
        pa.array(c, t) for c, t in zip((signed, bits, real, words), SCHEMA.types, strict=True)
    ]
    write(pa.Table.from_arrays(arrays, schema=SCHEMA), file, row_group_size=7)
    reader = ArrowReader(file.parent)
    try:
        found = reader.read("t", WANTED, where)
        names = tuple(SCHEMA.names)
        assert reader.columns("t") == names
        assert reader.rows("t", names) == rows
    finally:
        reader.close()
    file.unlink()
    return found


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("columns")
    (folder / "tables").mkdir()
    return folder


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize(
    "where", [None, Rows("unsigned", (0, 1, 2**40)), Rows("unsigned", (-1,), inverse=True)]
)
@given(rows=ROWS)
def test_columns_are_as_sqlite_gives_them(rows, where, suffix, scratch):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_reader, "_AT_ONCE", 5)
        found = by_arrow(rows, scratch / "tables" / f"t{suffix}", where)
    expected = by_sqlite(rows, scratch / "t.sqlite", where)
    for name in WANTED:
        assert plain(found[name]) == plain(expected[name]), name
    met = list(dict.fromkeys(plain(expected["words"])))
    assert found["words"].values.tolist() == met  # in the order in which they are met


def test_more_distinct_numbers_than_a_byte_holds(tmp_path):
    column = [row % 70_001 for row in range(300_000)]
    write(pa.table({"a": column}), tmp_path / "t.parquet")
    found = ArrowReader(tmp_path).read("t", {"a": codes()})["a"]
    assert plain(found) == column


def test_texts_as_dictionaries_and_bytes_that_are_not_utf8(tmp_path):
    texts = pa.array([b"caf\xe9", None, b"cafe", b"caf\xe9"], pa.binary())
    kinds = {
        "plain": texts,
        "coded": texts.dictionary_encode(),
        "large": texts.cast("large_binary"),
    }
    kinds["text"] = texts.cast("string", safe=False)
    for name, column in kinds.items():
        for suffix in (".parquet", ".arrow"):
            folder = tmp_path / f"{name}{suffix}"
            folder.mkdir()
            write(pa.table({"a": column}), folder / f"t{suffix}", store_schema=True)
            found = ArrowReader(folder).read("t", {"a": TEXTS})["a"]
            assert plain(found) == ["caf\\xe9", None, "cafe", "caf\\xe9"], (name, suffix)


# refusals


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    capture = Capture(origin=10**9)
    capture.range("work", 0, 10, domain="library")
    capture.launch(0, 5, 10)
    made = convert(capture.write(tmp_path / "made.sqlite"), tmp_path / "run_pqtdir")
    (tmp_path / "made.sqlite").unlink()
    return made


def refused(path: Any, capsys: Any) -> NvtraceError:
    with pytest.raises(NvtraceError) as caught:
        nvtrace.load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert main(["summary", str(path)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.strip().splitlines() == [f"nvtrace: error: {message}"]
    return caught.value


@pytest.mark.parametrize("length", [0, 1, 8, -1, -9, -100])
def test_truncated(length, folder, capsys):
    file = folder / "NVTX_EVENTS.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:length])
    error = refused(folder, capsys)
    assert isinstance(error, CorruptReport)
    assert str(file) in str(error)
    assert "export the report again" in str(error)


@pytest.mark.parametrize(
    "content", [b"", b"hello\n" * 50, bytes(4096), b"PAR1" + bytes(400) + b"PAR1"]
)
def test_foreign_files_of_the_right_name(content, folder, capsys):
    (folder / "StringIds.parquet").write_bytes(content)
    assert isinstance(refused(folder, capsys), CorruptReport)


def test_columns_of_another_type(folder, capsys):
    write(pa.table({"start": ["soon"], "eventType": [59]}), folder / "NVTX_EVENTS.parquet")
    assert "NVTX_EVENTS.parquet" in str(refused(folder, capsys))


def test_files_that_nobody_asks_for_may_be_anything(folder):
    (folder / "notes.parquet").write_bytes(b"not a table")
    (folder / "ENUM_X.parquet").write_bytes(b"")
    assert nvtrace.load(folder).ranges.rows == 1


def test_a_missing_table_is_a_gap(folder):
    (folder / "CUPTI_ACTIVITY_KIND_RUNTIME.parquet").unlink()
    (folder / "StringIds.parquet").unlink()
    trace = nvtrace.load(folder)
    assert (trace.ranges.rows, trace.calls.rows, trace.recorded.calls) == (1, 0, False)
    assert "missing_table" in {note.code for note in trace.notes}


def test_a_folder_of_other_parquet_files(tmp_path, capsys):
    write(pa.table({"a": [1]}), tmp_path / "cities.parquet")
    error = refused(tmp_path, capsys)
    assert isinstance(error, NotAReport)
    assert "no Parquet export of nsys" in str(error)


def test_without_pyarrow(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    error = refused(folder, capsys)
    assert isinstance(error, MissingDependency)
    assert "pip install pyarrow" in str(error)


def test_what_is_no_file(folder, capsys):
    (folder / "NVTX_EVENTS.parquet").unlink()
    (folder / "NVTX_EVENTS.parquet").mkdir()
    assert "NVTX_EVENTS.parquet" in str(refused(folder, capsys))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_one_may_not_read(folder, capsys):
    (folder / "NVTX_EVENTS.parquet").chmod(0)
    error = refused(folder, capsys)
    assert isinstance(error, SourceError)
    assert "NVTX_EVENTS.parquet: cannot be read: Permission denied" in str(error)


def damaged(whole: bytes, draw: random.Random) -> Iterator[bytes]:
    for _ in range(12):
        yield whole[: draw.randrange(len(whole))]
        place = draw.randrange(len(whole) - 16)
        yield whole[:place] + draw.randbytes(16) + whole[place + 16 :]


def outcome(folder: Path) -> str:
    """What is said of a folder, nothing where it is read."""
    try:
        nvtrace.load(folder)
    except NvtraceError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_damaged_files_are_read_or_refused(suffix, tmp_path):
    export = write_report(tmp_path / "a.sqlite", kernels=60, truth=False)
    folder = convert(export, tmp_path / "tables", suffix=suffix)
    for table in ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL", "StringIds", "META_DATA_EXPORT"):
        file = folder / f"{table}{suffix}"
        whole = file.read_bytes()
        for data in damaged(whole, random.Random(table)):
            file.write_bytes(data)
            message = outcome(folder)
            assert "\n" not in message
            assert not message or str(file) in message
        file.write_bytes(whole)
