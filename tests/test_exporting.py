"""The handlers that write files: one whole file a window, under a name of its own."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from capturing import names, nothing_left, profiler, python, steps

import nvtrace
from nvtrace import (
    OutputError,
    export_chrome_tracing,
    export_nsys,
    load_profiler_result,
    make_scheduler,
)

RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "PADDLE_TRAINER_ID")


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in RANKS:
        monkeypatch.delenv(name, raising=False)
    with nothing_left():
        yield


def run(handler: Any, count: int = 4) -> None:
    prof = profiler(scheduler=make_scheduler(closed=0, ready=0, record=2), on_trace_ready=handler)
    with prof:
        for number in range(count):
            with nvtrace.range(f"work {number}"):
                pass
            prof.step()


def timeline(path: Path) -> set[str]:
    """Names of the slices of a timeline."""
    with gzip.open(path, "rt") as file:
        return {event["name"] for event in json.load(file)["traceEvents"] if event["ph"] == "X"}


def test_a_file_for_each_window_says_host_pid_and_cycle(tmp_path: Path) -> None:
    run(export_chrome_tracing(tmp_path / "new" / "folder"))
    stem = f"{socket.gethostname()}.pid{os.getpid()}"
    files = sorted((tmp_path / "new" / "folder").iterdir())
    assert [file.name for file in files] == [f"{stem}.cycle{n}.json.gz" for n in range(2)]
    assert {"work 0", "work 1", "ProfileStep"} <= timeline(files[0])
    assert {"work 2", "work 3"} <= timeline(files[1])
    assert not {"work 0", "work 1"} & timeline(files[1])


@pytest.mark.parametrize("variable", RANKS)
def test_and_the_rank_where_a_launcher_states_one(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "3")
    run(export_nsys(tmp_path, "worker/a b"), 2)
    (file,) = tmp_path.iterdir()
    assert file.name == f"worker_a_b.rank3.pid{os.getpid()}.cycle0.sqlite"
    assert load_profiler_result(file).processes[0].rank == 3


def test_a_saved_window_is_the_window(tmp_path: Path) -> None:
    traces = []

    def handler(prof: nvtrace.Profiler) -> None:
        traces.append(prof.trace)
        export_nsys(tmp_path)(prof)

    run(handler)
    for made, file in zip(traces, sorted(tmp_path.iterdir()), strict=True):
        back = load_profiler_result(file)
        assert (names(back), steps(back)) == (names(made), steps(made))


def test_a_second_run_overwrites_nothing(tmp_path: Path) -> None:
    handler = export_chrome_tracing(tmp_path, "w")
    for _ in range(3):
        run(handler, 2)
    stem = f"w.pid{os.getpid()}.cycle0"
    assert {file.name for file in tmp_path.iterdir()} == {
        f"{stem}.json.gz",
        f"{stem}.2.json.gz",
        f"{stem}.3.json.gz",
    }


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for make in (export_chrome_tracing, export_nsys):
        with pytest.raises(OutputError, match="file/folder: cannot make this folder"):
            make(tmp_path / "file" / "folder")


TWO = """
import sys, nvtrace
from nvtrace import Profiler, ProfilerTarget, export_chrome_tracing, export_nsys
for export in (export_chrome_tracing, export_nsys):
    with Profiler(targets=[ProfilerTarget.CPU], adapters=None, on_trace_ready=export("out")) as p:
        for n in range(200):
            with nvtrace.range(sys.argv[1]):
                pass
            p.step()
"""


def test_two_processes_with_one_folder(tmp_path: Path) -> None:
    """O-24."""
    command = [sys.executable, "-c", TWO]
    both = [subprocess.Popen([*command, name], cwd=tmp_path) for name in ("one", "two")]
    assert [process.wait(900) for process in both] == [0, 0]
    files = sorted((tmp_path / "out").iterdir())
    assert len(files) == 4
    timelines = [timeline(file) for file in files if file.suffix == ".gz"]
    assert sorted(map(sorted, timelines)) == [["ProfileStep", "one"], ["ProfileStep", "two"]]
    for file in files:
        if file.suffix == ".sqlite":
            assert len(steps(load_profiler_result(file))) == 200


FORKED = """
import os, sys, multiprocessing, nvtrace
from nvtrace import Profiler, ProfilerTarget, export_chrome_tracing, lifecycle
from nvtrace.emit import switch
from nvtrace.emit.recorder import Recorder

def work(name):
    assert lifecycle.active() is None
    assert not isinstance(switch.emitter, Recorder)
    with nvtrace.range(name):
        pass

write = export_chrome_tracing("out")
p = Profiler(targets=[ProfilerTarget.CPU], adapters=None, on_trace_ready=write)
p.start()
with nvtrace.range("open over the fork"):
    pid = os.fork()
    if not pid:
        work("child")
if not pid:
    p.step()          # the loop goes on: nothing happens
    p.stop()
    with Profiler(targets=[ProfilerTarget.CPU], adapters=None) as own:
        with nvtrace.range("own"):
            pass
    assert len(own.trace.ranges["start"]) == 1
    if sys.argv[1] == "exit":
        sys.exit(0)   # with exit hooks
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
worker = multiprocessing.get_context("fork").Process(target=work, args=("worker",))
worker.start()
worker.join()
assert worker.exitcode == 0
with nvtrace.range("after"):
    pass
p.step()
sys.exit(0)           # without stop()
"""


@pytest.mark.parametrize("how", ["exit", "_exit"])
def test_a_forked_child_starts_off_and_the_parent_writes_one_file(how: str, tmp_path: Path) -> None:
    """O-31."""
    run = python(FORKED, tmp_path, how)
    assert run.returncode == 0, run.stderr
    (file,) = (tmp_path / "out").iterdir()
    assert timeline(file) == {"ProfileStep", "open over the fork", "after"}
