"""Markdown tables: names survive GitHub's parser, the rest reads as in the text form."""

from __future__ import annotations

import numpy as np

from nvtrace.report import Report, ReportTable, Unit
from nvtrace.sinks import render

NBSP = "\N{NO-BREAK SPACE}"


def rows(text):
    """Return the cells of the table's body, outer bars and padding off."""
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [line.removeprefix("| ").rsplit(" | ", 1)[0].strip() for line in lines]


def test_the_text_written_by_hand(make):
    table = ReportTable(
        "model",
        "Model Summary",
        (
            make.column("name", Unit.TEXT, ["ProfileStep", "Forward", None], "Name"),
            make.column("cpu_total_ns", Unit.NS, [3_000_000, 1_500_000, None], "Total", "CPU"),
            make.column("cpu_ratio", Unit.PERCENT, [100.0, 50.0, None], "Ratio(%)", "CPU"),
        ),
        indent=np.array([0, 1, 0]),
        notes=("Shares are of the <steps>.",),
    )
    report = Report(
        {"model": table, "kernel": make.names([], empty="no kernels")},
        headline=["read a_b.sqlite"],
        notes=[{"code": "no_steps", "message": "none | found"}],
    )
    assert render(report, "markdown") == (
        "read a\\_b.sqlite\n"
        "\n"
        "## Model Summary\n"
        "\n"
        "Time unit: ms\n"
        "\n"
        "| Name          | CPU Total / Ratio(%)   |\n"
        "|:--------------|:-----------------------|\n"
        "| `ProfileStep` | 3.00 / 100.00          |\n"
        f"| {NBSP}{NBSP}`Forward`   | 1.50 / 50.00           |\n"
        "| -             | - / -                  |\n"
        "\n"
        "Shares are of the \\<steps\\>.\n"
        "\n"
        "## Kernel Summary\n"
        "\n"
        "no kernels\n"
        "\n"
        "## Notes\n"
        "\n"
        "- **no\\_steps**: none \\| found\n"
    )


def test_names_are_code_so_that_no_markup_bites(reports):
    assert rows(render(reports["odd"], "markdown")) == [
        r"`a\|b`",
        '`say "hi", ok`',
        "<code>line&#92;nbreak</code>",
        "<code>&#92;x1b&#91;31mred</code>",
        "`<b>&amp;`",
        "<code>&#96;x&#96; &#92;&#124; &#42;y&#42;</code>",
        '`""`',
        "` pad `",
    ]


def test_each_section_is_a_table_under_its_heading(make):
    sections = np.empty(3, dtype=object)
    sections[:] = ["Thread: a", "Thread: a", ("Kernel", "Launches")]
    text = render(Report({"k": make.names(["x", "y", "z"], sections=sections)}), "markdown")
    assert text == (
        "## Kernel Summary\n"
        "\n"
        "### Thread: a\n"
        "\n"
        "| Name   | Calls   |\n"
        "|:-------|:--------|\n"
        "| `x`    | 1       |\n"
        "| `y`    | 2       |\n"
        "\n"
        "| Kernel   | Launches   |\n"
        "|:---------|:-----------|\n"
        "| `z`      | 3          |\n"
    )


def test_o13_long_names_are_cut_and_stay_distinct(reports):
    names = rows(render(reports["long"], "markdown"))
    assert len(set(names)) == 3
    assert all(len(name) <= 92 for name in names)


def test_rows_left_out_are_counted(reports):
    text = render(reports["many"], "markdown")
    assert text.endswith("\n\n... 1950 more rows (use --top 0)\n")
    assert len(rows(text)) == 50
    assert len(rows(render(reports["many"], "markdown", top=0))) == 2000
