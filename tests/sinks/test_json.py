"""JSON: strict, exact, one row a line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nvtrace.report import Column, Report, ReportTable, Unit
from nvtrace.sinks import render


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def parse(text):
    return json.loads(text.encode("utf-8"), parse_constant=refuse)


def test_the_object_is_the_contract(reports):
    found = parse(render(reports["several"], "json"))
    assert list(found) == ["schema", "sources", "notes", "totals", "views"]
    assert found["schema"] == 1
    assert found["sources"] == [{"path": "a.sqlite"}]
    assert found["notes"] == [{"code": "no_steps", "message": "no <steps> | found\nat all"}]
    assert found["totals"] == {"gpu_ns": 4611686018427387905, "steps": None, "rate": None}
    assert list(found["views"]) == ["kernel", "memory"]
    assert found["views"]["kernel"][1] == {"name": 'say "hi", ok', "calls": 2}
    assert found["views"]["memory"] == [
        {
            "name": "HtoD",
            "gpu_total_ns": 4611686018427387905,
            "bytes": 9007199254740993,
            "bandwidth_bytes_per_s": 2.5e9,
            "ratio": 100.0,
            "pinned": True,
        },
        {
            "name": None,
            "gpu_total_ns": None,
            "bytes": 1536,
            "bandwidth_bytes_per_s": None,
            "ratio": None,
            "pinned": None,
        },
    ]


def test_the_text_written_by_hand(make):
    report = Report({"kernel": make.names(["gemm", None]), "memory": make.names([], key="memory")})
    assert (
        render(report, "json")
        == """\
{"schema": 1,
"sources": [],
"notes": [],
"totals": {},
"views": {
 "kernel": [
  {"name": "gemm", "calls": 1},
  {"name": null, "calls": 2}
 ],
 "memory": []
}}
"""
    )


def test_no_views_is_an_empty_object(reports):
    assert parse(render(reports["none"], "json"))["views"] == {}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_o38_what_is_not_a_number_is_null(number):
    ratio = Column("ratio", "Ratio", Unit.PERCENT, np.array([number, 50.0]))
    report = Report({"kernel": ReportTable("kernel", "K", (ratio,))})
    assert parse(render(report, "json"))["views"]["kernel"] == [{"ratio": None}, {"ratio": 50.0}]


def test_undecodable_bytes_become_text_that_every_reader_takes(reports):
    names = [row["name"] for row in parse(render(reports["unicode"], "json"))["views"]["kernel"]]
    assert names == ["größe", "训练步骤", "undecodable\\xff", "👩‍🔬"]


def test_rows_are_whole_unless_top_is_given(reports):
    assert len(parse(render(reports["many"], "json"))["views"]["kernel"]) == 2000
    assert len(parse(render(reports["many"], "json", top=3))["views"]["kernel"]) == 3
