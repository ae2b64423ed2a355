"""Report and ReportTable as data."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from nvtrace.report import Column, Report, ReportTable, Unit


def names(*values):
    return Column("name", "Name", Unit.TEXT, np.array(values, dtype=object))


@pytest.fixture
def table():
    times = Column("t_ns", "Time", Unit.NS, np.array([7, 0, 9]), np.array([True, False, True]))
    shares = Column("ratio", "Ratio", Unit.PERCENT, np.array([70.0, np.nan, 30.0]))
    return ReportTable("kernel", "Kernels", (names("a", None, "c"), times, shares))


def test_columns_are_numpy_and_rows_are_dicts(table):
    assert table["t_ns"].dtype == np.int64
    assert table["t_ns"].tolist() == [7, 0, 9]
    rows = [
        {"name": "a", "t_ns": 7, "ratio": 70.0},
        {"name": None, "t_ns": None, "ratio": None},
        {"name": "c", "t_ns": 9, "ratio": 30.0},
    ]
    assert table.rows() == rows
    assert list(table) == rows
    assert len(table) == 3
    assert table.keys() == ["name", "t_ns", "ratio"]


def test_recorded_says_where_there_is_a_figure(table):
    for column in table.columns:
        assert column.recorded().tolist() == [True, False, True]


def test_a_wrong_key_names_the_right_ones(table):
    with pytest.raises(KeyError, match="no column 'time' in kernel: name, t_ns, ratio"):
        table["time"]
    with pytest.raises(KeyError, match="no table 'kernels': there are kernel"):
        Report({"kernel": table})["kernels"]


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match=r"columns of k differ in length: \[1, 2\]"):
        ReportTable("k", "K", (names("a"), names("a", "b")))


def test_head_cuts_everything_that_goes_by_row(table):
    indent, sections = np.array([0, 1, 1]), np.array(["x", "x", "y"], dtype=object)
    full = ReportTable("k", "K", table.columns, indent, sections)
    head = full.head(2)
    assert head.rows() == full.rows()[:2]
    assert (head.indent.tolist(), head.sections.tolist()) == ([0, 1], ["x", "x"])
    assert len(Report({"k": full}).head(1)["k"]) == 1
    assert len(full.head(99)) == 3


def test_report_is_a_collection_of_tables(table):
    report = Report({"kernel": table})
    assert report["kernel"] is table
    assert list(report) == [table]
    assert len(report) == 1
    assert "kernel" in report
    assert "memory" not in report


def test_to_dict_holds_nothing_that_json_does_not_know(table):
    report = Report(
        {"kernel": table},
        totals={"gpu_ns": np.int64(16), "share": np.float64("nan"), "names": ("a", np.bool_(True))},
        notes=({"code": "c", "message": "m"},),
        sources=({"path": pathlib.PurePosixPath("a/b.sqlite"), "size": np.uint64(2**63)},),
    )
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False)) == {
        "schema": 1,
        "sources": [{"path": "a/b.sqlite", "size": 9223372036854775808}],
        "notes": [{"code": "c", "message": "m"}],
        "totals": {"gpu_ns": 16, "share": None, "names": ["a", True]},
        "views": {"kernel": table.rows()},
    }


def test_printed_forms(table):
    report = Report({"kernel": table}, headline=["read x"])
    assert str(report).startswith("read x\n\n---")
    assert "Kernels" in str(table)
    assert repr(table) == "<ReportTable kernel: 3 rows of name, t_ns, ratio>"
    assert repr(report) == "<Report: kernel>"
    assert repr(Report({})) == "<Report: no tables>"


def test_notebooks_get_a_fragment_that_escapes_names():
    table = ReportTable("k", "K", (names("<script>"),))
    for html in (table._repr_html_(), Report({"k": table})._repr_html_()):
        assert html.startswith('<div class="nvtrace">')
        assert html.endswith("</div>\n")
        assert "&lt;script&gt;" in html
        assert "<script>" not in html


def test_reports_need_no_renderer_until_one_is_asked_for():
    code = (
        "import sys, nvtrace.report\n"
        "heavy = {'tabulate', 'pandas', 'polars', 'pyarrow', 'nvtrace.sinks'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"
