"""Kernel and Memory views."""

from __future__ import annotations

from collections import defaultdict

import pytest
from builders import Capture
from oracle import Oracle, random_capture

from nvtrace.model.schema import DeviceKind
from nvtrace.model.trace import Recorded

FIGURES = ("calls", "gpu_total_ns", "gpu_avg_ns", "gpu_max_ns", "gpu_min_ns")


def view(capture: Capture, key: str, **options) -> list[dict]:
    return capture.trace().summary(key, **options)[key].rows()


@pytest.mark.parametrize("seed", range(60))
def test_random_captures(seed):
    capture = random_capture(seed)
    truth = Oracle(capture)
    for key, kinds in (
        ("kernel", (DeviceKind.KERNEL, DeviceKind.GRAPH)),
        ("memory", (DeviceKind.MEMCPY, DeviceKind.MEMSET)),
    ):
        times, calls = defaultdict(list), defaultdict(set)
        for work in truth.work:
            if work.kind in kinds:
                times[work.name].append(work.end - work.start)
                calls[work.name].add(truth.call_of(work))
        whole = sum(map(sum, times.values()))
        found = {row["name"]: row for row in view(capture, key)}
        assert found.keys() == times.keys()
        for name, each in times.items():
            row = found[name]
            figures = [row[figure] for figure in FIGURES]
            assert figures == [
                *(len(each), sum(each), round(sum(each) / len(each)), max(each), min(each))
            ]
            assert row["gpu_ratio"] == pytest.approx(100 * sum(each) / whole if whole else 0)
            if key == "memory":
                known = [truth.calls[call] for call in calls[name] if call >= 0]
                time = sum(call.end - call.start for call in known)
                assert row["cpu_total_ns"] == (time if known else None)


def test_templates_of_one_short_name_are_two_kernels():
    capture = Capture()
    for template, time in (("gemm<float>", 10), ("gemm<half>", 5), ("gemm<float>", 20)):
        capture.launch(0, 1, time, name=template)
    rows = view(capture, "kernel")
    assert [(row["name"], row["short_name"], row["gpu_total_ns"]) for row in rows] == [
        ("gemm<float>", "gemm", 30),
        ("gemm<half>", "gemm", 5),
    ]


def test_copies_by_direction_with_bytes_and_bandwidth():
    capture = Capture()
    capture.copy(0, 10, 1_000, 4_000, 1)
    capture.copy(10, 15, 3_000, 12_000, 1)
    capture.copy(20, 21, 500, 1_000, 2)
    capture.launch(30, 33, 0, api="cudaMemsetAsync", kind=DeviceKind.MEMSET,
                   name="[CUDA memset]", bytes=64)  # fmt: skip
    rows = {row["name"]: row for row in view(capture, "memory")}
    up = rows["[CUDA memcpy Host-to-Device]"]
    assert (up["calls"], up["bytes"], up["cpu_total_ns"], up["gpu_total_ns"]) == (
        *(2, 16_000, 15, 4_000),
    )
    assert up["bandwidth_bytes_per_s"] == pytest.approx(4e9)
    down = rows["[CUDA memcpy Device-to-Host]"]
    assert (down["bytes"], down["bandwidth_bytes_per_s"]) == (1_000, pytest.approx(2e9))
    # no time, so no bandwidth, and nothing divided by zero
    assert rows["[CUDA memset]"]["bandwidth_bytes_per_s"] is None


def test_a_call_that_launched_several_copies_is_timed_once():
    capture = Capture()
    graph = capture.call(0, 50, name="cudaGraphLaunch")
    for at in (100, 200, 300):
        capture.run(at, at + 10, graph, kind=DeviceKind.MEMCPY, name="copy", bytes=8)
    (row,) = view(capture, "memory")
    assert (row["calls"], row["cpu_total_ns"], row["gpu_total_ns"]) == (3, 50, 30)


def test_sizes_that_were_not_recorded_are_not_zero():
    capture = Capture()
    capture.launch(0, 1, 10, kind=DeviceKind.MEMCPY, name="copy")
    capture.run(100, 110, kind=DeviceKind.MEMCPY, name="copy", bytes=8)
    capture.run(100, 110, kind=DeviceKind.MEMSET, name="set", bytes=8)
    rows = {row["name"]: row for row in view(capture, "memory")}
    assert (rows["copy"]["bytes"], rows["copy"]["bandwidth_bytes_per_s"]) == (None, None)
    assert (rows["set"]["bytes"], rows["set"]["cpu_total_ns"]) == (8, None)


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        (Recorded(), "was not recorded"),
        (Recorded(kernels=True), "there was none"),
    ],
)
def test_no_kernels(recorded, said):
    table = Capture(recorded=recorded).trace().summary("kernel")["kernel"]
    assert len(table) == 0
    assert said in table.empty


def test_nothing_in_the_selected_part():
    capture = Capture()
    capture.range("quiet", 0, 100)
    capture.launch(200, 201, 5)
    table = capture.trace().summary("kernel", time=(0, 100))["kernel"]
    assert len(table) == 0
    assert "selected part" in table.empty


@pytest.mark.parametrize(
    ("sorted_by", "order"),
    [
        ("gpu_total", "bca"),
        ("gpu_avg", "cab"),
        ("gpu_max", "cab"),
        ("gpu_min", "bac"),
        ("calls", "bac"),
        ("name", "abc"),
        ("cpu_total", "bca"),
    ],
)
def test_order(sorted_by, order):
    capture = Capture()
    for name, times in (("a", (10, 20)), ("b", (9, 9, 9, 19)), ("c", (44,))):
        for time in times:
            capture.launch(0, 1, time, name=name)
    assert "".join(row["name"] for row in view(capture, "kernel", sorted_by=sorted_by)) == order


def test_the_first_rows():
    capture = Capture()
    for place in range(5):
        capture.launch(0, 1, 10 - place, name=f"kernel {place}")
    assert [row["name"] for row in view(capture, "kernel", top=2)] == ["kernel 0", "kernel 1"]
