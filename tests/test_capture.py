"""A window as a trace: ranges of this process with GPU work that was collected beside them.

The GPU work is written by hand in the columns a collector hands over; what must come of it is
worked out by hand.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capturing import codes, listed, nothing_left, profiler, steps

import nvtrace
from nvtrace import Profiler, ProfilerTarget, Trace, make_scheduler
from nvtrace.capture import build
from nvtrace.clipping import clip
from nvtrace.emit.recording import RecordedThread, Recording
from nvtrace.errors import NvtraceError
from nvtrace.model.schema import DeviceKind
from nvtrace.model.strings import Strings
from nvtrace.model.trace import Device, Note
from nvtrace.sources import cupti
from nvtrace.sources.cupti import Activity

BASE = 1_700_000_000_000_000_000  # Unix ns
TID = 77


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    with nothing_left():
        yield


def activity(
    calls: list[tuple[int, int, int, int]],
    work: list[tuple[int, int, int, DeviceKind]],
    **facts: Any,
) -> Activity:
    """Calls as (start, end, thread, correlation), work as (start, end, correlation, kind)."""
    strings = Strings(["cudaLaunchKernel", "void gemm<float>(int)", "gemm", "[CUDA memcpy HtoD]"])

    def column(rows: list[Any], place: int, dtype: Any = np.int64) -> Any:
        return np.array([row[place] for row in rows], dtype)

    kinds = column(work, 3, np.uint8)
    kernel = kinds == DeviceKind.KERNEL
    rows = len(work)
    details = {name: np.arange(kernel.sum(), dtype=np.int32) + n for n, name in enumerate(SHAPE)}
    given: dict[str, Any] = {
        "calls": {
            "start": column(calls, 0) + BASE,
            "end": column(calls, 1) + BASE,
            "name": np.zeros(len(calls), np.int32),
            "thread_id": column(calls, 2),
            "correlation": column(calls, 3),
            "domain": np.full(len(calls), 2, np.uint8),
        },
        "device": {
            "start": column(work, 0) + BASE,
            "end": column(work, 1) + BASE,
            "name": np.where(kernel, 1, 3).astype(np.int32),
            "short_name": np.where(kernel, 2, 3).astype(np.int32),
            "kind": kinds,
            "device": np.zeros(rows, np.int32),
            "context": np.ones(rows, np.int64),
            "stream": np.full(rows, 7, np.int64),
            "correlation": column(work, 2),
            "bytes": np.where(kernel, -1, 4096),
            "copy_kind": np.where(kernel, 0, 1).astype(np.uint8),
            "graph_node": np.zeros(rows, np.uint64),
        },
        "details": {"row": np.flatnonzero(kernel).astype(np.int32), **details},
        "overhead": {},
        "synchronizations": {},
        "strings": strings,
        "devices": (Device(0, name="NVIDIA H200", uuid="GPU-1"),),
        "kinds": frozenset(("runtime", "kernel", "memcpy", "memset")),
        "graph_level": False,
        "lost_span": None,
        "clock": None,
        "notes": (),
    }
    for name in Activity.__dataclass_fields__:
        given.setdefault(name, 0)
    return Activity(**{**given, **facts})


SHAPE = (
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
    *("registers", "static_shared", "dynamic_shared"),
)
KERNEL, MEMCPY = DeviceKind.KERNEL, DeviceKind.MEMCPY


def recording(*events: int, tid: int = TID, end: int = 10_000) -> Recording:
    """Events as (label, time), times from BASE; label 0 is ``forward``, 1 ``layer``."""
    flat = array("q", [v + BASE if n % 2 else v for n, v in enumerate(events)])
    return Recording(
        labels=[
            ("forward", "nvtrace", "forward", 0xFF76B900, None, type(None)),
            ("layer", "nvtrace", "module", 0xFF76B900, 3, int),
        ],
        threads=[RecordedThread(tid, "trainer", flat, BASE + end)],
        start_ns=BASE,
        end_ns=BASE + end,
    )


def test_gpu_work_finds_the_range_that_launched_it() -> None:
    trace = build(
        recording(0, 100, 1, 200, ~1, 500, ~0, 900),
        activity(
            [(250, 260, TID, 1), (600, 610, TID, 2), (950, 960, TID, 3)],
            # in no order, and long after the ranges: launched in layer, in forward, in none
            [(3000, 3007, 3, KERNEL), (1000, 1100, 1, KERNEL), (2000, 2030, 2, MEMCPY)],
        ),
    )
    rows = {row["name"]: row for row in listed(trace)}
    assert (rows["layer"]["gpu_ns"], rows["layer"]["kernels"]) == (100, 1)
    assert (rows["forward"]["gpu_ns"], rows["forward"]["kernels"]) == (130, 1)
    assert rows["layer"]["depth"] == 1
    assert rows["layer"]["payload"] == "3"
    assert trace.summary().facts()["totals"] | {"window_ns": 0} == {
        "gpu_ns": 137,
        "attributed_gpu_ns": 130,
        "inferred_gpu_ns": 0,
        "unattributed_gpu_ns": 7,
        "steps": 0,
        "window_ns": 0,
    }
    # sorted by start, and the launch shapes with their kernels: 1 is at 1000, 0 at 3000
    assert trace.device["start"].tolist() == [900, 1900, 2900]
    assert trace.kernel_details["row"].tolist() == [0, 2]
    assert trace.kernel_details["grid_x"].tolist() == [1, 0]
    (device,) = trace.summary("device")["device"].rows()
    assert (device["name"], device["busy_ns"]) == ("NVIDIA H200", 137)
    assert trace.origin_unix_ns == BASE + 100


def test_who_recorded_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "5")
    trace = build(recording(0, 100, ~0, 200), None)
    (process,) = trace.processes
    assert (process.pid, process.rank) == (os.getpid(), 5)
    assert process.host == socket.gethostname()
    assert trace.threads["tid"].tolist() == [TID]
    assert trace.strings.take(trace.threads["name"]) == ["trainer"]
    assert trace.recorded.ranges
    assert not trace.recorded.device


def test_kinds_that_were_not_collected_are_not_zero() -> None:
    some = activity([(250, 260, TID, 1)], [(300, 400, 1, MEMCPY)], kinds=frozenset(["memcpy"]))
    trace = build(recording(0, 100, ~0, 900), some)
    assert (trace.recorded.kernels, trace.recorded.memcpy) == (False, True)


def test_an_empty_recording_is_a_trace() -> None:
    trace = build(Recording([], [], start_ns=BASE, end_ns=BASE + 5), activity([], []))
    assert trace.ranges.rows == trace.device.rows == 0
    assert trace.summary()


def test_clipping_to_the_window() -> None:
    """The window is 1000..2000; collectors run from before to after."""
    before = activity(
        [(10, 20, TID, 1), (30, 40, TID, 2), (1500, 1510, TID, 3), (2500, 2510, TID, 4)],
        [
            (50, 90, 1, KERNEL),  # done before the window
            (800, 1200, 2, KERNEL),  # launched before, running in it
            (2200, 2300, 3, MEMCPY),  # launched in it, running after
            (2600, 2700, 4, KERNEL),  # launched after
            (1900, 2700, 4, KERNEL),  # a clock's error cannot make it ours
        ],
    )
    clipped = clip(before, BASE + 1000, BASE + 2000)
    assert (clipped.calls["correlation"].tolist()) == [3]
    assert clipped.device["correlation"].tolist() == [2, 3]
    assert clipped.details["row"].tolist() == [0]
    assert clipped.details["grid_x"].tolist() == [1]  # that of the second kernel
    assert clip(clipped, BASE, BASE + 10**6) is clipped


class FakeCollector:
    """Hands over what the test says; a call and a kernel for each moment it was told."""

    moments: list[int] = []  # noqa: RUF012
    stopped = 0

    def start(self) -> None:
        type(self).moments = []

    def stop(self) -> Activity:
        type(self).stopped += 1
        tid = os.getpid()
        calls = [(t - BASE, t - BASE + 1, tid, n + 1) for n, t in enumerate(self.moments)]
        return activity(calls, [(start, start + 1, n, KERNEL) for start, _, _, n in calls])


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> type[FakeCollector]:
    monkeypatch.setattr(cupti, "Collector", FakeCollector)
    FakeCollector.stopped = 0
    return FakeCollector


def test_a_profiler_with_a_collector(collector: type[FakeCollector]) -> None:
    """One launch a step: READY's is not in the window, those of two recorded steps are."""
    traces: list[Trace | None] = []
    prof = Profiler(
        adapters=None,
        scheduler=make_scheduler(closed=1, ready=1, record=2, repeat=2),
        on_trace_ready=lambda p: traces.append(p.trace),
    )
    with prof:
        for _ in range(9):
            with nvtrace.phase("forward"):
                collector.moments.append(time.time_ns())
            prof.step()
    assert [steps(trace) for trace in traces] == [[2, 3], [6, 7]]
    assert collector.stopped == 2
    for trace in traces:
        assert trace is not None
        assert trace.calls.rows == trace.device.rows == 2
        assert [r["kernels"] for r in listed(trace) if r["name"] == "forward"] == [1, 1]
        assert "gpu_not_recorded" not in codes(trace)


def test_a_collector_that_fails_at_the_end_costs_no_range(
    collector: type[FakeCollector], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: FakeCollector) -> Activity:
        raise NvtraceError("CUPTI did not give its buffers back")

    monkeypatch.setattr(collector, "stop", broken)
    with Profiler(adapters=None) as prof:
        with nvtrace.range("work"):
            pass
        prof.step()
    assert [row["name"] for row in listed(prof.trace)] == ["ProfileStep", "work"]
    assert prof.trace is not None
    assert Note("gpu_not_recorded", "CUPTI did not give its buffers back") in prof.trace.notes


def test_a_collector_is_left_to_the_parent_after_a_fork(collector: type[FakeCollector]) -> None:
    with Profiler(adapters=None):
        pid = os.fork()
        if not pid:
            os._exit(collector.stopped)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert collector.stopped == 1


def test_without_the_gpu_as_a_target_no_collector_starts(
    collector: type[FakeCollector], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "start", lambda _: pytest.fail("started"))
    with profiler(targets=[ProfilerTarget.CPU]) as prof:
        prof.step()
    assert collector.stopped == 0
    assert "gpu_not_recorded" in codes(prof.trace)


KEYS = ("name", "domain", "kind", "style", "depth", "payload", "step")
NSYS_PROGRAM = """
import asyncio, sys, threading
import nvtrace
from nvtrace import Profiler, ProfilerTarget

@nvtrace.range(category="operator")
def operator(depth):
    if depth:
        operator(depth - 1)

async def task():
    async with nvtrace.range("task"):
        await asyncio.sleep(0)

@nvtrace.range("generator")
def generator():
    yield 1
    yield 2

async def tasks():
    await asyncio.gather(task(), task())

def loader():
    for number in range(3):
        with nvtrace.range("fetch", payload=number, domain="io"):
            pass

prof = Profiler(targets=[ProfilerTarget.CPU], adapters=None)
with prof:
    for number in range(4):
        with nvtrace.phase("forward"), nvtrace.range("layer", payload=0.5):
            operator(2)
        event = nvtrace.RecordEvent("copy", "Communication")
        event.begin()
        nvtrace.mark("loss")
        list(generator())
        event.end()
        prof.step()
    asyncio.run(tasks())
    thread = threading.Thread(target=loader, name="loader")
    thread.start()
    thread.join()
    prof.step()
prof.trace.save("own.sqlite")
"""


def test_nsys_sees_the_same_ranges(
    nsys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run, recorded by the real nsys and in the process."""
    (tmp_path / "program.py").write_text(NSYS_PROGRAM)
    record = [nsys, "profile", "-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-o", "theirs"]
    subprocess.run([*record, sys.executable, "program.py"], cwd=tmp_path, check=True, timeout=900)
    monkeypatch.setenv("NVTRACE_NSYS", str(nsys))
    seen = []
    for name in ("theirs.nsys-rep", "own.sqlite"):
        trace = nvtrace.load(tmp_path / name)
        explained = trace.explain()
        parents = explained.range_parent.tolist()
        texts = trace.strings.take(trace.ranges["name"])
        seen.append(
            sorted(
                (*(str(row[key]) for key in KEYS), texts[parent] if parent >= 0 else "")
                for row, parent in zip(listed(trace), parents, strict=True)
            )
        )
    theirs, own = seen
    # what nvtrace keeps no record of, and NVTX cannot take back: the step that never ended
    last = max(row for row in theirs if row[0] == "ProfileStep")
    theirs.remove(last)
    assert own == theirs
    counts = {name: sum(row[0] == name for row in own) for name in ("operator", "fetch", "task")}
    assert counts == {"operator": 12, "fetch": 3, "task": 2}
