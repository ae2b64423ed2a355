"""The questions one asks of a Trace, and what each answer adds up to."""

from __future__ import annotations

import json

import numpy as np
import pytest
from builders import START_END, Capture
from oracle import random_capture

from nvtrace.analysis.summaries.columns import SORT_KEYS
from nvtrace.analysis.views import DEFAULT_VIEWS, VIEWS
from nvtrace.errors import UsageError
from nvtrace.model.schema import DeviceKind
from nvtrace.model.trace import Recorded


def small() -> Capture:
    capture = Capture()
    capture.step(3, 0, 100)
    capture.phase("forward", 0, 60)
    capture.range("aten::mm, seq = 5", 10, 30, payload=2.5)
    capture.range("request", 20, 90, style=START_END, end_tid=2)
    capture.mark("epoch", 40)
    capture.launch(12, 14, 50)
    capture.copy(70, 75, 30, 1_000, 1)
    return capture


def test_views_by_default_and_by_name():
    trace = small().trace()
    assert tuple(trace.summary().tables) == DEFAULT_VIEWS
    assert len(DEFAULT_VIEWS) == 8
    assert list(trace.summary("kernel").tables) == ["kernel"]
    assert list(trace.summary(["memory", "device"]).tables) == ["memory", "device"]
    assert list(trace.summary(()).tables) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"views": "kernels"}, "unknown view 'kernels': choose from device, overview"),
        ({"views": ["kernel", ""]}, "unknown view ''"),
        ({"sorted_by": "gpu"}, "unknown sort key 'gpu': choose from cpu_total"),
    ],
)
def test_what_there_is_not_is_one_line(arguments, said):
    with pytest.raises(UsageError, match=said) as caught:
        small().trace().summary(**arguments)
    assert "\n" not in str(caught.value)


def test_totals_and_headline():
    report = small().trace().summary(())
    assert report.totals == {
        "gpu_ns": 80,
        "attributed_gpu_ns": 80,
        "inferred_gpu_ns": 0,
        "unattributed_gpu_ns": 0,
        "steps": 1,
        "window_ns": 100,
    }
    assert any("100.0% in a range" in line for line in report.headline)


def test_ranges_one_by_one():
    rows = small().trace().ranges_report()["ranges"].rows()
    assert [row["name"] for row in rows] == ["step", "forward", "aten::mm", "request"]
    assert {key: rows[2][key] for key in rows[2] if key != "text"} == {
        "name": "aten::mm",
        "domain": "",
        "category": None,
        "kind": "operator",
        "style": "push/pop",
        "process": 1,
        "thread": 1,
        "end_thread": 1,
        "step": 3,
        "depth": 2,
        "start_ns": 10,
        "end_ns": 30,
        "duration_ns": 20,
        "self_ns": 20,
        "gpu_ns": 50,
        "inferred_gpu_ns": None,
        "kernels": 1,
        "gpu_launches": 1,
        "unfinished": False,
        "crossing": False,
        "path": "step / forward / aten::mm",
        "attributes": "seq = 5",
        "payload": "2.5",
    }
    step, forward, _, request = rows
    assert (step["gpu_ns"], step["kernels"], step["gpu_launches"], step["payload"]) == (
        80,
        1,
        2,
        "3",
    )
    assert (step["self_ns"], forward["self_ns"]) == (40, 40)
    assert (forward["inferred_gpu_ns"], step["inferred_gpu_ns"]) == (0, None)
    assert (request["style"], request["depth"], request["end_thread"]) == ("start/end", None, 2)
    assert request["gpu_ns"] == 30


def test_marks_only_where_asked_for():
    trace = small().trace()
    rows = trace.ranges_report(marks=True)["ranges"].rows()
    (mark,) = [row for row in rows if row["style"] == "mark"]
    assert (mark["name"], mark["duration_ns"], mark["gpu_ns"]) == ("epoch", 0, None)
    assert len(rows) == len(trace.ranges_report()["ranges"]) + 1


def test_what_a_trace_holds():
    info = small().trace().info()
    contents = {row["kind"]: row["rows"] for row in info["contents"]}
    assert contents == {
        "push/pop ranges": 3,
        "start/end ranges": 1,
        "marks": 1,
        "CUDA calls": 2,
        "kernels": 1,
        "memory copies": 1,
        "memory sets": 0,
        "CUDA graph runs": None,
        "counter samples": None,
    }
    assert [(row["pid"], row["threads"], row["ranges"]) for row in info["processes"]] == [(1, 2, 5)]
    kinds = {row["kind"]: row["ranges"] for row in info["kinds"]}
    assert kinds == {"user": 2, "step": 1, "forward": 1, "operator": 1}
    assert [(row["domain"], row["ranges"]) for row in info["domains"]] == [
        ("nvtrace", 2),
        ("(default)", 3),
    ]


def all_reports(trace):
    yield trace.summary(VIEWS)
    yield trace.summary("operator", op_detail=True)
    yield trace.summary("operator", thread_sep=True)
    yield trace.ranges_report(marks=True)
    yield trace.info()


EMPTY = {
    "nothing recorded": Capture(recorded=Recorded()),
    "nothing happened": Capture(),
    "ranges only": Capture(recorded=Recorded(ranges=True), ranges=small().ranges),
    "calls only": Capture(recorded=Recorded(calls=True), calls=small().calls),
    "device only": Capture(recorded=Recorded(kernels=True), work=small().work),
    "no length": Capture(ranges=[one._replace(end=one.start) for one in small().ranges[:1]]),
}


@pytest.mark.parametrize("capture", EMPTY.values(), ids=EMPTY)
def test_empty_and_partial_traces_print(capture):
    for report in all_reports(capture.trace()):
        assert str(report)
        text = json.dumps(report.to_dict(), allow_nan=False)
        assert "Infinity" not in text
        for key in report:
            assert len(key) or key.empty


def test_what_was_not_recorded_is_null():
    rows = EMPTY["ranges only"].trace().summary("user_defined")["user_defined"].rows()
    assert {row["gpu_total_ns"] for row in rows} == {row["kernels"] for row in rows} == {None}
    report = EMPTY["ranges only"].trace().summary(["model", "operator"])
    assert report.totals["gpu_ns"] is None
    assert {row["gpu_total_ns"] for table in report for row in table} == {None}
    assert "GPU time: not recorded" in report.headline


def test_what_was_recorded_and_is_none_is_zero():
    capture = Capture()
    capture.range("idle", 0, 10)
    report = capture.trace().summary("user_defined")
    (row,) = report["user_defined"].rows()
    assert (row["gpu_total_ns"], row["kernels"], report.totals["gpu_ns"]) == (0, 0, 0)


@pytest.mark.parametrize("seed", range(40))
def test_every_answer_is_finite_and_every_share_at_most_whole(seed):
    trace = random_capture(seed).trace()
    for report in all_reports(trace):
        json.dumps(report.to_dict(), allow_nan=False)
        totals = report.totals
        assert totals["gpu_ns"] == sum(
            totals[f"{how}_gpu_ns"] for how in ("attributed", "inferred", "unattributed")
        )
        for table in report:
            for column in table.columns:
                if column.unit.value == "%":
                    shares = [value for value in column.to_list() if value is not None]
                    assert all(0 <= value <= 100 + 1e-9 for value in shares), table.key


@pytest.mark.parametrize("seed", range(15))
def test_order_never_changes_what_is_counted(seed):
    trace = random_capture(seed).trace()
    views = ("kernel", "memory", "operator", "user_defined", "kernels_by_range")

    def content(sorted_by):
        report = trace.summary(views, sorted_by=sorted_by)
        return [sorted(map(repr, table.rows())) for table in report]

    first = content("gpu_total")
    assert all(content(key) == first for key in SORT_KEYS)


@pytest.mark.parametrize("seed", range(15))
def test_order_is_by_the_figure_asked_for(seed):
    trace = random_capture(seed).trace()
    for key in SORT_KEYS:
        rows = trace.summary("user_defined", sorted_by=key)["user_defined"].rows()
        rows = [row for row in rows if row["name"] != "unattributed"]
        if key in ("name", "calls"):
            values = [row[key] for row in rows]
        else:
            values = [row[f"{key}_ns"] for row in rows if row[f"{key}_ns"] is not None]
        rising = key == "name" or key.endswith("min")
        assert values == sorted(values, reverse=not rising)


@pytest.mark.parametrize("seed", range(15))
def test_steps_one_by_one_add_up_to_the_steps_together(seed):
    trace = random_capture(seed).trace()
    numbers = sorted(set(trace.explain().step_numbers.tolist()))
    if not numbers:
        return
    together = trace.summary(("model", "kernel"), steps=(None, None))
    alone = [trace.summary(("model", "kernel"), steps=(n, n + 1)) for n in numbers]
    unlaunched = (trace.explain().device_call < 0) & (trace.device["kind"] == DeviceKind.KERNEL)
    if unlaunched.any():
        return
    assert sum(r.totals["gpu_ns"] for r in alone) == together.totals["gpu_ns"]
    assert sum(r["kernel"]["calls"].sum() for r in alone) == together["kernel"]["calls"].sum()
    assert sum(r["model"]["cpu_total_ns"][0] for r in alone) == together["model"]["cpu_total_ns"][0]


def test_the_tables_cannot_be_changed():
    trace = small().trace()
    for table in (trace.ranges, trace.calls, trace.device, trace.threads):
        with pytest.raises(ValueError, match="read-only"):
            table["start" if "start" in table else "tid"][0] = 1


def test_a_trace_says_what_it_is():
    assert (
        repr(small().trace()) == "<Trace of made.sqlite: 5 ranges, 2 CUDA calls, 2 device events>"
    )


def test_columns_are_numpy():
    trace = small().trace()
    assert (trace.ranges["end"] - trace.ranges["start"]).dtype == np.int64
