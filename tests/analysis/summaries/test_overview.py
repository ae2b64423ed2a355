"""Overview and Device views: unions, cut to the window."""

from __future__ import annotations

import numpy as np
import pytest
from builders import MARK, Capture
from hypothesis import given
from hypothesis import strategies as st
from oracle import Oracle, ns, random_capture

from nvtrace.analysis.events import Events
from nvtrace.model.merging import merge
from nvtrace.model.schema import DeviceKind
from nvtrace.model.trace import Recorded
from nvtrace.trace import Trace

NAMES = {
    "user": "UserDefined",
    "operator_inner": "OperatorInner",
    **{
        kind: kind.capitalize()
        for kind in (
            *("dataloader", "forward", "backward", "optimization"),
            *("communication", "operator", "module"),
        )
    },
}


def overview(capture: Capture, **selection) -> dict[tuple[str, str], tuple]:
    table = capture.trace().summary("overview", **selection)["overview"]
    return {
        (row["side"], row["event_type"]): (row["calls"], row["time_ns"], row["ratio"])
        for row in table
    }


def window_of(truth: Oracle) -> set[int]:
    everything = [*truth.ranges, *truth.calls, *truth.work]
    if truth.steps:
        return ns(truth.ranges[row] for row in truth.steps)
    if not everything:
        return set()
    return set(range(min(e.start for e in everything), max(e.end for e in everything)))


times = st.integers(0, 30)


@given(st.lists(st.tuples(times, st.integers(0, 9))), st.lists(times, max_size=8, unique=True))
def test_intervals_that_share_time_with_a_window(rows, edges):
    edges = sorted(edges)[: len(edges) // 2 * 2]
    window = list(zip(edges[::2], edges[1::2], strict=True))
    count = sum(
        any(
            (start < last and end > first) or first <= start == end <= last
            for first, last in window
        )
        for start, end in ((start, start + length) for start, length in rows)
    )
    start, length = np.array(sorted(rows), np.int64).reshape(-1, 2).T
    sides = np.array(window, np.int64).reshape(-1, 2).T
    events = Events([], [lambda: (start, start + length)])
    assert events.calls((sides[0], sides[1])) == count


@pytest.mark.parametrize("block", range(4))
def test_random_captures(block):
    for seed in range(block, 240, 4):
        capture = random_capture(seed)
        truth, rows = Oracle(capture), overview(capture)
        window = window_of(truth)

        mine = {
            ("cpu", name): [r for r in truth.ranges if r.category == kind and r.style != MARK]
            for kind, name in NAMES.items()
        }
        expected = {name: events for name, events in mine.items() if events}
        expected["cpu", "CudaRuntime"] = truth.calls
        for kind in (DeviceKind.KERNEL, DeviceKind.MEMCPY, DeviceKind.MEMSET):
            expected["gpu", kind.name.capitalize()] = [w for w in truth.work if w.kind == kind]
        for name, events in expected.items():
            time = len(ns(events) & window)
            share = 100 * time / len(window) if window else 0
            assert rows[name][1:] == (time, pytest.approx(share)), (seed, name)
        assert not (mine.keys() - expected.keys()) & rows.keys()
        devices = capture.trace().summary("device")["device"]
        busy = {row["uuid"]: row["busy_ns"] for row in devices if row["device"].startswith("GPU")}
        for uuid in set(capture.uuids.values()):
            mine = [w for w in truth.work if capture.uuids[w.pid, w.device] == uuid]
            assert busy.get(uuid, 0) == len(ns(mine) & window), seed


def test_overlapping_events_of_a_type_count_once():
    capture = Capture()
    capture.range("a", 0, 60)
    capture.range("b", 10, 70, tid=2)
    capture.range("c", 80, 100, pid=2)
    capture.launch(10, 20, 30, at=40)
    capture.launch(15, 25, 30, at=60)
    rows = overview(capture)
    assert rows["cpu", "Window"] == (None, 100, 100.0)
    assert rows["cpu", "UserDefined"] == (3, 90, 90.0)
    assert rows["cpu", "CudaRuntime"] == (2, 15, 15.0)
    assert rows["gpu", "Kernel"] == (2, 50, 50.0)
    assert rows["gpu", "Memcpy"] == (0, 0, 0.0)


def test_only_what_shares_time_with_the_steps_is_a_call():
    capture = Capture()
    capture.step(0, 100, 200)
    for start, end in ((50, 100), (50, 101), (150, 150), (199, 250), (200, 250)):
        capture.range("work", start, end, tid=start + end)
    assert overview(capture)["cpu", "UserDefined"] == (3, 2, 2.0)


def test_steps_of_ranks_that_overlap_are_one_window():
    capture = Capture()
    for pid in (1, 2):
        capture.step(0, pid * 10, pid * 10 + 100, pid=pid)
        capture.phase("forward", pid * 10, pid * 10 + 50, pid=pid)
    rows = overview(capture)
    assert rows["cpu", "ProfileStep"] == (2, 110, 100.0)
    assert rows["cpu", "Forward"] == (2, 60, pytest.approx(100 * 60 / 110))


def test_a_kind_that_was_not_recorded_is_not_zero():
    capture = Capture(recorded=Recorded(ranges=True, calls=True, kernels=True))
    capture.range("a", 0, 100)
    rows = overview(capture)
    assert rows["gpu", "Kernel"] == (0, 0, 0.0)
    assert rows["gpu", "Memcpy"] == rows["gpu", "Memset"] == (None, None, None)
    assert ("gpu", "Graph") not in rows


def test_a_trace_of_nothing():
    assert overview(Capture(recorded=Recorded())) == {
        ("cpu", "Window"): (None, 0, 0.0),
        **{("gpu", name): (None, None, None) for name in ("Kernel", "Memcpy", "Memset")},
    }


def test_gpus_are_told_apart_by_hardware_not_by_number():
    # Device 0 of process 2 is device 1 of process 1; device 0 of process 3 is nobody knows what.
    capture = Capture(uuids={(1, 0): "GPU-a", (1, 1): "GPU-b", (2, 0): "GPU-b"})
    capture.run(0, 100, pid=1, device=0)
    capture.run(0, 50, pid=1, device=1)
    capture.run(25, 75, pid=2, device=0)
    capture.run(0, 10, pid=3, device=0)
    report = capture.trace().summary("device")
    rows = [row for row in report["device"] if row["device"].startswith("GPU")]
    assert [(row["uuid"], row["busy_ns"], row["utilization"]) for row in rows] == [
        ("GPU-a", 100, 100.0),
        ("GPU-b", 75, 75.0),
        (None, 10, 10.0),
    ]
    assert len({row["device"] for row in rows}) == 3
    assert "unknown_device" in {note["code"] for note in report.notes}


def test_labels_tell_devices_apart():
    capture = Capture(uuids={(1, 0): "a", (2, 0): "b", (1, 1): "c"})
    for pid, device in ((1, 0), (2, 0), (1, 1)):
        capture.run(0, 10, pid=pid, device=device)
    rows = capture.trace().summary("device")["device"].rows()
    labels = [row["device"] for row in rows if row["device"].startswith("GPU")]
    assert labels == ["GPU0 (pid 1)", "GPU0 (pid 2)", "GPU1"]
    # one process, two devices of one number: its device 0 was another GPU in another capture
    capture = Capture(uuids={(1, 0): "a"})
    capture.run(0, 10)
    other = Capture(uuids={(1, 0): "b"})
    other.run(0, 10)
    both = Trace.of(merge([capture.trace(), other.trace()]))
    labels = [row["device"] for row in both.summary("device")["device"]]
    assert [label for label in labels if label.startswith("GPU")] == [
        "GPU0 (pid 1) [a]",
        "GPU0 (pid 1) [b]",
    ]
