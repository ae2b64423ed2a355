"""CPU time of the process, its children and the machine, against what the kernel says elsewhere."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest
from capturing import profiler, python

from nvtrace import cpu_time
from nvtrace.cpu_time import CpuMeter
from nvtrace.model.trace import CpuUsage

BURN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass"


def busy(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def by_name(meter: CpuMeter) -> dict[str, CpuUsage]:
    return {usage.name: usage for usage in meter.usage()}


def enclosed(found: CpuUsage, readings: list[tuple[float, float]], cores: int = 1) -> None:
    """Check busy and window time of a meter against a clock and the kernel, both in seconds.

    They were read before the meter was made, after that, before it was asked, and after that.
    """
    (time0, busy0), (time1, busy1), (time2, busy2), (time3, busy3) = readings
    rounding, window = 1e-6, found.window_ns / 1e9 / cores
    assert time2 - time1 - rounding <= window <= time3 - time0 + rounding
    # other threads may have been at work, each on a core of its own
    assert found.busy_ns <= found.window_ns // cores * (os.cpu_count() or 1) + rounding * 1e9
    least = min(busy2 - busy1, window * cores)
    assert least - rounding <= found.busy_ns / 1e9 <= busy3 - busy0 + rounding


def of_process() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def of_machine() -> tuple[float, float]:
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, *_ = map(int, file.readline().split()[1:])
    ticks = user + nice + system + irq + softirq
    return time.perf_counter(), ticks / os.sysconf("SC_CLK_TCK")


def test_the_process() -> None:
    readings = [of_process()]
    meter = CpuMeter()
    readings.append(of_process())
    before = resource.getrusage(resource.RUSAGE_SELF)
    busy(0.1)
    after = resource.getrusage(resource.RUSAGE_SELF)
    readings.append(of_process())
    found = meter.usage()[0]
    readings.append(of_process())
    assert found.name == "CPU(Process)"
    enclosed(found, readings)
    # what the kernel says elsewhere may lag by a tick
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert found.busy_ns / 1e9 >= used - 0.02


def test_sleeping_is_no_cpu_time() -> None:
    before = time.process_time_ns()
    meter = CpuMeter()
    time.sleep(0.3)
    found = meter.usage()[0]
    assert found.busy_ns <= time.process_time_ns() - before
    assert found.window_ns >= 300_000_000


CHILDREN = f"""
import os, resource, subprocess, sys
from nvtrace.cpu_time import CpuMeter

BURN = {BURN!r}
GOING_ON = BURN.format(0.3) + '\\nprint()\\ninput()\\n' + BURN.format(0.2) + '\\nprint()\\ninput()'

def ticks(child):
    with open(f"/proc/{{child.pid}}/stat") as file:
        spent = sum(map(int, file.read().rpartition(")")[2].split()[11:15]))
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent / os.sysconf("SC_CLK_TCK") + ended.ru_utime + ended.ru_stime

pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
with subprocess.Popen([sys.executable, "-uc", GOING_ON], **pipes) as going_on:
    going_on.stdout.readline()
    before = ticks(going_on)
    meter = CpuMeter()
    subprocess.run([sys.executable, "-c", BURN.format(0.2)], check=True)
    going_on.stdin.write(b"\\n")
    going_on.stdin.flush()
    going_on.stdout.readline()
    (found,) = (usage for usage in meter.usage() if usage.name == "CPU(Children)")
    after = ticks(going_on)
    going_on.stdin.write(b"\\n")
    going_on.stdin.close()
print(found.busy_ns / 1e9, after - before)
"""


def test_children_that_ended_and_that_go_on(tmp_path: Path) -> None:
    """What a child used before the window, 0.3 s of it here, is not of the window."""
    done = python(CHILDREN, tmp_path)
    assert done.returncode == 0, done.stderr
    found, most = map(float, done.stdout.split())
    # the kernel counts in ticks of 10 ms, user and system time of both children apart
    assert 0.4 - 0.08 <= found <= most + 0.04


def test_no_children_no_row(tmp_path: Path) -> None:
    script = """
import time
from nvtrace import cpu_time
meter = cpu_time.CpuMeter()
time.sleep(0.25)
print(*(usage.name for usage in meter.usage()))
"""
    assert python(script, tmp_path).stdout == "CPU(Process) CPU(System)\n"


def test_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_time, "_SHORTEST_NS", 0)
    readings = [of_machine()]
    meter = CpuMeter()
    readings.append(of_machine())
    busy(0.2)
    readings.append(of_machine())
    found = by_name(meter)["CPU(System)"]
    readings.append(of_machine())
    enclosed(found, readings, cores=os.cpu_count() or 1)


def test_a_window_too_short_for_the_kernels_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0
    monkeypatch.setattr(cpu_time, "perf_counter_ns", lambda: now)
    meter = CpuMeter()
    now = 199_999_999
    assert set(by_name(meter)) == {"CPU(Process)"}
    now = 200_000_000
    assert {"CPU(Process)", "CPU(System)"} <= set(by_name(meter))


def test_the_window_of_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work before and after the recorded steps is not counted."""
    monkeypatch.setattr(cpu_time, "_SHORTEST_NS", 10**18)
    with profiler(scheduler=(1, 2)) as prof:
        busy(0.2)
        before = time.process_time_ns()
        prof.step()
        busy(0.1)
        prof.step()
        most = time.process_time_ns() - before
        busy(0.2)
    assert prof.trace is not None
    (usage,) = prof.trace.cpu
    assert 0.1e9 <= usage.busy_ns <= most
    (row,) = prof.trace.summary("device")["device"].rows()
    assert row["device"] == "CPU(Process)"
    assert row["busy_ns"] == usage.busy_ns
    assert row["utilization"] == pytest.approx(100 * usage.busy_ns / usage.window_ns)
