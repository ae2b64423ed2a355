"""Columns of text, beside those that tabulate lays out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tabulate import DataRow, Line, TableFormat, tabulate

from nvtrace.sinks.layout import column_widths, padded

# words in scripts of one and of two columns a character, joined letters and marks among them
CELLS = st.text(st.sampled_from("ab 0.%-Żé中文カナ한글👩\u200d🔬\u0301"), max_size=8)
PLAIN = TableFormat(
    lineabove=None,
    linebelowheader=Line("", "-", "  ", ""),
    linebetweenrows=None,
    linebelow=None,
    headerrow=DataRow("", "  ", ""),
    datarow=DataRow("", "  ", ""),
    padding=0,
    with_header_hide=None,
)


@st.composite
def tables(draw: st.DrawFn) -> list[list[str]]:
    columns = draw(st.integers(1, 4))
    row = st.lists(CELLS, min_size=columns, max_size=columns)
    return draw(st.lists(row, min_size=2, max_size=6))


@given(tables())
def test_columns_are_as_wide_as_tabulate_makes_them(table: list[list[str]]) -> None:
    headers, *rows = table
    theirs = tabulate(
        rows, headers, tablefmt=PLAIN, disable_numparse=True, preserve_whitespace=True
    ).split("\n")
    widths = column_widths(headers, rows)
    lines = ["  ".join(padded(row, widths)).rstrip() for row in (headers, *rows)]
    rule = "  ".join("-" * width for width in widths)
    assert [lines[0], rule, *lines[1:]] == theirs
