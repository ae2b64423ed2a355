"""Troubles of users with summary tables, O-37 to O-45, each driven through a file.

O-42 (a ratio to a peak) and O-44 (reader time in batch time) are not about reports.
"""

from __future__ import annotations

import csv
import io
import json

import pytest
from builders import Capture

import nvtrace
from nvtrace.model.trace import Recorded
from nvtrace.sinks import render


def rows(trace, view: str, **options) -> dict[str, dict]:
    return {row["name"]: row for row in trace.summary(view, **options)[view]}


def test_o37_nested_operators_are_counted_once(tmp_path):
    """O-37: the footer total is the sum of self; total >= self; shares of self are at most all."""
    capture = Capture()
    for start, name in ((0, "aten::conv2d"), (5, "aten::convolution"), (10, "aten::_convolution")):
        capture.range(f"{name}, seq = 3", start, 100 - start)
    capture.launch(20, 30, 400)
    trace = nvtrace.load(capture.write(tmp_path / "a.sqlite"))
    operators = rows(trace, "operator")
    assert {name: row["gpu_self_ns"] for name, row in operators.items()} == {
        "aten::conv2d": 0,
        "aten::convolution": 0,
        "aten::_convolution": 400,
    }
    for side, whole in (("cpu", 100), ("gpu", 400)):
        assert sum(row[f"{side}_self_ns"] for row in operators.values()) == whole
        for row in operators.values():
            assert whole >= row[f"{side}_total_ns"] >= row[f"{side}_self_ns"]
            assert row[f"{side}_ratio"] <= 100


@pytest.mark.parametrize(
    "capture",
    [
        Capture(recorded=Recorded(ranges=True)),
        Capture(),
    ],
    ids=["no tables", "no rows"],
)
def test_o38_nothing_is_divided_by_nothing(tmp_path, capture):
    """O-38: CPU-only, and a span of no length."""
    capture.ranges.clear()
    capture.step(0, 5, 5)
    capture.phase("forward", 5, 5)
    capture.range("aten::mm", 5, 5)
    lazy = capture.recorded == Recorded(ranges=True)
    trace = nvtrace.load(capture.write(tmp_path / "a.sqlite", lazy=lazy))
    report = trace.summary()
    assert str(report)
    assert "nan" not in str(report).lower()
    json.dumps(report.to_dict(), allow_nan=False)
    step = rows(trace, "model")["ProfileStep"]
    assert (step["cpu_ratio"], step["gpu_ratio"]) == (0.0, None if lazy else 0.0)


def test_o39_nothing_is_negative_and_tables_say_what_ratios_are_of(tmp_path):
    """O-39: GPU time of children counts in the parent's total."""
    capture = Capture()
    capture.step(0, 0, 100)
    capture.phase("forward", 0, 90)
    capture.range("aten::linear", 10, 20)
    capture.range("aten::addmm", 11, 19)
    capture.launch(12, 13, 5_000)
    report = nvtrace.load(capture.write(tmp_path / "a.sqlite")).summary(op_detail=True)
    for table in report:
        for row in table:
            for key, value in row.items():
                assert not isinstance(value, int | float) or value >= 0, (table.key, key)
        if any("ratio" in key for key in table.keys()) and len(table):  # noqa: SIM118
            assert "ratios are of" in " ".join(table.notes).lower()
    linear = next(row for row in report["operator"] if row["name"] == "aten::linear")
    assert (linear["gpu_total_ns"], linear["gpu_self_ns"]) == (5_000, 0)


def test_o40_communication_is_told_by_kernels_not_by_operators_names(tmp_path):
    """O-40: reduce_mean is computation; synchronization is neither; overlap by intersection."""
    capture = Capture()
    capture.range("reduce_mean", 0, 10)
    capture.launch(1, 2, 300, at=1_000, name="reduce_kernel<512>")
    capture.range("broadcast_to", 10, 20)
    capture.launch(11, 12, 300, at=1_300, name="broadcast_kernel")
    capture.call(20, 900, name="cudaStreamSynchronize")
    capture.launch(950, 951, 500, at=1_200, name="ncclDevKernel_AllReduce_Sum_f32", stream=9)
    trace = nvtrace.load(capture.write(tmp_path / "a.sqlite"))
    totals = {name: row["total_ns"] for name, row in rows(trace, "distributed").items()}
    assert totals == {"Window": 1_700, "Communication": 500, "Computation": 600, "Overlap": 400}


def test_o41_tables_can_be_processed(tmp_path):
    """O-41: records, CSV and JSON with integer ns and one unit a column, named in its header."""
    capture = Capture()
    capture.launch(0, 10, 1, name="short")
    capture.launch(10, 20, 10**9, name="long")
    report = nvtrace.load(capture.write(tmp_path / "a.sqlite")).summary("kernel")
    expected = [("long", 10**9), ("short", 1)]
    as_json = json.loads(render(report, "json"))["views"]["kernel"]
    assert [(row["name"], row["gpu_total_ns"]) for row in as_json] == expected
    text = [line for line in render(report, "csv").splitlines() if not line.startswith("#")]
    as_csv = list(csv.DictReader(io.StringIO("\n".join(text))))
    assert [(row["name"], int(row["gpu_total_ns"])) for row in as_csv] == expected
    assert [(row["name"], row["gpu_total_ns"]) for row in report["kernel"]] == expected
    assert report["kernel"]["gpu_total_ns"].dtype.kind == "i"


def test_o43_sums_over_threads_are_no_share_of_the_wall(tmp_path):
    """O-43: three threads blocked for the whole run are not 300 % of it."""
    capture = Capture()
    for tid in (1, 2, 3):
        capture.range("wait", 0, 1_000, tid=tid)
        capture.call(0, 1_000, tid=tid, name="cudaDeviceSynchronize")
    trace = nvtrace.load(capture.write(tmp_path / "a.sqlite"))
    types = {row["event_type"]: row for row in trace.summary("overview")["overview"]}
    for name in ("UserDefined", "CudaRuntime"):
        assert (types[name]["time_ns"], types[name]["ratio"]) == (1_000, 100.0)
    wait = rows(trace, "user_defined")["wait"]
    assert (wait["cpu_total_ns"], wait["cpu_ratio"]) == (3_000, 100.0)
    notes = " ".join(trace.summary("user_defined")["user_defined"].notes)
    assert "summed over threads" in notes


def test_o45_not_traced_is_not_zero(tmp_path):
    """O-45: GPU columns are empty where GPU work was not collected."""
    capture = Capture()
    capture.step(0, 0, 100)
    capture.phase("forward", 0, 60)
    capture.range("aten::mm", 10, 20)
    capture.range("mine", 20, 30)
    report = nvtrace.load(capture.write(tmp_path / "a.sqlite")).summary()
    assert report.totals["gpu_ns"] is None
    for view in ("model", "operator", "user_defined"):
        assert len(report[view])
        for row in report[view]:
            assert {row[key] for key in row if key.startswith("gpu_")} == {None}
    assert "GPU time: not recorded" in report.headline
    assert "was not recorded" in report["kernel"].empty
