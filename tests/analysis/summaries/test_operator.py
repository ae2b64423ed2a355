"""Operator view: totals with what is inside, recursion once; self without it."""

from __future__ import annotations

from collections import defaultdict

import pytest
from builders import Capture
from oracle import Oracle, ns, random_capture

from nvtrace.model.schema import RangeStyle


def rows(capture: Capture, **options) -> list[dict]:
    return capture.trace().summary("operator", **options)["operator"].rows()


def named(capture: Capture, *keys: str, **options) -> dict[str, tuple]:
    return {row["name"]: tuple(row[key] for key in keys) for row in rows(capture, **options)}


def op(capture: Capture, name: str, start: int, end: int, **facts) -> None:
    capture.phase("operator", start, end, name=name, **facts)


def expected(capture: Capture) -> dict[str, tuple]:
    """Calls, CPU and GPU total of each name: what lies in its own name is counted there."""
    truth = Oracle(capture)
    found = defaultdict(lambda: [0, 0, 0])
    operators = [
        (row, one)
        for row, one in enumerate(truth.ranges)
        if one.category == "operator" and one.style != RangeStyle.MARK
    ]
    for row, one in operators:
        inside = any(
            other.name == one.name
            and (other.pid, other.tid) == (one.pid, one.tid)
            and place < row
            and other.end >= one.end
            for place, other in operators
        )
        total = found[one.name]
        total[0] += 1
        if one.style == RangeStyle.START_END or not inside:
            total[1] += one.end - one.start
            total[2] += truth.gpu(row)[0]
    return {name: tuple(total) for name, total in found.items()}


def test_an_operator_inside_another_and_inside_what_crosses_it():
    capture = Capture()
    op(capture, "outer", 0, 60)
    capture.range("across", 40, 100)
    op(capture, "inner", 50, 55)
    assert named(capture, "cpu_total_ns", "cpu_self_ns") == {"outer": (60, 55), "inner": (5, 5)}


@pytest.mark.parametrize("block", range(4))
def test_random_captures(block):
    for seed in range(block, 240, 4):
        capture = random_capture(seed)
        found = named(capture, "calls", "cpu_total_ns", "gpu_total_ns")
        assert found == expected(capture), seed
        truth = Oracle(capture)
        operators = [
            one
            for one in truth.ranges
            if one.category == "operator" and one.style == RangeStyle.PUSH_POP
        ]
        others = [
            one
            for one in truth.ranges
            if one.category == "operator" and one.style == RangeStyle.START_END
        ]
        crossing = any(truth.crosses(row) for row in range(len(truth.ranges)))
        if not crossing:
            threads = {(one.pid, one.tid) for one in operators}
            union = sum(len(ns(o for o in operators if (o.pid, o.tid) == t)) for t in threads)
            union += sum(one.end - one.start for one in others)
            assert sum(row["cpu_self_ns"] for row in rows(capture)) == union, seed


def conv() -> Capture:
    """Operators in operators: conv2d > convolution > _convolution, which launches 100 ns."""
    capture = Capture()
    op(capture, "aten::conv2d", 0, 100)
    op(capture, "aten::convolution", 10, 90)
    capture.range("a user's", 15, 85)
    op(capture, "aten::_convolution", 20, 80)
    capture.launch(30, 40, 100, name="conv_kernel")
    op(capture, "aten::relu", 100, 120)
    capture.launch(105, 110, 25, name="relu_kernel")
    return capture


def test_nested_operators_are_not_counted_again():
    keys = ("calls", "cpu_total_ns", "cpu_self_ns", "cpu_ratio", "gpu_total_ns", "gpu_self_ns")
    assert named(conv(), *keys, "gpu_ratio") == {
        "aten::conv2d": (1, 100, 20, pytest.approx(100 / 120 * 100), 100, 0, 80.0),
        "aten::convolution": (1, 80, 20, pytest.approx(80 / 120 * 100), 100, 0, 80.0),
        "aten::_convolution": (1, 60, 60, 50.0, 100, 100, 80.0),
        "aten::relu": (1, 20, 20, pytest.approx(20 / 120 * 100), 25, 25, 20.0),
    }


def test_recursion_counts_once_and_calls_each():
    capture = Capture()
    for depth in range(5):
        op(capture, "aten::f", depth * 10, 100 - depth * 10)
    capture.launch(45, 46, 7)
    found = named(capture, "calls", "cpu_total_ns", "cpu_self_ns", "cpu_max_ns", "gpu_total_ns")
    assert found == {"aten::f": (5, 100, 100, 100, 7)}
    assert named(capture, "cpu_avg_ns", "gpu_self_ns") == {
        "aten::f": ((100 + 80 + 60 + 40 + 20) / 5, 7)
    }


def test_names_without_their_ids_are_one():
    capture = Capture()
    for place in range(3):
        capture.range(f"aten::mm, seq = {place}, op_id = {place}", place * 10, place * 10 + 5)
    assert named(capture, "calls") == {"aten::mm": (3,)}


def test_threads_apart():
    capture = Capture()
    op(capture, "aten::mm", 0, 10)
    op(capture, "aten::mm", 0, 30, tid=2)
    op(capture, "MmBackward0", 40, 50, tid=2)
    assert named(capture, "calls", "cpu_total_ns") == {
        "aten::mm": (2, 40),
        "MmBackward0": (1, 10),
    }
    found = [
        (row["thread"], row["name"], row["cpu_total_ns"])
        for row in rows(capture, thread_sep=True, sorted_by="cpu_total")
    ]
    assert found == [("1", "aten::mm", 10), ("2", "aten::mm", 30), ("2", "MmBackward0", 10)]


def test_details_hold_inner_phases_and_their_kernels():
    capture = Capture()
    op(capture, "relu dygraph", 0, 100)
    capture.phase("operator_inner", 10, 20, name="relu infer_meta")
    capture.phase("operator_inner", 30, 80, name="relu kernel launch")
    capture.launch(40, 50, 60, name="relu_kernel")
    capture.launch(55, 60, 20, name="relu_kernel")
    capture.launch(90, 95, 20, name="fill")
    found = [
        (row["depth"], row["name"], row["calls"], row["cpu_total_ns"], row["gpu_total_ns"])
        for row in rows(capture, op_detail=True)
    ]
    assert found == [
        (0, "relu dygraph", 1, 100, 100),
        (1, "relu kernel launch", 1, 50, 80),
        (2, "relu_kernel", 2, None, 80),
        (1, "relu infer_meta", 1, 10, 0),
        (1, "fill", 1, None, 20),
    ]
    ratios = {
        row["name"]: (row["cpu_ratio"], row["gpu_ratio"]) for row in rows(capture, op_detail=True)
    }
    assert ratios == {
        "relu dygraph": (100.0, 100.0),
        "relu kernel launch": (50.0, 80.0),
        "relu_kernel": (None, 100.0),
        "relu infer_meta": (10.0, 0.0),
        "fill": (None, 20.0),
    }


@pytest.mark.parametrize("options", [{}, {"op_detail": True}, {"thread_sep": True}])
def test_shares_stay_in_bounds(options):
    for seed in range(100):
        for row in rows(random_capture(seed), **options):
            for side in ("cpu", "gpu"):
                assert row[f"{side}_ratio"] is None or 0 <= row[f"{side}_ratio"] <= 100
                assert row[f"{side}_self_ns"] is None or row[f"{side}_self_ns"] >= 0


@pytest.mark.parametrize(
    ("sorted_by", "order"),
    [
        ("cpu_total", ["conv2d", "convolution", "_convolution", "relu"]),
        ("cpu_min", ["relu", "_convolution", "convolution", "conv2d"]),
        ("name", ["_convolution", "conv2d", "convolution", "relu"]),
    ],
)
def test_order(sorted_by, order):
    found = [row["name"].removeprefix("aten::") for row in rows(conv(), sorted_by=sorted_by)]
    assert found == order


def test_without_operators_the_table_says_what_to_do():
    capture = Capture()
    capture.range("load", 0, 10)
    table = capture.trace().summary("operator")["operator"]
    assert len(table) == 0
    assert "emit_nvtx" in table.empty


def test_an_inner_phase_around_an_operator_does_not_take_its_kernels():
    capture = Capture()
    op(capture, "outer", 0, 100)
    capture.phase("operator_inner", 10, 90, name="outer compute")
    op(capture, "nested", 20, 80)
    capture.launch(30, 40, 7, name="kernel")
    found = {(row["depth"], row["name"]): row for row in rows(capture, op_detail=True)}
    assert set(found) == {(0, "outer"), (1, "outer compute"), (0, "nested"), (1, "kernel")}
    assert found[1, "kernel"]["gpu_ratio"] == 100.0
