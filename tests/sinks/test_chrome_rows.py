"""Rows of bytes: every number reads back, absent members leave valid JSON, pieces stay small."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvtrace.sinks.chrome_codes import coder
from nvtrace.sinks.chrome_parts import Choice, Number, Thousandths, When
from nvtrace.sinks.chrome_rows import Rows, quoted, render
from nvtrace.sinks.chrome_texts import Texts

pytestmark = pytest.mark.usefixtures("by")


def nothing():
    return Texts([np.zeros_like], lambda row: b"")


def lines(rows, count):
    """The rows from 0."""
    return b"".join(render([rows], np.zeros(count, np.uint8), np.arange(count))).splitlines()


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=50))
def test_numbers_read_back(values):
    array = np.array(values, np.int64)
    backwards = Number(lambda rows: array[::-1][rows])
    rows = Rows(nothing(), b"[", Number(array), b",", backwards, b"]\n")
    expected = [[value, other] for value, other in zip(values, values[::-1], strict=True)]
    assert [json.loads(line) for line in lines(rows, len(values))] == expected


@pytest.mark.parametrize(
    "value",
    [0, 1, 9999, 10_000, 10_001, 99_999_999, 100_000_000, 2**32 - 1, 2**32, 10**12, 2**64 - 1],
)
def test_groups_of_digits_meet(value):
    rows = Rows(nothing(), Number(np.array([value, 5], np.uint64)), b"\n")
    assert lines(rows, 2)[0] == str(value).encode()


@given(st.lists(st.integers(0, 10**17), min_size=1, max_size=50))
def test_thousandths_have_three_digits(values):
    rows = Rows(nothing(), Thousandths(np.array(values)), b"\n")
    assert lines(rows, len(values)) == [
        f"{value // 1000}.{value % 1000:03d}".encode() for value in values
    ]


@given(st.lists(st.integers(-1, 20_000), min_size=1, max_size=30))
def test_what_a_row_lacks_is_not_in_it(values):
    array = np.array(values)
    rows = Rows(nothing(), b'{"a":1', When(array, (b',"b":', Number(array)), 0), b"}\n")
    expected = [{"a": 1} | ({"b": value} if value >= 0 else {}) for value in values]
    assert [json.loads(line) for line in lines(rows, len(values))] == expected


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_each_row_has_its_text_and_its_choice(values):
    array = np.array(values)
    text = Texts([array], lambda row: b"[" + b"1," * values[row])
    rows = Rows(text, Choice([b"[7]", b"[8]", b"9", b"{}"], array), b"]\n")
    found = [json.loads(line) for line in lines(rows, len(values))]
    assert found == [[1] * value + [[[7], [8], 9, {}][value]] for value in values]


def test_rows_of_several_shapes_come_in_order():
    text = Texts([np.arange(3)], lambda row: b"a" * (9 * row + 1))
    shapes = [
        Rows(text, Number(np.arange(3)), b"\n"),
        Rows(nothing(), b"b\n"),
        Rows(nothing(), b"never"),
    ]
    pieces = render(shapes, np.array([0, 1, 0, 1, 0], np.uint8), np.array([2, 0, 1, 0, 0]))
    assert b"".join(pieces).split() == [b"a" * 19 + b"2", b"b", b"a" * 10 + b"1", b"b", b"a0"]


def test_a_text_is_made_once_for_each_combination():
    made = []

    def encode(row):
        made.append(row)
        return b"%d" % row

    text = Texts([np.array([1, 1, 2, 1]), np.array([0, 5, 0, 0])], encode)
    rows = Rows(text, b"\n")
    for _ in range(2):
        assert lines(rows, 4) == [b"0", b"1", b"2", b"0"]
    assert sorted(made) == [0, 1, 2]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2**40)), min_size=1, max_size=30),
        max_size=5,
    )
)
def test_codes_are_equal_where_all_values_are(batches):
    codes, known = coder(), {}
    for batch in batches:
        columns = [np.array(column) for column in zip(*batch, strict=True)]
        found, fresh = codes.of(columns, np.arange(len(batch)))
        assert fresh == sorted(fresh)
        for row in fresh:
            assert batch[row] not in known
            known[batch[row]] = len(known)
        assert found.tolist() == [known[pair] for pair in batch]


def test_codes_outnumber_their_places():
    # 100,000 combinations do not fit into 65,536 places: many share one
    values = np.arange(100_000)
    codes = coder()
    first, fresh = codes.of([values, -values], values)
    assert fresh == first.tolist() == values.tolist()
    again, fresh = codes.of([values, -values], values)
    assert fresh == []
    assert again.tolist() == first.tolist()


def test_pieces_stay_small_however_long_the_names():
    text = Texts([np.zeros(4000, np.int64)], lambda row: b"n" * 70_000)
    pieces = list(render([Rows(text)], np.zeros(4000, np.uint8), np.arange(4000)))
    assert sum(bytes(piece).count(b"n") for piece in pieces) == 4000 * 70_000
    assert max(len(piece) for piece in pieces) <= 32 << 20


def test_texts_that_are_all_different_are_forgotten():
    row_count, length = 3000, 10_000
    text = Texts([np.arange(row_count)], lambda row: b"%010d" % row * (length // 10))
    written = 0
    for first in range(0, row_count, 100):
        chosen = np.arange(first, first + 100)
        written += sum(map(len, render([Rows(text)], np.zeros(100, np.uint8), chosen)))
    assert written == row_count * length
    assert text.kept_bytes < row_count * length


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_reads_back(text):
    assert json.loads(quoted(text).decode()) == text


def test_a_byte_that_was_not_utf8_stays_visible():
    undecodable = b"conv\xff\n".decode("utf-8", "surrogateescape")
    assert json.loads(quoted(undecodable).decode()) == "conv\\xff\n"
