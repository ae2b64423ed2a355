"""Tables for a terminal: paddle.profiler's layout, unit, cuts, rows left out."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvtrace.errors import UsageError
from nvtrace.report import Report, ReportTable, Unit
from nvtrace.sinks import render
from nvtrace.sinks.names import printed_names

# Printed by paddle.profiler; blanks and dashes as there.
PADDLE_MODEL = """\
-----------------------------------------------Model Summary-----------------------------------------------
Time unit: ms
---------------  ------  ----------------------------------------  ----------------------------------------
Name             Calls   CPU Total / Avg / Max / Min / Ratio(%)    GPU Total / Avg / Max / Min / Ratio(%)
---------------  ------  ----------------------------------------  ----------------------------------------
ProfileStep      11      138.99 / 12.64 / 17.91 / 10.65 / 100.00   8.81 / 0.80 / 0.80 / 0.80 / 100.00
  Dataloader     11      16.88 / 1.53 / 6.91 / 0.09 / 12.14        0.00 / 0.00 / 0.00 / 0.00 / 0.00
  Forward        11      45.18 / 4.11 / 4.41 / 3.61 / 32.50        2.73 / 0.25 / 0.25 / 0.25 / 31.01
  Others         -       29.55 / - / - / - / 21.26                 1.05 / - / - / - / 11.63
---------------  ------  ----------------------------------------  ----------------------------------------
"""  # noqa: E501
PADDLE_OVERVIEW = """\
---------------------------------------------Overview Summary---------------------------------------------
Time unit: ms
-------------------------  -------------------------  -------------------------  -------------------------
Event Type                 Calls                      CPU Time                   Ratio (%)
-------------------------  -------------------------  -------------------------  -------------------------
ProfileStep                8                          4945.15                    100.00
  CudaRuntime              28336                      2435.63                    49.25
-------------------------  -------------------------  -------------------------  -------------------------
                          Calls                      GPU Time                   Ratio (%)
-------------------------  -------------------------  -------------------------  -------------------------
  Kernel                   13688                      2744.61                    55.50
  Memset                   104                        0.12                       0.00
-------------------------  -------------------------  -------------------------  -------------------------
"""  # noqa: E501


@pytest.fixture(autouse=True)
def no_columns(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)


def runs(text):
    """Return ``text`` with every run of dashes or blanks at one length: widths do not count."""
    return re.sub(r"-{3,}( {2}-+)*", "---", re.sub(r" {2,}", "  ", text))


def text(table, **options):
    return render(Report({table.key: table}), "table", **options)


def test_reads_as_paddles_model_table(make):
    table = ReportTable(
        "model",
        "Model Summary",
        (
            make.column(
                "name", Unit.TEXT, ["ProfileStep", "Dataloader", "Forward", "Others"], "Name"
            ),
            make.column("calls", Unit.COUNT, [11, 11, 11, None], "Calls"),
            *make.figures(
                "CPU",
                [
                    (138.99, 12.64, 17.91, 10.65, 100.0),
                    (16.88, 1.53, 6.91, 0.09, 12.14),
                    (45.18, 4.11, 4.41, 3.61, 32.50),
                    (29.55, None, None, None, 21.26),
                ],
            ),
            *make.figures(
                "GPU",
                [
                    (8.81, 0.80, 0.80, 0.80, 100.0),
                    (0, 0, 0, 0, 0.0),
                    (2.73, 0.25, 0.25, 0.25, 31.01),
                    (1.05, None, None, None, 11.63),
                ],
            ),
        ),
        indent=np.array([0, 1, 1, 1]),
    )
    assert runs(text(table)) == runs(PADDLE_MODEL)


def test_reads_as_paddles_overview_table(make):
    table = ReportTable(
        "overview",
        "Overview Summary",
        (
            make.column("side", Unit.TEXT, ["cpu", "cpu", "gpu", "gpu"], shown=False),
            make.column(
                "event_type",
                Unit.TEXT,
                ["ProfileStep", "CudaRuntime", "Kernel", "Memset"],
                "Event Type",
            ),
            make.column("calls", Unit.COUNT, [8, 28336, 13688, 104], "Calls"),
            make.column(
                "time_ns", Unit.NS, [4945150000, 2435630000, 2744610000, 120000], "CPU Time"
            ),
            make.column("ratio", Unit.PERCENT, [100.0, 49.25, 55.5, 0.0], "Ratio (%)"),
        ),
        indent=np.array([0, 1, 1, 1]),
        sections=_objects("", "", *[("", "Calls", "GPU Time", "Ratio (%)")] * 2),
    )
    assert runs(text(table)) == runs(PADDLE_OVERVIEW)


def _objects(*values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def test_layout_with_headline_sections_notes_and_hidden_columns(make):
    table = ReportTable(
        "operator",
        "Operator Summary",
        (
            make.column("thread", Unit.TEXT, ["t1", "t1", "t2"], shown=False),
            make.column("name", Unit.TEXT, ["relu", "kernel_a", "relu"], "Name"),
            make.column("cpu_total_ns", Unit.NS, [1_500_000, None, 20_000], "Total", "CPU"),
            make.column("bytes", Unit.BYTES, [1536, None, 512], "Bytes"),
        ),
        indent=np.array([0, 1, 0]),
        sections=_objects("Thread: t1", "Thread: t1", "Thread: t2"),
        notes=("Sums over threads.", "Shares are of the column."),
    )
    report = Report(
        {"operator": table},
        headline=["read a.sqlite"],
        notes=[{"code": "no_steps", "message": "no steps"}],
    )
    assert (
        render(report)
        == """\
read a.sqlite

-----------Operator Summary-----------
Time unit: ms
----------  -----------  -------------
Name        CPU Total    Bytes (KiB)
----------  -----------  -------------
--------------Thread: t1--------------
relu        1.50         1.50
  kernel_a  -            -
--------------Thread: t2--------------
relu        0.02         0.50
----------  -----------  -------------
Note:
Sums over threads.
Shares are of the column.
--------------------------------------

Notes:
[no_steps] no steps
"""
    )


def test_an_empty_table_says_why(reports):
    assert render(reports["empty"]) == (
        "----------Kernel Summary----------\nno kernels: record with nsys profile -t cuda\n"
    )


def test_wide_characters_keep_columns_aligned(make):
    lines = text(make.names(["训练", "abcd"])).splitlines()
    # Two characters of two cells each, and four of one, end where the column ends.
    assert lines[-3] == "训练    1"
    assert lines[-2] == "abcd    2"


def test_figures_are_in_one_unit_and_never_look_like_zero(make):
    columns = (
        make.column("name", Unit.TEXT, ["a", "b", "c"], "Name"),
        make.column("total_ns", Unit.NS, [2_000_000_000, 4_000, 0], "Total"),
        make.column("ratio", Unit.PERCENT, [99.9998, 0.0002, 0.0], "Ratio(%)"),
    )
    printed = runs(text(ReportTable("kernel", "Kernel", columns))).splitlines()
    assert printed[1] == "Time unit: ms"
    assert printed[5:8] == ["a  2000.00  100.00", "b  <0.01  <0.01", "c  0.00  0.00"]


@pytest.mark.parametrize(
    ("times", "unit"),
    [
        ([1_000 * 10**9, 1], "s"),
        ([999 * 10**9, 1], "ms"),  # too large to read in us, whatever the smallest
        ([138_990_000, 90_000], "ms"),
        ([138_990_000, 2_000], "us"),  # 2 us would read 0.00 ms
        ([999_999], "us"),
        ([999], "ns"),
        ([0], "ms"),
        ([None], "ms"),
    ],
)
def test_the_unit_fits_the_table(make, times, unit):
    table = ReportTable("kernel", "K", (make.column("t_ns", Unit.NS, times, "Total"),))
    assert f"\nTime unit: {unit}\n" in text(table)


@pytest.mark.parametrize(
    ("unit", "figure"),
    [("s", "1.23"), ("ms", "1234.57"), ("us", "1234567.89"), ("ns", "1234567890")],
)
def test_the_unit_can_be_asked_for(make, unit, figure):
    table = ReportTable("kernel", "K", (make.column("t_ns", Unit.NS, [1234567890], "Total"),))
    lines = text(table, unit=unit).splitlines()
    assert lines[1] == f"Time unit: {unit}"
    assert lines[5] == figure


@pytest.mark.parametrize(
    ("size", "heading", "figure"),
    [
        (1023, "B", "1023"),
        (1024, "KiB", "1.00"),
        (3 * 2**20, "MiB", "3.00"),
        (5 * 2**30, "GiB", "5.00"),
        (2**53, "TiB", "8192.00"),
        (0, "B", "0"),
    ],
)
def test_bytes_have_their_unit_in_the_heading(make, size, heading, figure):
    table = ReportTable("memory", "M", (make.column("bytes", Unit.BYTES, [size], "Bytes"),))
    lines = text(table).splitlines()
    assert lines[2] == f"Bytes ({heading})"
    assert lines[4] == figure


def test_texts_can_share_a_cell(make):
    columns = (
        make.column("name", Unit.TEXT, ["a"], "Name"),
        make.column("grid", Unit.TEXT, ["1,1,1"], "Grid", "Launch"),
        make.column("block", Unit.TEXT, [None], "Block", "Launch"),
    )
    lines = text(ReportTable("kernel", "K", columns)).splitlines()
    assert lines[2] == "Name    Launch Grid / Block"
    assert lines[4] == "a       1,1,1 / -"


def test_bandwidth_is_decimal_as_data_sheets_give_it(make):
    column = make.column("rate", Unit.BYTES_PER_S, [2.5e9, 1e6], "Bandwidth")
    lines = text(ReportTable("memory", "M", (column,))).splitlines()
    assert lines[2] == "Bandwidth (GB/s)"
    assert lines[4:6] == ["2.50", "<0.01"]


def test_rows_left_out_are_counted(reports, make):
    lines = render(reports["many"]).splitlines()
    assert lines[-1] == "... 1950 more rows (use --top 0)"
    assert lines[-3].split() == ["k49", "50"]
    assert "more row" not in render(reports["many"], top=0)
    assert render(reports["many"], top=0).splitlines()[-2].split() == ["k1999", "2000"]
    assert "... 1 more row (use" in text(make.names(["a", "b"]), top=1)


def test_o13_long_names_stay_distinct_and_end_at_paddles_width(reports):
    names = [line.split("  ")[0] for line in render(reports["long"]).splitlines()[4:7]]
    assert len(set(names)) == 3
    assert all(len(name) <= 90 for name in names)
    assert names[0].startswith("void gemm<float, ")
    assert names[0].endswith(", >(Params)")


def test_lines_keep_to_the_width_asked_for_or_the_terminals(reports, monkeypatch):
    lines = render(reports["long"], width=60).splitlines()
    assert max(map(len, lines)) == 60
    monkeypatch.setenv("COLUMNS", "60")
    assert render(reports["long"]).splitlines() == lines
    monkeypatch.setenv("COLUMNS", "nonsense")
    assert max(map(len, render(reports["long"]).splitlines())) > 90


def test_names_too_deep_to_indent_carry_their_level(make):
    table = make.names(["root", "leaf"], indent=np.array([0, 1007]))
    lines = text(table).splitlines()
    assert lines[-2].startswith(" " * 32 + "[1007] leaf")


def test_what_does_not_print_is_escaped(reports):
    printed = render(reports["odd"])
    assert "line\\nbreak" in printed
    assert "\\x1b[31mred" in printed
    assert '""  ' in printed
    assert "undecodable\\xff" in render(reports["unicode"])


def test_an_unknown_unit_is_refused(reports):
    with pytest.raises(UsageError, match="unknown unit 'min': choose auto, s, ms, us, ns"):
        render(reports["huge"], unit="min")


def test_names_are_cut_in_the_middle_and_numbered_when_alike():
    names = ["abcdefghij0klmnopqrst", "abcdefghij1klmnopqrst", "short", "abcdefghij0klmnopqrst"]
    assert printed_names(names, 15) == [
        "abcdef...opqrst",
        "abcde...qrst #2",
        "short",
        "abcdef...opqrst",
    ]


def test_a_short_name_that_looks_like_a_cut_one_keeps_its_own():
    names = ["abcdefghij0klmnopqrst", "abcdef...opqrst", "a\nb", "a\\nb", None, "-"]
    printed = printed_names(names, 15)
    assert printed[1] == "abcdef...opqrst"
    assert printed[3] == "a\\nb"
    assert printed[4] == "-"
    assert len(set(printed[:4])) == 4


@given(
    st.lists(st.text("ab\n\\#2. ", max_size=60) | st.text(max_size=60), max_size=30),
    st.integers(20, 40),
)
def test_printed_names_fit_print_and_never_merge(names, width):
    printed = printed_names(names, width)
    assert all(len(line) <= width and line.isprintable() for line in printed)
    pairs = set(zip(names, printed, strict=True))
    assert len(pairs) == len(set(names)) == len(set(printed))
