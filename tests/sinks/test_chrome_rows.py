"""Rows of bytes: every number reads back, absent members leave valid JSON, pieces stay small."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvtrace.sinks.chrome_rows import Number, Rows, Text, Thousandths, When, quoted, render, text_by


def lines(rows, count):
    pieces = render([rows], np.zeros(count, np.uint8), np.arange(count))
    return b"".join(piece for _, piece in pieces).splitlines()


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=50))
def test_numbers_read_back(values):
    array = np.array(values, np.int64)
    rows = Rows(b"[", Number(array), b",", Number(array, np.arange(len(values))[::-1]), b"]\n")
    expected = [[value, other] for value, other in zip(values, values[::-1], strict=True)]
    assert [json.loads(line) for line in lines(rows, len(values))] == expected


@pytest.mark.parametrize(
    "value",
    [0, 1, 9999, 10_000, 10_001, 99_999_999, 100_000_000, 2**32 - 1, 2**32, 10**12, 2**64 - 1],
)
def test_groups_of_digits_meet(value):
    assert lines(Rows(Number(np.array([value, 5], np.uint64)), b"\n"), 2)[0].strip() == (
        str(value).encode()
    )


@given(st.lists(st.integers(0, 10**17), min_size=1, max_size=50))
def test_thousandths_have_three_digits(values):
    rows = Rows(Thousandths(np.array(values)), b"\n")
    assert [line.strip() for line in lines(rows, len(values))] == [
        f"{value // 1000}.{value % 1000:03d}".encode() for value in values
    ]


@given(st.lists(st.integers(-1, 20_000), min_size=1, max_size=30))
def test_what_a_row_lacks_is_not_in_it(values):
    array = np.array(values)
    rows = Rows(b'{"a":1', When(array >= 0, (b',"b":', Number(array))), b"}\n")
    expected = [{"a": 1} | ({"b": value} if value >= 0 else {}) for value in values]
    assert [json.loads(line) for line in lines(rows, len(values))] == expected


def test_shapes_are_written_in_the_order_asked_for():
    shapes = [Rows(b"a", Number(np.arange(3)), b"\n"), Rows(b"b\n"), Rows(b"never")]
    pieces = render(shapes, np.array([0, 1, 0, 1, 0], np.uint8), np.array([2, 0, 1, 0, 0]))
    assert b"".join(piece for _, piece in pieces).replace(b" ", b"") == b"a2\nb\na1\nb\na0\n"


def test_a_text_is_made_once_for_each_combination():
    made = []

    def encode(row):
        made.append(row)
        return b"%d\n" % row

    text = text_by([np.array([1, 1, 2, 1]), np.array([0, 5, 0, 0])], encode)
    assert lines(Rows(text), 4) == [b"0", b"1", b"2", b"0"]
    assert sorted(made) == [0, 1, 2]


def test_pieces_stay_small_however_long_the_names():
    name = np.array([b"n" * 70_000], dtype=object)
    rows = Rows(Text(name, np.zeros(4000, np.int64)))
    pieces = list(render([rows], np.zeros(4000, np.uint8), np.arange(4000)))
    assert sum(count for count, _ in pieces) == 4000
    assert sum(len(piece) for _, piece in pieces) == 4000 * 70_000
    assert max(len(piece) for _, piece in pieces) <= 64 << 20


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_reads_back(text):
    assert json.loads(quoted(text).decode()) == text


def test_a_byte_that_was_not_utf8_stays_visible():
    undecodable = b"conv\xff\n".decode("utf-8", "surrogateescape")
    assert json.loads(quoted(undecodable).decode()) == "conv\\xff\n"
