"""Memory of long runs returns to where it was (O-34); measured in processes of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from capturing import python

MEASURE = """
import gc, json, sys
import psutil
import nvtrace
from nvtrace import Profiler, ProfilerTarget, make_scheduler, ranges

options = {"targets": [ProfilerTarget.CPU], "adapters": None}

def measure():
    ranges._ranges.clear()  # bounded; full or not is chance
    gc.collect()
    return sys.getallocatedblocks(), psutil.Process().memory_info().rss

for number in range(11_000):  # now what is bounded is full
    with nvtrace.range(f"first {number}"):
        pass

def report(before, after):
    print(json.dumps([b - a for a, b in zip(before, after)]))
"""

CASES = {
    "100,000 steps, 10 of them recorded": """
def run(count):
    prof = Profiler(scheduler=make_scheduler(closed=count - 10, ready=0, record=10), **options)
    prof.start()
    for number in range(count):
        with work:
            pass
        prof.step()
    prof.stop()
    assert prof.cycle == 0

work = nvtrace.range("work")
run(1_000)
before = measure()
run(100_000)
report(before, measure())
""",
    "3,000 windows, half of them of Profilers of their own, and names that never come again": """
def run(first, count):
    kept = 0
    with Profiler(scheduler=make_scheduler(closed=0, ready=0, record=1), **options) as prof:
        for number in range(first, first + count):
            with nvtrace.range(f"step {number}"), nvtrace.range("step", payload=number):
                pass
            prof.step()
            kept += len(prof.trace.ranges["start"])
    assert kept == 3 * count
    for number in range(first, first + count):
        with Profiler(**options) as prof:
            with nvtrace.range(f"run {number}"):
                pass
            prof.step()

run(0, 50)
before = measure()
run(1_000, 1_500)
report(before, measure())
""",
    "100,000 names outside windows": """
def run(first, count):
    with Profiler(timer_only=True, **options) as prof:
        for number in range(first, first + count):
            with nvtrace.range(f"step {number}"):
                pass
            prof.step(num_samples=3)

run(0, 1_000)
before = measure()
run(1_000, 100_000)
report(before, measure())
""",
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_memory_returns_to_where_it_was(case: str, tmp_path: Path) -> None:
    run = python(MEASURE + case, tmp_path)
    assert run.returncode == 0, run.stderr
    blocks, resident = json.loads(run.stdout.splitlines()[-1])
    # what is bounded may be fuller than before, by some hundreds
    assert blocks < 1_000, "an object for each window, step or name stays"
    assert resident < 8 << 20


def test_a_window_over_its_budget_says_how_much_is_missing(tmp_path: Path) -> None:
    run = python(
        MEASURE
        + """
import functools
from nvtrace import window
from nvtrace.emit import recorder
window.Recorder = functools.partial(recorder.Recorder, budget_bytes=1_000_000)
with Profiler(**options) as prof:
    for number in range(100):
        for _ in range(1_000):
            with nvtrace.range("work"):
                pass
        prof.step()
rows = prof.trace.ranges_report()["ranges"].rows()
notes = {note.code: note.message for note in prof.trace.notes}
names = [row["name"] for row in rows]
print(json.dumps([names.count("work"), names.count("ProfileStep"), notes["ranges_dropped"]]))
""",
        tmp_path,
    )
    assert run.returncode == 0, run.stderr
    work, steps, said = json.loads(run.stdout)
    missing = 100_000 + 100 - work - steps
    assert missing > 60_000
    assert said.startswith(f"{missing:,} ranges were dropped at the memory budget")
