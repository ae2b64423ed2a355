"""Timelines come out the same, byte for byte, from C and from numpy; what they hold reads back."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from without_native import need_native, without_native

import nvtrace
from nvtrace.demo.report import write_report
from nvtrace.sinks import chrome, chrome_native
from nvtrace.sinks.chrome_parts import Choice, Derived, Number, Thousandths, When, plus
from nvtrace.sinks.chrome_paths import RangePaths
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
            without_native(patch)
        return b"".join(render(make(), shape, rows, **options))


def both(make, shape, rows, **options):
    """What both ways write."""
    need_native()
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
    found = both(make, shape, rows).splitlines()  # of bytes: there are other line ends in names
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


@given(st.data())
def test_derived_numbers_are_the_same(data):
    count = data.draw(st.integers(1, 20))
    near = st.integers(-(2**40), 2**40)
    table, less = ([data.draw(near) for _ in range(count)] for _ in range(2))
    places = [data.draw(st.integers(-1, count - 1)) for _ in range(count)]
    constant = data.draw(near)
    looked_up = Derived(np.array(places, np.int32), np.array(table), np.array(less))
    expected = [
        (table[place] if place >= 0 else -1) - gone + constant
        for place, gone in zip(places, less, strict=True)
    ]
    difference = Derived(np.array(table), less=np.array(less, np.int64))
    short = [max(one - gone, 0) for one, gone in zip(table, less, strict=True)]

    def make():
        text = Texts([plus(looked_up, constant)], lambda row: b"%d " % expected[row])
        parts = Number(plus(looked_up, constant)), b" ", Thousandths(difference), b"\n"
        return [Rows(text, *parts)]

    rows = np.arange(count)[::-1]
    found = both(make, np.zeros(count, np.int64), rows).split()
    assert found[0::3] == [b"%d" % expected[row] for row in rows]
    assert found[1::3] == [b"%d" % max(expected[row], 0) for row in rows]
    assert found[2::3] == [b"%d.%03d" % divmod(short[row], 1000) for row in rows]


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
    no_such_place = Derived(np.array([0, 0]), table=np.array([5]))
    absent = Derived(np.array([0, 2]), table=numbers), Derived(np.arange(3), less=numbers)
    parts = Number(numbers), Choice([b"x", b"y"], numbers), When(numbers, (b"x",))
    for part in (*parts, *map(Number, (no_such_place, *absent))):
        make = lambda part=part: [Rows(Texts([np.zeros_like], lambda row: b"x"), part)]  # noqa: E731
        with pytest.raises(IndexError):
            written(make, np.zeros(1, np.int64), np.array([row]), by)
    make = lambda: [Rows(Texts([numbers], lambda row: b"x"))]  # noqa: E731
    with pytest.raises(IndexError):
        written(make, np.zeros(1, np.int64), np.array([row]), by)
    make = lambda: [Rows(Texts([np.zeros_like], lambda row: b"x"), Choice([b"x"], numbers))]  # noqa: E731
    with pytest.raises(IndexError):
        written(make, np.zeros(1, np.int64), np.array([1]), by)


def paths_of(parents, names, asked, by):
    """The codes of the paths of ranges, found in batches, and the names on the path of each."""
    explained = SimpleNamespace(
        trace=SimpleNamespace(strings=[chr(ord("a") + name) for name in range(26)]),
        range_name=np.array(names, np.int32),
        range_parent=np.array(parents, np.int32),
    )
    with pytest.MonkeyPatch.context() as patch:
        if by == "numpy":
            without_native(patch)
        paths = RangePaths(explained)
        codes = [paths.codes(np.array(batch, np.int32)).tolist() for batch in asked]
        return codes, [paths.text(row) for row in range(len(parents))]


@st.composite
def forests(draw):
    count = draw(st.integers(1, 30))
    parents = [draw(st.integers(-1, row - 1)) for row in range(count)]
    names = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    batch = st.lists(st.integers(-1, count - 1), max_size=20)
    return parents, names, draw(st.lists(batch, max_size=4))


@pytest.mark.parametrize("by", ["native", "numpy"])
@given(forest=forests())
def test_ranges_have_one_path_if_all_names_on_it_are_the_same(by, forest):
    parents, names, asked = forest

    def names_on(row):
        return () if row < 0 else (*names_on(parents[row]), names[row])

    codes, texts = paths_of(parents, names, asked, by)
    code_of = {}
    for batch, found in zip(asked, codes, strict=True):
        for row, code in zip(batch, found, strict=True):
            assert (code < 0) == (row < 0)
            assert code_of.setdefault(names_on(row), code) == code
    assert len(set(code_of.values())) == len(code_of)
    for row, text in enumerate(texts):
        letters = [chr(ord("a") + name) for name in names_on(row)]
        assert text == " / ".join(
            letters if len(letters) <= 12 else [*letters[:6], "...", *letters[-6:]]
        )


@pytest.mark.parametrize("by", ["native", "numpy"])
@pytest.mark.parametrize("depth", [255, 256, 257, 1000, 20_000])
def test_paths_of_any_depth_are_found(depth, by):
    asked = [[depth - 1], list(range(depth))]
    (first, all_of_them), texts = paths_of(range(-1, depth - 1), [0] * depth, asked, by)
    assert len(set(all_of_them)) == depth
    assert first == all_of_them[-1:]
    assert texts[0] == "a"


def test_a_range_that_does_not_exist_has_no_path():
    need_native()
    for parents, asked in (([-1, 0], 2), ([-1, 5], 1), ([-1, -7], 1), ([1, 0], 0)):
        with pytest.raises(IndexError):
            chrome_native.Paths(
                np.zeros(2, np.int32), np.array(parents, np.int32), np.zeros(3, np.int32)
            ).learn(np.array([asked], np.int32))


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
            without_native(monkeypatch)
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
