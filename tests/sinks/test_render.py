"""What holds for every format and every report."""

from __future__ import annotations

import pytest

from nvtrace.errors import UsageError
from nvtrace.sinks import FORMATS, render

NAMES = ["empty", "odd", "unicode", "long", "huge", "many", "none", "several"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("format", FORMATS)
def test_output_is_utf8_ends_its_last_line_and_is_the_same_twice(reports, format, name):
    text = render(reports[name], format)
    text.encode("utf-8")
    assert text.endswith("\n") or (format, name) == ("csv", "none")
    assert render(reports[name], format) == text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("format", ["table", "markdown", "html"])
def test_nothing_in_a_name_reaches_the_terminal_as_a_command(reports, format, name):
    assert not {c for c in render(reports[name], format) if c < " "} - {"\n"}


@pytest.mark.parametrize("format", ["json", "csv", "html"])
def test_o13_whole_names_are_in_the_data_formats(reports, format):
    text = render(reports["long"], format).replace("&lt;", "<").replace("&gt;", ">")
    for name in reports["long"]["kernel"]["name"]:
        assert name in text


@pytest.mark.parametrize("format", FORMATS)
def test_a_negative_top_is_refused(reports, format):
    with pytest.raises(UsageError, match="top is -1: give a number of rows, or 0 for all"):
        render(reports["odd"], format, top=-1)


def test_an_unknown_format_is_refused(reports):
    with pytest.raises(UsageError, match="unknown format 'xml': choose table, json, csv, mark"):
        render(reports["odd"], "xml")
