"""CPU time of the process, its children and the machine, against what the kernel says elsewhere."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time

import pytest
from capturing import profiler

from nvtrace import cpu_time
from nvtrace.cpu_time import CpuMeter
from nvtrace.model.trace import CpuUsage

BURN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass"


def busy(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def used() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime


def by_name(meter: CpuMeter) -> dict[str, CpuUsage]:
    return {usage.name: usage for usage in meter.usage()}


def test_the_process() -> None:
    start, before = time.perf_counter(), used()
    meter = CpuMeter()
    busy(0.3)
    found = by_name(meter)["CPU(Process)"]
    assert found.busy_ns / 1e9 == pytest.approx(used() - before, abs=0.05)
    assert found.busy_ns >= 0.3e9
    assert found.window_ns / 1e9 == pytest.approx(time.perf_counter() - start, abs=0.1)


def test_sleeping_is_no_cpu_time() -> None:
    meter = CpuMeter()
    time.sleep(0.3)
    assert by_name(meter)["CPU(Process)"].busy_ns < 0.15e9


GOING_ON = f"""
{BURN.format(0.4)}
print("before the window")
input()
{BURN.format(0.2)}
print("in the window")
input()
"""


def test_children_that_ended_and_that_go_on() -> None:
    """What a child used before the window is not of the window."""
    with subprocess.Popen(
        [sys.executable, "-uc", GOING_ON], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as going_on:
        assert going_on.stdin is not None
        assert going_on.stdout is not None
        assert going_on.stdout.readline() == "before the window\n"
        meter = CpuMeter()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", BURN.format(0.2)], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        going_on.stdin.write("\n")
        going_on.stdin.flush()
        assert going_on.stdout.readline() == "in the window\n"
        children = by_name(meter)["CPU(Children)"]
        going_on.stdin.write("\n")
    ended = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert children.busy_ns / 1e9 == pytest.approx(ended + 0.2, abs=0.1)


def test_no_children_no_row() -> None:
    meter = CpuMeter()
    time.sleep(0.25)
    assert set(by_name(meter)) == {"CPU(Process)", "CPU(System)"}


def test_the_machine() -> None:
    def proc_stat() -> tuple[float, float]:
        with open("/proc/stat") as file:
            user, nice, system, _, _, irq, softirq, *_ = map(int, file.readline().split()[1:])
        return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK"), time.monotonic()

    before, start = proc_stat()
    meter = CpuMeter()
    busy(0.4)
    found = by_name(meter)["CPU(System)"]
    after, end = proc_stat()
    assert found.busy_ns / 1e9 == pytest.approx(after - before, abs=0.15)
    assert found.busy_ns >= 0.3e9
    assert found.window_ns / 1e9 == pytest.approx((end - start) * (os.cpu_count() or 1), rel=0.2)
    assert found.busy_ns <= found.window_ns


def test_a_window_too_short_for_the_kernels_ticks() -> None:
    meter = CpuMeter()
    busy(0.02)
    (only,) = meter.usage()
    assert only.name == "CPU(Process)"
    assert 0.02e9 <= only.busy_ns < 0.1e9


def test_the_window_of_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work before and after the recorded steps is not counted."""
    monkeypatch.setattr(cpu_time, "_SHORTEST_NS", 10**18)
    with profiler(scheduler=(1, 2)) as prof:
        busy(0.2)
        prof.step()
        busy(0.1)
        prof.step()
        busy(0.2)
    assert prof.trace is not None
    (usage,) = prof.trace.cpu
    assert 0.1e9 <= usage.busy_ns < 0.2e9
    (row,) = prof.trace.summary("device")["device"].rows()
    assert row["device"] == "CPU(Process)"
    assert row["busy_ns"] == usage.busy_ns
    assert row["utilization"] == pytest.approx(100 * usage.busy_ns / usage.window_ns)
