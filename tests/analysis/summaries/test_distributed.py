"""Distributed view: communication, computation, and both at once."""

from __future__ import annotations

import pytest
from builders import Capture
from oracle import Oracle, ns, random_capture

from nvtrace.model.merging import merge
from nvtrace.model.schema import DeviceKind
from nvtrace.trace import Trace

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def table(capture: Capture, **selection) -> list[tuple]:
    rows = capture.trace().summary("distributed", **selection)["distributed"]
    return [(row["name"], row["device"], row["total_ns"], row["ratio"]) for row in rows]


def test_overlap_is_where_both_run_on_one_device():
    capture = Capture()
    capture.step(0, 0, 1_000)
    capture.run(100, 400, name="gemm", stream=7)
    capture.run(300, 700, name=NCCL, stream=20)
    capture.run(350, 380, name=NCCL, stream=21)
    capture.run(600, 650, name="gemm", stream=8)
    capture.run(0, 50, kind=DeviceKind.MEMCPY, name="copy")
    assert table(capture) == [
        ("ProfileStep", None, 1_000, 100.0),
        ("Communication", None, 400, 40.0),
        ("Computation", None, 350, 35.0),
        ("Overlap", None, 150, 15.0),
    ]


def test_work_on_another_device_does_not_hide_it():
    capture = Capture(uuids={(1, 0): "a", (2, 0): "b"})
    capture.range("all", 0, 100)
    capture.run(0, 50, name=NCCL)
    capture.run(0, 100, name="gemm", pid=2)
    assert table(capture) == [
        ("Window", None, 100, 100.0),
        ("Communication", None, 50, 25.0),
        ("Computation", None, 100, 50.0),
        ("Overlap", None, 0, 0.0),
        ("Communication", "GPU0 (pid 1)", 50, 50.0),
        ("Computation", "GPU0 (pid 1)", 0, 0.0),
        ("Overlap", "GPU0 (pid 1)", 0, 0.0),
        ("Communication", "GPU0 (pid 2)", 0, 0.0),
        ("Computation", "GPU0 (pid 2)", 100, 100.0),
        ("Overlap", "GPU0 (pid 2)", 0, 0.0),
    ]


def test_work_launched_in_a_range_of_communication_is_communication():
    capture = Capture()
    capture.range("c10d::allreduce_", 0, 20)
    capture.range("inside", 5, 18)
    capture.launch(6, 8, 30, at=50, name="custom kernel")
    capture.copy(10, 12, 20, 8, 8, at=80)
    capture.launch(30, 31, 40, at=60, name="gemm")
    assert table(capture) == [
        ("Window", None, 100, 100.0),
        ("Communication", None, 50, 50.0),
        ("Computation", None, 40, 40.0),
        ("Overlap", None, 40, 40.0),
    ]


def test_communication_on_the_host_alone():
    # gloo: no kernel at all; how much computation went on is not known
    capture = Capture()
    capture.range("gloo:all_reduce", 10, 60)
    capture.range("gloo:all_reduce", 40, 80, tid=2)
    capture.range("rest", 0, 100)
    assert table(capture) == [
        ("Window", None, 100, 100.0),
        ("Communication", None, 70, 70.0),
        ("Computation", None, None, None),
        ("Overlap", None, None, None),
    ]


def test_without_communication_there_is_no_table_and_a_reason():
    capture = Capture()
    capture.range("reduce_mean", 0, 100)
    capture.launch(10, 20, 30, name="reduce_kernel")
    empty = capture.trace().summary("distributed")["distributed"]
    assert len(empty) == 0
    assert "no communication found" in empty.empty


@pytest.mark.parametrize("seed", range(80))
def test_random_captures(seed):
    capture = random_capture(seed)
    truth = Oracle(capture)
    found = {(name, device): total for name, device, total, _ in table(capture)}
    if not found:
        return
    window = (
        ns(truth.ranges[row] for row in truth.steps)
        if truth.steps
        else set(range(*capture.trace().span))
    )
    totals = [0, 0, 0]
    communicating = set()
    for uuid in dict.fromkeys(capture.uuids.values()):
        talk, compute = [], []
        for work in truth.work:
            row, how = truth.how(work)
            around = how == 1 and truth.nearest(row, ["communication"]) >= 0
            if around or ("nccl" in work.name and work.kind == DeviceKind.KERNEL):
                communicating.add(work.pid)
            if capture.uuids[work.pid, work.device] != uuid:
                continue
            if around or ("nccl" in work.name and work.kind == DeviceKind.KERNEL):
                talk.append(work)
            elif work.kind == DeviceKind.KERNEL:
                compute.append(work)
        totals[0] += len(ns(talk) & window)
        totals[1] += len(ns(compute) & window)
        totals[2] += len(ns(talk) & ns(compute) & window)
    hosts = [one for one in truth.ranges if one.category == "communication" and one.style != 2]
    for pid in {one.pid for one in hosts} - communicating:
        totals[0] += len(ns(one for one in hosts if one.pid == pid) & window)
    assert found["Communication", None] == totals[0]
    if truth.work:
        assert (found["Computation", None], found["Overlap", None]) == tuple(totals[1:])


def test_a_rank_is_measured_on_its_own_devices():
    parts = []
    for rank in (0, 1):
        capture = Capture(origin=10**9, rank=rank, uuids={(1, 0): f"GPU-{rank}"})
        capture.step(0, 0, 100)
        capture.run(0, 40 + rank * 20, name=NCCL)
        parts.append(capture.trace())
    trace = Trace.of(merge(parts))
    report = trace.summary(["device", "distributed"], rank=1)
    gpus = [row for row in report["device"] if row["device"].startswith("GPU")]
    assert [(row["uuid"], row["utilization"]) for row in gpus] == [("GPU-1", 60.0)]
    ratios = {row["name"]: row["ratio"] for row in report["distributed"]}
    assert ratios == {
        "ProfileStep": 100.0,
        "Communication": 60.0,
        "Computation": 0.0,
        "Overlap": 0.0,
    }
    everyone = [row for row in trace.summary("device")["device"] if row["uuid"]]
    assert [row["utilization"] for row in everyone] == [40.0, 60.0]
