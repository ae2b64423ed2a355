"""What reaches an NVTX tool: the events of a script as a small tool saw them."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Events = Callable[..., list[Any]]

NO_SUCH_TOOL = {**os.environ, "NVTX_INJECTION64_PATH": "/nowhere"}
"""Lets NVTX look for a tool, which it then does not find."""

IMPORTS = """
from nvtrace.phases import RecordEvent, phase, step
from nvtrace.ranges import mark, range
"""


def short(events: list[Any]) -> list[tuple[str, str]]:
    return [(event.kind, event.name) for event in events if event.kind != "create"]


def test_ranges_reach_a_tool_that_says_the_domain_is_disabled(events: Events) -> None:
    """From nvtx 0.2.12 on the package believes that tool, and drops every range without a word."""
    seen = events(
        IMPORTS + "with step(7):\n with phase('forward'):\n  mark('m', color='red', payload=-2.5)"
    )
    assert [tuple(event[2:]) for event in seen] == [
        ("create", "nvtrace", "", "00000000", "", False, ""),
        ("push", "nvtrace", "step", "ff76b900", "7", True, "step"),
        ("push", "nvtrace", "forward", "ff76b900", "", True, "forward"),
        ("mark", "nvtrace", "user", "ffff0000", "-2.5", True, "m"),
        ("pop", "nvtrace", "", "00000000", "", False, ""),
        ("pop", "nvtrace", "", "00000000", "", False, ""),
    ]


def test_a_push_that_returns_minus_one_is_popped(events: Events) -> None:
    """O-35: the tool of these tests returns -1 from every push and pop."""
    seen = events(
        IMPORTS
        + """
@range("f")
def f(n):
    if n == 0:
        raise KeyError
    f(n - 1)
try:
    with range("w"):
        f(1)
except KeyError:
    pass
"""
    )
    assert short(seen) == [("push", "w"), ("push", "f"), ("push", "f"), *[("pop", "")] * 3]


def test_the_handle_of_a_start_is_ended(events: Events) -> None:
    seen = events(
        IMPORTS
        + """
a, b = RecordEvent("a"), RecordEvent("b")
a.begin(); b.begin(); a.end(); b.end()
"""
    )
    assert [(event.kind, event.payload) for event in seen[1:]] == [
        ("start", "#1"),
        ("start", "#2"),
        ("end", "#1"),
        ("end", "#2"),
    ]


def test_domains_are_made_once_and_popped_apart(events: Events) -> None:
    seen = events(
        IMPORTS
        + """
for _ in "12":
    with range("a", domain="left", category="c"), range("b", domain="right", category="c"):
        pass
"""
    )
    assert [(event.kind, event.domain, event.category) for event in seen] == [
        ("create", "left", ""),
        ("push", "left", "c"),
        ("create", "right", ""),
        ("push", "right", "c"),
        ("pop", "right", ""),
        ("pop", "left", ""),
        ("push", "left", "c"),
        ("push", "right", "c"),
        ("pop", "right", ""),
        ("pop", "left", ""),
    ]


def test_odd_names_and_the_largest_payloads(events: Events) -> None:
    seen = events(
        IMPORTS
        + r"""
mark("zero\0byte", payload=2**63 - 1)
mark("lone \udcff", payload=-2**63)
mark("", payload=True)
mark("größe 🚀")
"""
    )
    assert [(event.name, event.payload) for event in seen[1:]] == [
        (r"zero\0byte", str(2**63 - 1)),
        (r"lone \udcff", str(-(2**63))),
        ("", "1"),
        ("größe 🚀", ""),
    ]


def test_threads_that_race_for_the_first_range(events: Events) -> None:
    """O-30: every thread's ranges, on that thread; one domain, one number for a category."""
    seen = events(
        IMPORTS
        + """
import threading, time
import nvtrace.emit.nvtx as nvtx
class Slow(nvtx._Domain):
    def __init__(self, name):
        time.sleep(0.05)
        super().__init__(name)
nvtx._Domain = Slow
together = threading.Barrier(8)
def work(number):
    together.wait()
    for turn in "ab":
        with range(f"{number} {turn}", category=f"category {number}"):
            pass
threads = [threading.Thread(target=work, args=(n,)) for n in [0, 1, 2, 3, 4, 5, 6, 7]]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    )
    assert [event.domain for event in seen if event.kind == "create"] == ["nvtrace"]
    pushes = [event for event in seen if event.kind == "push"]
    assert sorted(event.name for event in pushes) == [f"{n} {t}" for n in range(8) for t in "ab"]
    for push in pushes:
        number = push.name[0]
        assert push.category == f"category {number}"
        mine = [event.kind for event in seen if event.thread == push.thread]
        assert [kind for kind in mine if kind != "create"] == ["push", "pop"] * 2


def test_a_child_of_fork_goes_on(events: Events) -> None:
    """O-31: also one forked while another thread holds the emitter's lock."""
    seen = events(
        IMPORTS
        + """
import os, signal, threading, warnings
from nvtrace.emit.nvtx import emitter
warnings.simplefilter("ignore")  # newer Pythons warn of fork with threads
held, done = threading.Event(), threading.Event()
def hold():
    with emitter._lock:
        held.set()
        done.wait()
with range("before"):
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(900)
        with range("child", domain="new"):
            pass
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    done.set()
    thread.join()
with range("after"):
    pass
"""
    )
    parent = seen[0].pid
    assert short([event for event in seen if event.pid != parent]) == [
        ("push", "child"),
        ("pop", ""),
    ]
    assert short([event for event in seen if event.pid == parent]) == [
        ("push", "before"),
        ("pop", ""),
        ("push", "after"),
        ("pop", ""),
    ]


@pytest.mark.parametrize("switch", [{"NVTRACE": "0"}, {"NVTX_DISABLE": "1"}])
def test_environment_switches(events: Events, switch: dict[str, str]) -> None:
    script = IMPORTS + "with range('a'): mark('m')\ne = RecordEvent('e'); e.begin(); e.end()"
    assert len(events(script)) == 6
    assert events(script, **switch) == []


def test_same_behaviour_without_a_tool(events: Events) -> None:
    script = (
        IMPORTS
        + """
import asyncio
@range
async def work():
    async with range("w"):
        await asyncio.sleep(0)
    with range("x", payload=1), step(2):
        return 5
assert asyncio.run(work()) == 5
"""
    )
    assert len(events(script)) == 9
    assert events(script, NVTX_INJECTION64_PATH="") == []


def test_nothing_is_sent_where_nothing_can_listen_until_a_tool_comes(
    events: Events, injection: Path
) -> None:
    script = (
        IMPORTS
        + """
import os, sys
tool = os.environ.pop("TOOL")
@range("f")
def f():
    with block:
        mark("m")
block = range("b")
f()
assert "nvtx" not in sys.modules
os.environ["NVTX_INJECTION64_PATH"] = tool
f()  # a tool is looked for with each new name
with range("new"):
    f()
"""
    )
    seen = events(script, TOOL=str(injection), NVTX_INJECTION64_PATH="")
    assert short(seen) == [
        ("push", "new"),
        ("push", "f"),
        ("push", "b"),
        ("mark", "m"),
        *[("pop", "")] * 3,
    ]


def test_a_tool_that_is_linked_in_or_comes_with_the_driver_is_possible(
    injection: Path, tmp_path: Path
) -> None:
    """NVTX itself looks for these; a driver is played by a library of its name."""
    source = tmp_path / "tool.c"
    source.write_text("void *InitializeInjectionNvtx2_fnptr = &InitializeInjectionNvtx2_fnptr;")
    driver = tmp_path / "driver.c"
    driver.write_text("int cuNvtxGetInjectionInitializer(void) { return 0; }")
    silent = tmp_path / "silent.c"
    silent.write_text("void *InitializeInjectionNvtx2_fnptr; int cuInit(void) { return 0; }")
    script = """
import ctypes, sys
library = sys.argv[1] and ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
from nvtrace.emit.listening import tool_possible
print(tool_possible())
"""
    clean = {k: v for k, v in os.environ.items() if "INJECTION" not in k and k != "LD_PRELOAD"}
    said = []
    for code, name in ((source, "a.so"), (driver, "libcuda.so.1"), (silent, "libcuda.so.1")):
        library = tmp_path / code.stem / name
        library.parent.mkdir()
        subprocess.run(
            ["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", library, code], check=True
        )
        done = subprocess.run(
            [sys.executable, "-c", script, library],
            env=clean,
            capture_output=True,
            text=True,
            check=True,
        )
        said.append(done.stdout.strip())
    assert said == ["True", "True", "False"]


def test_an_nvtx_package_that_cannot_be_used_is_told_once() -> None:
    script = (
        "import sys, types\n"
        "sys.modules['nvtx._lib.lib'] = types.ModuleType('nvtx._lib.lib')\n"
        f"{IMPORTS}"
        "with range('a'), range('b'): mark('m')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=NO_SUCH_TOOL, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("ranges are not recorded: this nvtx package cannot be used (")


def test_unique_names_do_not_accumulate() -> None:
    """O-34: names and payloads that never repeat leave nothing behind, and are told once."""
    script = (
        IMPORTS
        + """
import gc, json, tracemalloc
from nvtrace.emit import Label
def use(first, last):
    for i in __builtins__.range(first, last):
        with range(f"unique {i}"), range("same", payload=i):
            pass
use(0, 12_000)
tracemalloc.start()
before = tracemalloc.get_traced_memory()[0]
use(12_000, 40_000)
grown = tracemalloc.get_traced_memory()[0] - before
print(json.dumps([grown, sum(isinstance(o, Label) for o in gc.get_objects())]))
"""
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=NO_SUCH_TOOL,
        capture_output=True,
        text=True,
        check=True,
    )
    grown, labels = json.loads(done.stdout)
    assert labels <= 4096 + 8  # what is cached, and the few made last
    assert grown < 8_000_000  # the cache in full; 28,000 labels and strings kept take over 30 MB
    assert done.stderr.count("\n") == 1
    assert "10000 different range names so far" in done.stderr


def test_nsight_systems_records_and_captures_by_range(nsys: Path, tmp_path: Path) -> None:
    """O-17: names are registered, so that a step starts the capture."""
    script = tmp_path / "train.py"
    script.write_text(IMPORTS + "mark('early')\nwith step(1):\n with phase('forward'): pass\n")
    command = [nsys, "profile", "--trace=nvtx", "--sample=none", "--cpuctxsw=none"]
    command += ["--capture-range=nvtx", "--nvtx-capture=step@nvtrace"]
    command += ["--capture-range-end=stop", "--export=sqlite"]
    command += ["--output", tmp_path / "report", sys.executable, script]
    subprocess.run(command, check=True, capture_output=True, timeout=900)
    query = """SELECT eventType, value, int64Value FROM NVTX_EVENTS JOIN StringIds ON id = textId
        WHERE eventType IN (34, 59) ORDER BY start"""
    with contextlib.closing(sqlite3.connect(tmp_path / "report.sqlite")) as database:
        rows = database.execute(query).fetchall()
    assert rows == [(59, "step", 1), (59, "forward", None)]
