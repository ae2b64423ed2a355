"""Timelines come out the same, byte for byte, from C and from numpy; what they hold reads back."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvtrace
from nvtrace.demo.report import write_report
from nvtrace.sinks import chrome, chrome_native
from nvtrace.sinks.chrome_parts import Choice, Number, Thousandths, When
from nvtrace.sinks.chrome_rows import Rows, quoted, render
from nvtrace.sinks.chrome_texts import Texts
from nvtrace.sinks.names import valid_utf8
from nvtrace.sinks.perfetto_wire import Fixed64, Varint, varint

DTYPES = [f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)]
NAMES = st.text(st.characters(exclude_categories=()), max_size=40)  # halves of surrogates, too
SOURCE = Path(chrome_native.__file__).parents[1] / "native" / "timeline.c"


@st.composite
def tables(draw):
    """Rows of a table: names, and columns of numbers of any type up to its ends."""
    count = draw(st.integers(1, 40))
    columns = []
    for dtype in draw(st.lists(st.sampled_from(DTYPES), min_size=3, max_size=3)):
        ends = np.iinfo(dtype)
        value = st.integers(int(ends.min), int(ends.max)) | st.sampled_from([ends.min, ends.max, 0])
        values = draw(st.lists(value, min_size=count, max_size=count))
        columns.append(np.array([int(one) for one in values], dtype))
    pool = draw(st.lists(NAMES, min_size=1, max_size=5))
    place = draw(st.lists(st.integers(0, len(pool) - 1), min_size=count, max_size=count))
    rows = draw(st.lists(st.integers(0, count - 1), max_size=60))
    return pool, np.array(place), columns, np.array(rows, np.int64), draw(st.booleans())


def written(make, shape, rows, by, **options):
    with pytest.MonkeyPatch.context() as patch:
        if by == "numpy":
            patch.setattr(chrome_native, "library", lambda: None)
        return b"".join(render(make(), shape, rows, **options))


def both(make, shape, rows, **options):
    """What both ways write."""
    if chrome_native.library() is None:
        pytest.skip("nvtrace/native/timeline.so was not built: pip install --editable .")
    native, plain = (written(make, shape, rows, by, **options) for by in ("native", "numpy"))
    assert native == plain
    return native


@settings(max_examples=300)
@given(tables())
def test_rows_of_json_read_back(table):
    pool, place, (first, second, third), rows, computed = table
    source = first.__getitem__ if computed else first

    def make():
        named = Texts([place], lambda row: b'{"name":' + quoted(pool[place[row]]))
        present = When(second, (b',"second":[', Number(second), b",1]"), 5)
        numbers = b',"first":', Number(source), present, b',"third":', Thousandths(third)
        lane = Choice([b',"lane":%d' % 10**n for n in range(len(pool))], place)
        return [Rows(named, *numbers, b"}\n"), Rows(named, lane, b"}\n")]

    shape = rows % 2
    found = both(make, shape, rows).decode().splitlines()
    assert len(found) == len(rows)
    for line, row, kind in zip(found, rows.tolist(), shape.tolist(), strict=True):
        expected = {"name": valid_utf8(pool[place[row]])}
        if kind:
            expected["lane"] = 10 ** int(place[row])
        else:
            expected["first"] = max(int(first[row]), 0)
            expected |= {"second": [int(second[row]), 1]} if second[row] >= 5 else {}
            expected["third"] = Decimal(max(int(third[row]), 0)) / 1000
        assert json.loads(line, parse_float=Decimal) == expected


@given(tables(), st.sampled_from([4, 8, 10]))
def test_packed_rows_are_the_same(table, width):
    _, place, (first, *_), rows, _ = table
    numbers = (np.maximum(first.astype(object), 0) % 2 ** min(7 * width, 63)).astype(np.int64)

    def make():
        text = Texts([place], lambda row: b"\0" * 8 * (1 + int(place[row])))
        return [Rows(text, Varint(numbers, width), Fixed64(numbers.astype(np.float64)))]

    found = both(make, np.zeros_like(rows), rows, filled=False)
    assert found == b"".join(
        b"\0" * 8 * (1 + int(place[row]))
        + varint(int(numbers[row]), width)
        + np.float64(numbers[row]).tobytes()
        for row in rows
    )


def test_a_row_longer_than_a_piece_is_whole():
    names = [b"n" * 3 * chrome_native.PIECE_BYTES, b"short"]
    rows = np.array([1, 0, 1])
    make = lambda: [Rows(Texts([np.arange(2)], names.__getitem__), b"\n")]  # noqa: E731
    assert both(make, np.zeros(3, np.int64), rows).split() == [names[row] for row in rows]


def test_no_rows_are_nothing():
    make = lambda: [Rows(Texts([np.arange(2)], lambda row: b"x"))]  # noqa: E731
    assert both(make, np.empty(0, np.int64), np.empty(0, np.int64)) == b""


@pytest.mark.parametrize("by", ["native", "numpy"])
@pytest.mark.parametrize("row", [2, 2**40])
def test_what_does_not_exist_is_not_read(row, by):
    numbers = np.arange(2)
    for part in (Number(numbers), Choice([b"x", b"y"], numbers), When(numbers, (b"x",))):
        make = lambda part=part: [Rows(Texts([np.zeros_like], lambda row: b"x"), part)]  # noqa: E731
        with pytest.raises(IndexError):
            written(make, np.zeros(1, np.int64), np.array([row]), by)
    make = lambda: [Rows(Texts([numbers], lambda row: b"x"))]  # noqa: E731
    with pytest.raises(IndexError):
        written(make, np.zeros(1, np.int64), np.array([row]), by)
    make = lambda: [Rows(Texts([np.zeros_like], lambda row: b"x"), Choice([b"x"], numbers))]  # noqa: E731
    with pytest.raises(IndexError):
        written(make, np.zeros(1, np.int64), np.array([1]), by)


OPTIONS = [
    {},
    {"layers": ["ranges", "marks"]},
    {"layers": ["device", "calls", "flows"], "minimum_ns": 5000},
    {"layers": []},
]


@pytest.mark.parametrize("name", ["out.json", "out.pftrace"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_files_are_the_same(name, options, tmp_path, monkeypatch):
    report = tmp_path / "report.sqlite"
    write_report(report, kernels=2000, edge=True)
    explained = nvtrace.load(report).explain()
    found = []
    for by in ("native", "numpy"):
        if by == "numpy":
            monkeypatch.setattr(chrome_native, "library", lambda: None)
        chrome.write(explained, tmp_path / name, **options)
        found.append((tmp_path / name).read_bytes())
    assert found[0] == found[1]


def test_an_open_file_keeps_what_it_is_given(tmp_path):
    """A file that collects pieces must not see them change."""
    report = tmp_path / "report.sqlite"
    write_report(report, kernels=2000)
    explained = nvtrace.load(report).explain()

    class Collecting(io.BytesIO):
        pieces: list[memoryview]

        def write(self, piece):
            self.pieces.append(piece)
            return super().write(piece)

    file = Collecting()
    file.pieces = []
    chrome.write(explained, file)
    assert b"".join(file.pieces) == file.getvalue()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_compiler_has_no_complaint(tmp_path):
    command = ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    out = tmp_path / "timeline.so"
    subprocess.run([*command, "-shared", "-fPIC", "-o", out, SOURCE], check=True)
