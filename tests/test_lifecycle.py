"""How a recorded process ends: whatever is recorded by then is written, whole."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from capturing import nothing_left, profiler, python, steps

import nvtrace
from nvtrace import lifecycle

START = """
import os, signal, sys, threading, time, nvtrace
from nvtrace import Profiler, ProfilerTarget, export_chrome_tracing, export_nsys

def write(prof):
    export_chrome_tracing("out", "timeline")(prof)
    export_nsys("out", "saved")(prof)

options = {"targets": [ProfilerTarget.CPU], "adapters": None}
prof = Profiler(on_trace_ready=write, **options)

def work(count=50):
    for number in range(count):
        with nvtrace.range("outer"), nvtrace.range("inner"):
            pass
        prof.step()
"""

ENDS = {
    "exception": ("with prof:\n    work()\n    1 / 0", 1, "ZeroDivisionError"),
    "sys.exit without stop": ("prof.start()\nwork()\nsys.exit(7)", 7, ""),
    "exception without stop": ("prof.start()\nwork()\n1 / 0", 1, "ZeroDivisionError"),
    "end without stop, threads running": (
        "prof.start()\nwork()\nthreading.Thread(target=time.sleep, args=(0.2,)).start()",
        0,
        "",
    ),
    "interrupt": ("prof.start()\nwork()\nraise KeyboardInterrupt", -signal.SIGINT, "Interrupt"),
    "SIGTERM": (
        "prof.start()\nwork()\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(900)",
        -signal.SIGTERM,
        "",
    ),
    "SIGTERM while a thread works": (
        "prof.start()\nwork()\n"
        "threading.Thread(target=time.sleep, args=(900,), daemon=True).start()\n"
        "os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(900)",
        -signal.SIGTERM,
        "",
    ),
}


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    with nothing_left():
        yield
    assert signal.getsignal(signal.SIGTERM) is before


def slices(path: Path) -> Counter[str]:
    with gzip.open(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    return Counter(event["name"] for event in events if event["ph"] == "X")


def check(folder: Path, count: int = 50) -> None:
    saved, timeline = sorted((folder / "out").iterdir())
    assert slices(timeline) == {"ProfileStep": count, "outer": count, "inner": count}
    assert steps(nvtrace.load(saved)) == list(range(count))


@pytest.mark.parametrize(("end", "status", "said"), ENDS.values(), ids=ENDS)
def test_what_was_recorded_is_written(end: str, status: int, said: str, tmp_path: Path) -> None:
    run = python(START + end, tmp_path)
    assert run.returncode == status or (status == -signal.SIGINT and run.returncode == 1), (
        run.stderr  # CPython forgets the interrupt when anything is compiled after it
    )
    assert said in run.stderr
    assert "nvtrace" not in run.stderr.replace("import nvtrace", "")
    check(tmp_path)


def started(script: str, folder: Path) -> subprocess.Popen[str]:
    """Start a script, and wait for the line it prints."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", START + script],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "now\n"
    return process


SLOW_HANDLER = """
def slow(prof):
    print("now")
    HOW_LONG
    write(prof)

prof = Profiler(on_trace_ready=slow, scheduler=(0, 50), **options)
prof.start()
work()
print("went on")
time.sleep(900)
"""


def test_sigterm_waits_for_the_trace_that_is_being_written(tmp_path: Path) -> None:
    process = started(SLOW_HANDLER.replace("HOW_LONG", "input()"), tmp_path)
    process.terminate()
    out, err = process.communicate("go on\n", timeout=900)
    assert process.returncode == -signal.SIGTERM, err
    assert "went on" not in out
    check(tmp_path)


def test_a_second_sigterm_does_not_wait(tmp_path: Path) -> None:
    process = started(SLOW_HANDLER.replace("HOW_LONG", "time.sleep(900)"), tmp_path)
    while process.poll() is None:  # two that come too close to one another are one
        process.terminate()
        time.sleep(0.05)
    process.communicate()
    assert process.returncode == -signal.SIGTERM
    assert list((tmp_path / "out").glob("*")) == []


def test_a_failing_handler_is_said_and_does_not_stand_in_the_way(tmp_path: Path) -> None:
    script = """
def broken(prof):
    raise OSError("disk full")
prof = Profiler(on_trace_ready=broken, **options)
prof.start()
work()
"""
    run = python(START + script, tmp_path)
    assert run.returncode == 0
    assert run.stderr == "the recorded trace was not delivered: disk full\n"
    kill = "os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(900)"
    assert python(START + script + kill, tmp_path).returncode == -signal.SIGTERM


def test_timer_only_prints_when_killed(tmp_path: Path) -> None:
    script = """
prof = Profiler(timer_only=True, **options)
prof.start()
work()
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(900)
"""
    run = python(START + script, tmp_path)
    assert run.returncode == -signal.SIGTERM
    assert "Steps 10..49 (40)" in run.stdout


def test_somebody_elses_sigterm_handler_stays(tmp_path: Path) -> None:
    script = """
def own(*_):
    print("own handler")
    sys.exit(3)
signal.signal(signal.SIGTERM, own)
prof.start()
work()
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(900)
"""
    run = python(START + script, tmp_path)
    assert run.returncode == 3, run.stderr
    assert run.stdout == "own handler\n"
    check(tmp_path)


def test_the_sigterm_handler_is_ours_only_while_a_profiler_runs() -> None:
    before = signal.getsignal(signal.SIGTERM)
    prof = profiler()
    with prof:
        assert signal.getsignal(signal.SIGTERM) is not before
        assert lifecycle.active() is prof
    assert signal.getsignal(signal.SIGTERM) is before


def test_started_on_another_thread(tmp_path: Path) -> None:
    script = """
def run():
    prof.start()
    work()
    prof.stop()
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""
    run = python(START + script, tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    check(tmp_path)
