"""A program with ranges of every sort, recorded by the real nsys and read back whole."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import nvtrace

PROGRAM = """
import asyncio, json, multiprocessing, os, sys, threading
import nvtrace
from nvtrace import mark, phase, step

def own():
    return [os.getpid(), threading.get_native_id()]

def say(facts):
    with open(f"said-{os.getpid()}.json", "w") as file:
        json.dump(facts, file)

@nvtrace.range
def recursive(depth):
    if depth:
        recursive(depth - 1)

@nvtrace.range("coroutine")
async def coroutine(turns):
    for _ in range(turns):
        await asyncio.sleep(0)

@nvtrace.range("generator")
def generator():
    yield 1
    yield 2

async def tasks():
    async with nvtrace.range("async block"):
        await asyncio.gather(coroutine(3), coroutine(2))

def worker(place, where):
    with nvtrace.range("thread outer"):
        with nvtrace.range("thread inner", payload=place):
            where[place] = own()

def child(place):
    with step(place), phase("forward"), nvtrace.range("in child"):
        say({"child": place, "who": own()})

if __name__ == "__main__":
    for number in (7, 8):
        with step(number):
            with phase("dataloader"):
                pass
            with phase("forward"):
                recursive(3)
                with nvtrace.range("library call", domain="library", category="maths"):
                    with nvtrace.range("back in the default domain"):
                        pass
            with phase("backward"), phase("optimization"):
                pass
            mark("checkpoint")
    asyncio.run(tasks())
    list(generator())
    try:
        with nvtrace.range("raises"):
            raise ValueError
    except ValueError:
        pass
    first, second = nvtrace.RecordEvent("first"), nvtrace.RecordEvent("second")
    first.begin(); second.begin(); first.end(); second.end()
    with nvtrace.range('quo"te \\\\ 你好 \\U0001f600'):
        pass
    where = {}
    threads = [threading.Thread(target=worker, args=(n, where), name=f"w{n}") for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=child, args=(n,)) for n in (20, 21)]
    for one in children:
        one.start()
    for one in children:
        one.join()
    say({"main": own(), "threads": where})
"""

# worked by hand from the program: name -> (how many, kind, style, name of the parent)
MAIN_THREAD = {
    "step": (2, "step", "push/pop", None),
    "dataloader": (2, "dataloader", "push/pop", "step"),
    "forward": (2, "forward", "push/pop", "step"),
    "recursive": (8, "user", "push/pop", None),
    "library call": (2, "user", "push/pop", "forward"),
    "back in the default domain": (2, "user", "push/pop", "library call"),
    "backward": (2, "backward", "push/pop", "step"),
    "optimization": (2, "optimization", "push/pop", "backward"),
    "checkpoint": (2, "user", "mark", None),
    "async block": (1, "user", "start/end", None),
    "coroutine": (2, "user", "start/end", None),
    "generator": (1, "user", "start/end", None),
    "raises": (1, "user", "push/pop", None),
    "first": (1, "user", "start/end", None),
    "second": (1, "user", "start/end", None),
    'quo"te \\ 你好 \U0001f600': (1, "user", "push/pop", None),
}


@pytest.fixture(scope="module")
def recorded(nsys: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Any], list[Any]]:
    """The ranges that nvtrace finds, as rows, and what the program said of itself."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    command = [str(nsys), "profile", "-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-o", "report"]
    done = subprocess.run(
        [*command, sys.executable, "program.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert (folder / "report.nsys-rep").exists(), done.stdout + done.stderr
    said = [json.loads(file.read_text()) for file in folder.glob("said-*.json")]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("NVTRACE_NSYS", str(nsys))
        trace = nvtrace.load(folder / "report.nsys-rep")
    rows = trace.ranges_report(marks=True)["ranges"].rows()
    return rows, said


def of_thread(rows: list[Any], who: list[int]) -> list[Any]:
    return [row for row in rows if [row["process"], row["thread"]] == who]


def main_thread(recorded: tuple[list[Any], list[Any]]) -> list[Any]:
    rows, said = recorded
    return of_thread(rows, next(one["main"] for one in said if "main" in one))


def test_every_range_of_the_main_thread_is_there(recorded: Any) -> None:
    found = Counter(row["name"] for row in main_thread(recorded))
    assert found == {name: count for name, (count, *_) in MAIN_THREAD.items()}


def test_kinds_and_styles(recorded: Any) -> None:
    for row in main_thread(recorded):
        _, kind, style, _ = MAIN_THREAD[row["name"]]
        assert (row["kind"], row["style"]) == (kind, style), row
        assert not row["unfinished"]


def test_nesting(recorded: Any) -> None:
    for row in main_thread(recorded):
        parent = MAIN_THREAD[row["name"]][3]
        if parent is not None:
            assert row["path"].split(" / ")[-2] == parent
    depths = sorted(r["depth"] for r in main_thread(recorded) if r["name"] == "recursive")
    assert depths == [2, 2, 3, 3, 4, 4, 5, 5]


def test_domains_categories_and_payloads(recorded: Any) -> None:
    rows = main_thread(recorded)
    assert {r["name"] for r in rows if r["domain"] == "library"} == {"library call"}
    assert {r["category"] for r in rows if r["domain"] == "library"} == {"maths"}
    assert {r["domain"] for r in rows} == {"library", "nvtrace"}
    assert [r["payload"] for r in rows if r["name"] == "step"] == ["7", "8"]
    assert {r["step"] for r in rows if r["name"] == "forward"} == {7, 8}


def test_async_and_overlapping_ranges_keep_their_own_times(recorded: Any) -> None:
    rows = main_thread(recorded)
    one, other = (r for r in rows if r["name"] == "coroutine")
    assert max(one["start_ns"], other["start_ns"]) < min(one["end_ns"], other["end_ns"])
    (first,), (second,) = ([r for r in rows if r["name"] == n] for n in ("first", "second"))
    assert first["start_ns"] < second["start_ns"] < first["end_ns"] < second["end_ns"]


def test_every_thread(recorded: Any) -> None:
    rows, said = recorded
    threads = next(one["threads"] for one in said if "threads" in one)
    assert len(threads) == 4
    for place, who in threads.items():
        outer, inner = of_thread(rows, who)
        assert (outer["name"], outer["depth"]) == ("thread outer", 0)
        assert (inner["name"], inner["depth"], inner["payload"]) == ("thread inner", 1, place)


def test_every_process(recorded: Any) -> None:
    rows, said = recorded
    children = {one["child"]: one["who"] for one in said if "child" in one}
    assert sorted(children) == [20, 21]
    for number, who in children.items():
        found = [(r["name"], r["kind"], r["depth"], r["step"]) for r in of_thread(rows, who)]
        assert found == [
            ("step", "step", 0, number),
            ("forward", "forward", 1, number),
            ("in child", "user", 2, number),
        ]


def test_nothing_else_is_there(recorded: Any) -> None:
    rows, _ = recorded
    assert len(rows) == sum(count for count, *_ in MAIN_THREAD.values()) + 4 * 2 + 2 * 3
