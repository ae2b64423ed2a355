"""HTML: well formed, self-contained, escaped, whole names."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest

from nvtrace.report import Report, ReportTable, Unit
from nvtrace.sinks import render

VOID = {"meta"}


class Page(HTMLParser):
    """Collects cells row by row and fails on a tag that does not close in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.rows, self.attributes = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


@pytest.mark.parametrize("name", ["empty", "odd", "unicode", "long", "huge", "none", "several"])
def test_pages_are_well_formed_and_load_nothing(reports, name):
    page = Page(render(reports[name], "html"))
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not [a for a in page.attributes if a[1] in ("src", "href") or a[1].startswith("on")]


def test_every_name_is_whole_and_shown_as_it_is(reports):
    page = Page(render(reports["odd"], "html"))
    assert page.rows == [
        ["Name", "Calls"],
        ["a|b", "1"],
        ['say "hi", ok', "2"],
        ["line\\nbreak", "3"],
        ["\\x1b[31mred", "4"],
        ["<b>&amp;", "5"],
        ["`x` \\| *y*", "6"],
        ["", "7"],
        [" pad ", "8"],
    ]
    long = Page(render(reports["long"], "html"))
    assert [row[0] for row in long.rows[1:]] == reports["long"]["kernel"]["name"].tolist()


def test_groups_indents_and_sections(make):
    sections = np.empty(2, dtype=object)
    sections[:] = ["Thread: <a>", "Thread: <a>"]
    table = ReportTable(
        "model",
        "Model <Summary>",
        (
            make.column("name", Unit.TEXT, ["Step", "Forward"], "Name"),
            make.column("total_ns", Unit.NS, [3_000_000, None], "Total", "CPU"),
            make.column("ratio", Unit.PERCENT, [100.0, 0.0], "Ratio(%)", "CPU"),
        ),
        indent=np.array([0, 1]),
        sections=sections,
        notes=("of the <steps>",),
    )
    text = render(Report({"model": table}), "html")
    page = Page(text)
    assert page.rows == [
        ["", "CPU"],
        ["Name", "Total", "Ratio(%)"],
        ["Thread: <a>"],
        ["Step", "3.00", "100.00"],
        ["Forward", "-", "0.00"],
    ]
    assert ("th", "colspan", "2") in page.attributes
    assert ("td", "style", "padding-left: 2.2em") in page.attributes
    assert "<h2>Model &lt;Summary&gt;</h2>" in text
    assert "<p>Time unit: ms</p>" in text
    assert "<p>of the &lt;steps&gt;</p>" in text


def test_light_and_dark(reports):
    assert "@media (prefers-color-scheme: dark)" in render(reports["odd"], "html")


def test_headline_notes_and_empty_tables_are_said(reports):
    text = render(reports["several"], "html")
    assert "<p>97.0 % of GPU time found its range</p>" in text
    assert "<li><b>no_steps</b>: no &lt;steps&gt; | found\\nat all</li>" in text
    assert "<p>no kernels: record with nsys" in render(reports["empty"], "html")


def test_rows_left_out_are_counted(reports):
    text = render(reports["many"], "html")
    assert "<p>... 1000 more rows (use --top 0)</p>" in text
    assert len(Page(text).rows) == 1001
    assert len(Page(render(reports["many"], "html", top=0)).rows) == 2001
