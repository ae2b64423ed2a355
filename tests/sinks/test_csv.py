"""CSV: what other readers make of it."""

from __future__ import annotations

import csv
import io

import pandas as pd
import polars as pl
import pytest

from nvtrace.report import Report, ReportTable, Unit
from nvtrace.sinks import render

NAMES = ["a|b", 'say "hi", ok', "line\nbreak", "\x1b[31mred", "<b>&amp;", "`x` \\| *y*", ""]


def test_the_text_written_by_hand(reports):
    assert render(reports["huge"], "csv") == (
        "name,gpu_total_ns,bytes,bandwidth_bytes_per_s,ratio,pinned\n"
        "HtoD,4611686018427387905,9007199254740993,2500000000.0,100.0,true\n"
        ",,1536,,,\n"
    )


def test_several_tables_follow_one_another_under_their_keys(make):
    report = Report({"kernel": make.names(["# gemm"]), "memory": make.names([], key="memory")})
    assert render(report, "csv") == ('# kernel\nname,calls\n"# gemm",1\n\n# memory\nname,calls\n')


def test_no_tables_is_an_empty_file(reports):
    assert render(reports["none"], "csv") == ""


def test_pythons_reader_gets_every_name_back(reports):
    rows = list(csv.reader(io.StringIO(render(reports["odd"], "csv"), newline="")))
    assert rows[0] == ["name", "calls"]
    assert [row[0] for row in rows[1:]] == [*NAMES, " pad "]


@pytest.mark.parametrize("name", ["a\rb", "\ttab", 'quote"', '"', "\n", ",", "tail "])
def test_awkward_names_come_back(make, name):
    text = render(Report({"kernel": make.names([name, "x"])}), "csv")
    assert list(csv.reader(io.StringIO(text, newline="")))[1:] == [[name, "1"], ["x", "2"]]


def test_o41_polars_reads_exact_integers_and_knows_empty_from_not_recorded(make):
    report = Report({"kernel": make.names(["", None, "x"])})
    assert pl.read_csv(io.StringIO(render(report, "csv")))["name"].to_list() == ["", None, "x"]
    times = make.column("t_ns", Unit.NS, [2**62 + 1, None])
    table = ReportTable("k", "K", (times, make.column("n", Unit.COUNT, [1, 2])))
    frame = pl.read_csv(io.StringIO(render(Report({"k": table}), "csv")))
    assert frame.to_dict(as_series=False) == {"t_ns": [4611686018427387905, None], "n": [1, 2]}


def test_pandas_reads_it(reports):
    frame = pd.read_csv(io.StringIO(render(reports["huge"], "csv")), dtype={"bytes": "Int64"})
    assert frame["bytes"].tolist() == [2**53 + 1, 1536]
    assert frame["gpu_total_ns"].isna().tolist() == [False, True]


def test_undecodable_bytes_are_escaped(reports):
    assert "\nundecodable\\xff,3\n" in render(reports["unicode"], "csv")


def test_rows_are_whole_unless_top_is_given(reports):
    assert render(reports["many"], "csv").count("\n") == 2001
    assert render(reports["many"], "csv", top=3) == "name,calls\nk0,1\nk1,2\nk2,3\n"
