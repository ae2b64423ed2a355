"""Rows of bytes: every number reads back, absent members leave valid JSON, pieces stay small."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvtrace.sinks.chrome_rows import Choice, Number, Rows, Thousandths, When, quoted, render
from nvtrace.sinks.chrome_texts import Codes, Texts

NOTHING = Texts([np.zeros_like], lambda row: b"")


def lines(rows, count, late=False):
    """The rows from 0, in order where they are ``late``, sorted as bytes where not."""
    chosen = np.arange(count), np.full(count, late)
    written = [
        line.strip()
        for line in b"".join(render([rows], np.zeros(count, np.uint8), *chosen)).splitlines()
    ]
    return written if late else sorted(written)


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=50))
def test_numbers_read_back(values):
    array = np.array(values, np.int64)
    backwards = Number(lambda rows: array[::-1][rows])
    rows = Rows(NOTHING, b"[", Number(array), b",", backwards, b"]\n")
    expected = [[value, other] for value, other in zip(values, values[::-1], strict=True)]
    assert [json.loads(line) for line in lines(rows, len(values), late=True)] == expected


@pytest.mark.parametrize(
    "value",
    [0, 1, 9999, 10_000, 10_001, 99_999_999, 100_000_000, 2**32 - 1, 2**32, 10**12, 2**64 - 1],
)
def test_groups_of_digits_meet(value):
    rows = Rows(NOTHING, Number(np.array([value, 5], np.uint64)), b"\n")
    assert lines(rows, 2, late=True)[0].strip() == str(value).encode()


@given(st.lists(st.integers(0, 10**17), min_size=1, max_size=50))
def test_thousandths_have_three_digits(values):
    rows = Rows(NOTHING, Thousandths(np.array(values)), b"\n")
    assert [line.strip() for line in lines(rows, len(values), late=True)] == [
        f"{value // 1000}.{value % 1000:03d}".encode() for value in values
    ]


@given(st.lists(st.integers(-1, 20_000), min_size=1, max_size=30))
def test_what_a_row_lacks_is_not_in_it(values):
    array = np.array(values)
    rows = Rows(NOTHING, b'{"a":1', When(array >= 0, (b',"b":', Number(array))), b"}\n")
    expected = [{"a": 1} | ({"b": value} if value >= 0 else {}) for value in values]
    assert [json.loads(line) for line in lines(rows, len(values), late=True)] == expected


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.booleans())
def test_each_row_has_its_text_and_its_choice(values, late):
    array = np.array(values)
    text = Texts([array], lambda row: b"[" + b"1," * values[row])
    table = np.array([b"[7]", b"[8]", b" 9 ", b"{ }"], "V3")
    rows = Rows(text, Choice(table, array), b"]\n")
    found = [json.loads(line) for line in lines(rows, len(values), late)]
    expected = [[1] * value + [[[7], [8], 9, {}][value]] for value in values]
    order = (lambda one: 0) if late else len
    assert sorted(found, key=order) == sorted(expected, key=order)


def test_late_rows_come_last_and_in_order():
    text = Texts([np.arange(3)], lambda row: b"a" * (9 * row + 1))
    shapes = [
        Rows(text, Number(np.arange(3)), b"\n"),
        Rows(NOTHING, b"b\n"),
        Rows(NOTHING, b"never"),
    ]
    late = np.array([False, True, True, True, True, False])
    pieces = render(
        shapes, np.array([0, 1, 0, 1, 0, 1], np.uint8), np.array([2, 0, 1, 0, 0, 0]), late
    )
    numbers = b"".join(pieces).replace(b" ", b"").replace(b"a", b"")
    assert numbers == b"2\nb\nb\n1\nb\n0\n"


def test_a_text_is_made_once_for_each_combination():
    made = []

    def encode(row):
        made.append(row)
        return b"%d" % row

    text = Texts([np.array([1, 1, 2, 1]), np.array([0, 5, 0, 0])], encode)
    rows = Rows(text, b"\n")
    for _ in range(2):
        assert [line.strip() for line in lines(rows, 4, late=True)] == [b"0", b"1", b"2", b"0"]
    assert sorted(made) == [0, 1, 2]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2**40)), min_size=1, max_size=30),
        max_size=5,
    )
)
def test_codes_are_equal_where_all_values_are(batches):
    codes, known = Codes(), {}
    for batch in batches:
        columns = [np.array(column) for column in zip(*batch, strict=True)]
        found, fresh = codes.of(columns)
        for row in fresh:
            assert batch[row] not in known
            known[batch[row]] = len(known)
        assert found.tolist() == [known[pair] for pair in batch]


def test_codes_outnumber_their_places():
    # 100,000 combinations do not fit into 65,536 places: many share one
    values = np.arange(100_000)
    codes = Codes()
    first, fresh = codes.of([values, -values])
    assert sorted(fresh) == values.tolist()
    assert sorted(first.tolist()) == values.tolist()
    again, fresh = codes.of([values, -values])
    assert fresh == []
    assert again.tolist() == first.tolist()


def test_pieces_stay_small_however_long_the_names():
    text = Texts([np.zeros(4000, np.int64)], lambda row: b"n" * 70_000)
    pieces = list(
        render([Rows(text)], np.zeros(4000, np.uint8), np.arange(4000), np.zeros(4000, bool))
    )
    assert sum(bytes(piece).count(b"n") for piece in pieces) == 4000 * 70_000
    assert max(len(piece) for piece in pieces) <= 32 << 20


def test_texts_that_are_all_different_are_forgotten():
    row_count, length = 3000, 10_000
    text = Texts([np.arange(row_count)], lambda row: b"%010d" % row * (length // 10))
    written = 0
    for first in range(0, row_count, 100):
        for _, piece in Rows(text).pieces(np.arange(first, first + 100)):
            written += np.count_nonzero(piece != ord(" "))
    assert written == row_count * length
    assert text.kept_bytes < row_count * length


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_reads_back(text):
    assert json.loads(quoted(text).decode()) == text


def test_a_byte_that_was_not_utf8_stays_visible():
    undecodable = b"conv\xff\n".decode("utf-8", "surrogateescape")
    assert json.loads(quoted(undecodable).decode()) == "conv\\xff\n"
