"""UserDefined view, and kernels by range."""

from __future__ import annotations

from collections import defaultdict

import pytest
from builders import START_END, Capture, Range
from oracle import PHASES, Oracle, ns, random_capture

from nvtrace.model.schema import DeviceKind, RangeStyle

USERS = ("user", "communication", "module")


def rows(capture: Capture, **options) -> list[dict]:
    return capture.trace().summary("user_defined", **options)["user_defined"].rows()


def named(capture: Capture, *keys: str, **options) -> dict[str, tuple]:
    return {row["name"]: tuple(row[key] for key in keys) for row in rows(capture, **options)}


def expected(capture: Capture) -> dict[tuple, tuple]:
    truth = Oracle(capture)
    found = defaultdict(lambda: [0, 0, 0, 0])

    def key(one: Range) -> tuple:
        style = "push/pop" if one.style == RangeStyle.PUSH_POP else "start/end"
        return one.name, one.domain, str(one.pid), style

    chosen = [
        (row, one)
        for row, one in enumerate(truth.ranges)
        if one.category in USERS and one.style != RangeStyle.MARK
    ]
    for row, one in chosen:
        inside = any(
            key(other) == key(one) and other.tid == one.tid and place < row and other.end >= one.end
            for place, other in chosen
        )
        total = found[key(one)]
        total[0] += 1
        total[2] += truth.self_ns(row)
        if one.style == RangeStyle.START_END or not inside:
            total[1] += one.end - one.start
            total[3] += truth.gpu(row)[0]
    # launched, and nothing of it recorded: not zero
    silent = {str(call.pid) for call in truth.calls} - {str(work.pid) for work in truth.work}
    return {
        name: (*total[:3], None if name[2] in silent else total[3]) for name, total in found.items()
    }


@pytest.mark.parametrize("block", range(4))
def test_random_captures(block):
    for seed in range(block, 240, 4):
        capture = random_capture(seed)
        found, unattributed = {}, 0
        for row in rows(capture):
            if row["name"] == "unattributed":
                unattributed = row["gpu_total_ns"]
                continue
            key = row["name"], row["domain"], row["process"], row["style"]
            found[key] = (
                *(row["calls"], row["cpu_total_ns"], row["cpu_self_ns"]),
                row["gpu_total_ns"],
            )
            assert row["cpu_ratio"] is None or 0 <= row["cpu_ratio"] <= 100
            assert row["gpu_ratio"] is None or 0 <= row["gpu_ratio"] <= 100
        assert found == expected(capture), seed
        truth = Oracle(capture)
        left = sum(w.end - w.start for w in truth.work if truth.how(w)[1] == 0)
        assert unattributed == left, seed


@pytest.mark.parametrize("seed", range(60))
def test_kernels_by_range_of_random_captures(seed):
    capture = random_capture(seed)
    truth = Oracle(capture)
    expected = defaultdict(lambda: [0, 0])
    for work in truth.work:
        if work.kind in (DeviceKind.KERNEL, DeviceKind.GRAPH):
            row, how = truth.how(work)
            path = " / ".join(truth.ranges[place].name for place in reversed(truth.above(row)))
            word = ("unattributed", "attributed", "inferred")[how]
            total = expected[str(work.pid), path or word, word, work.name]
            total[0] += 1
            total[1] += work.end - work.start
    table = capture.trace().summary("kernels_by_range")["kernels_by_range"]
    found = {
        (row["process"], row["range"], row["attribution"], row["kernel"]): [
            *(row["calls"], row["gpu_total_ns"])
        ]
        for row in table
    }
    assert found == dict(expected)


def test_self_and_total_of_nested_ranges():
    capture = Capture()
    capture.range("outer", 0, 100)
    capture.range("inner", 20, 60)
    capture.range("inner", 30, 50)
    capture.launch(35, 40, 5)
    capture.launch(70, 75, 50)
    keys = ("calls", "cpu_total_ns", "cpu_self_ns", "gpu_total_ns", "gpu_self_ns", "kernels")
    assert named(capture, *keys) == {
        "outer": (1, 100, 60, 55, 50, 2),
        "inner": (2, 40, 40, 5, 5, 1),
    }
    assert named(capture, "cpu_ratio", "gpu_ratio") == {
        "outer": (100.0, 100.0),
        "inner": (40.0, pytest.approx(100 * 5 / 55)),
    }


def test_occurrences_are_counted_by_process_and_domain():
    capture = Capture()
    for pid in (11, 12):
        for place in range(3):
            capture.range("sample_0", place * 10, place * 10 + pid, pid=pid)
    capture.range("sample_0", 100, 105, pid=11, domain="loader")
    found = {
        (row["process"], row["domain"]): (row["calls"], row["cpu_total_ns"])
        for row in rows(capture)
    }
    assert found == {
        # of 11 ns each, from 0, 10 and 20: they cross
        ("11", ""): (3, 33),
        ("12", ""): (3, 36),
        ("11", "loader"): (1, 5),
    }


def test_start_end_ranges_of_a_name_overlap_and_have_no_share():
    capture = Capture()
    capture.range("request", 0, 100, style=START_END)
    capture.range("request", 50, 150, style=START_END, end_tid=2)
    capture.range("request", 0, 10)
    found = {
        row["style"]: (row["calls"], row["cpu_total_ns"], row["cpu_ratio"]) for row in rows(capture)
    }
    assert found == {"start/end": (2, 200, None), "push/pop": (1, 10, 100.0)}


def test_what_crosses_adds_up_to_no_share():
    capture = Capture()
    capture.range("a", 0, 100)
    capture.range("a", 50, 150)
    assert named(capture, "calls", "cpu_total_ns", "cpu_ratio") == {"a": (2, 200, None)}


def test_guessed_steps_and_phases_are_users_ranges_too():
    capture = Capture()
    capture.range("step 1", 0, 100)
    capture.range("forward", 0, 50)
    capture.range("ProfilerStep#1", 0, 100, tid=2)
    for place, kind in enumerate(PHASES):
        capture.phase(kind, place, place + 1, tid=3)
    assert set(named(capture)) == {"step 1", "forward"}


def test_gpu_work_in_no_range_is_the_last_row():
    capture = Capture()
    capture.range("small", 0, 10)
    capture.launch(2, 3, 1)
    capture.launch(20, 30, 500)
    capture.copy(40, 41, 300, 4096, 1)
    capture.run(100, 200)
    found = rows(capture, sorted_by="gpu_total")
    assert [row["name"] for row in found] == ["small", "unattributed"]
    last = found[-1]
    assert (last["calls"], last["gpu_total_ns"], last["kernels"]) == (3, 900, 2)
    assert (last["cpu_total_ns"], last["gpu_ratio"]) == (None, pytest.approx(900 / 901 * 100))


def test_kernels_of_whole_graph_runs_are_not_known():
    capture = Capture()
    capture.range("replay", 0, 10)
    capture.range("eager", 10, 20)
    capture.launch(2, 3, 70, kind=DeviceKind.GRAPH, api="cudaGraphLaunch")
    capture.launch(12, 13, 5)
    assert named(capture, "gpu_total_ns", "kernels") == {"replay": (70, None), "eager": (5, 1)}
    table = capture.trace().ranges_report()["ranges"]
    assert [(row["name"], row["gpu_ns"], row["kernels"], row["gpu_launches"]) for row in table] == [
        ("replay", 70, None, 1),
        ("eager", 5, 1, 1),
    ]


def test_the_sum_of_self_is_the_union():
    capture = Capture()
    for start, end in ((0, 100), (10, 40), (20, 30), (50, 60), (200, 250), (210, 220)):
        capture.range(f"from {start}", start, end)
    assert sum(row["cpu_self_ns"] for row in rows(capture)) == len(ns(capture.ranges)) == 150
