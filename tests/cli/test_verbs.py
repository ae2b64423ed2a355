from __future__ import annotations

import csv
import gzip
import io
import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nvtrace.cli.options import LAYERS, SORTS, STANDARD_VIEWS, VIEWS
from nvtrace.cli.trace import say_written
from nvtrace.demo import write_report
from nvtrace.sinks.chrome import Written

Run = Callable[..., Any]


def test_summary_json_holds_the_standard_views(run: Run, made: Path) -> None:
    result = run("summary", made, "--format", "json")
    assert result.status == 0
    assert result.stderr == ""
    report = json.loads(result.stdout)
    assert report["schema"] == 1
    assert tuple(report["views"]) == STANDARD_VIEWS


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_and_sort_key_is_known(run: Run, made: Path, view: str) -> None:
    for sort in SORTS:
        result = run("summary", made, "--view", view, "--sort", sort, "--format", "json")
        assert result.status == 0
        assert list(json.loads(result.stdout)["views"]) == [view]


def test_summary_of_chosen_views(run: Run, made: Path) -> None:
    result = run("summary", made, "--view", "memory,kernel", "--view", "device", "--format", "json")
    assert set(json.loads(result.stdout)["views"]) == {"memory", "kernel", "device"}


def test_summary_prints_tables(run: Run, made: Path) -> None:
    result = run("summary", made)
    assert result.status == 0
    for title in ("Device Summary", "Overview Summary", "Model Summary", "Kernel Summary"):
        assert title in result.stdout


def test_top(run: Run, made: Path) -> None:
    arguments = ("summary", made, "--view", "kernel", "--format")
    everything = json.loads(run(*arguments, "json").stdout)["views"]["kernel"]
    assert len(everything) > 2
    assert (
        json.loads(run(*arguments, "json", "--top", 2).stdout)["views"]["kernel"] == everything[:2]
    )
    assert f"{len(everything) - 2} more rows" in run(*arguments, "table", "--top", 2).stdout


def test_sort(run: Run, made: Path) -> None:
    arguments = ("summary", made, "--view", "kernel", "--format", "json", "--sort")
    rows = json.loads(run(*arguments, "gpu_max").stdout)["views"]["kernel"]
    peaks = [row["gpu_max_ns"] for row in rows]
    assert peaks == sorted(peaks, reverse=True)
    names = [row["name"] for row in json.loads(run(*arguments, "name").stdout)["views"]["kernel"]]
    assert names == sorted(names)


def test_unit(run: Run, made: Path) -> None:
    for unit in ("s", "us"):
        result = run("summary", made, "--view", "kernel", "--unit", unit)
        assert f"Time unit: {unit}\n" in result.stdout


def test_steps(run: Run, made: Path) -> None:
    every = json.loads(run("summary", made, "--format", "json").stdout)["totals"]
    one = json.loads(run("summary", made, "--steps", "1", "--format", "json").stdout)["totals"]
    assert every["steps"] > 2
    assert one["steps"] == 2  # step 1 of each of the two processes
    assert 0 < one["gpu_ns"] < every["gpu_ns"]


def test_rank(run: Run, folder: Path) -> None:
    for rank in (0, 1):
        path = folder / f"run.rank{rank}.sqlite"
        write_report(path, kernels=100, ranks=1, seed=rank, truth=False)

    def gpu_ns(*more: object) -> int:
        result = run("summary", "run.rank*.sqlite", "--format", "json", *more)
        return int(json.loads(result.stdout)["totals"]["gpu_ns"])

    each = [gpu_ns("--rank", rank) for rank in (0, 1)]
    assert min(each) > 0
    assert sum(each) == gpu_ns()


def test_rule(run: Run, made: Path) -> None:
    def kinds(*more: str) -> dict[str, str]:
        result = run("ranges", made, "--format", "json", *more)
        return {row["name"]: row["kind"] for row in json.loads(result.stdout)["views"]["ranges"]}

    before = kinds()
    name = next(name for name, kind in before.items() if kind == "forward")
    assert kinds("--rule", f"^{name}$=communication") == {**before, name: "communication"}


def test_step_range(run: Run, made: Path) -> None:
    arguments = ("summary", made, "--format", "json", "--view", "model")
    forwards = next(
        row["calls"]
        for row in json.loads(run(*arguments).stdout)["views"]["model"]
        if row["name"] == "Forward"
    )
    result = json.loads(run(*arguments, "--step-range", "forward").stdout)
    assert result["totals"]["steps"] == forwards


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("out.json", "{"),
        ("out.csv", "# device\n"),
        ("out.md", ""),
        ("out.html", "<!DOCTYPE html>"),
        ("out.txt", ""),
    ],
)
def test_format_follows_the_extension(
    run: Run, folder: Path, made: Path, name: str, start: str
) -> None:
    result = run("summary", made, "-o", name)
    assert (result.status, result.stdout, result.stderr) == (0, "", "")
    text = (folder / name).read_text()
    assert text.startswith(start)
    assert "Kernel Summary" in text or name in ("out.json", "out.csv")
    assert os.listdir(folder) == [name]


def test_format_wins_over_the_extension(run: Run, folder: Path, made: Path) -> None:
    assert run("summary", made, "-o", "out.txt", "--format", "json").status == 0
    json.loads((folder / "out.txt").read_text())


def test_ranges_in_csv(run: Run, made: Path) -> None:
    listed = json.loads(run("ranges", made, "--format", "json").stdout)["views"]["ranges"]
    rows = list(csv.DictReader(io.StringIO(run("ranges", made, "--format", "csv").stdout)))
    assert len(rows) == len(listed)
    assert [row["name"] for row in rows] == [row["name"] for row in listed]


def test_marks_only_when_asked_for(run: Run, made: Path) -> None:
    def styles(*more: str) -> set[str]:
        result = run("ranges", made, "--format", "json", *more)
        return {row["style"] for row in json.loads(result.stdout)["views"]["ranges"]}

    assert styles("--marks") - styles() == {"mark"}


def test_info(run: Run, made: Path) -> None:
    result = run("info", made)
    assert result.status == 0
    assert made.name in result.stdout


def test_standard_input(run: Run, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(made.read_bytes())))
    piped = json.loads(run("summary", "-", "--format", "json").stdout)
    named = json.loads(run("summary", made, "--format", "json").stdout)
    assert piped["views"] == named["views"]


def test_folder_and_glob(run: Run, folder: Path, made: Path) -> None:
    (folder / "runs").mkdir()
    shutil.copy(made, folder / "runs" / "a.sqlite")
    for path in ("runs", "runs/*.sqlite", "runs/a.sqlite"):
        result = run("summary", path, "--view", "kernel", "--format", "json")
        assert [source["name"] for source in json.loads(result.stdout)["sources"]] == ["a.sqlite"]


def test_trace(run: Run, folder: Path, made: Path) -> None:
    result = run("trace", made, "-o", "out.json.gz")
    assert (result.status, result.stdout) == (0, "")
    assert "out.json.gz" in result.stderr
    assert "perfetto" in result.stderr
    events = json.loads(gzip.decompress((folder / "out.json.gz").read_bytes()))["traceEvents"]
    assert run("trace", made, "-o", "out.json").status == 0
    assert json.loads((folder / "out.json").read_text())["traceEvents"] == events
    assert sum(event["ph"] == "X" for event in events) > 300


def test_layers(run: Run, folder: Path, made: Path) -> None:
    slices = {}
    for layer in LAYERS:
        assert run("trace", made, "-f", "-o", "out.json", "--layers", layer).status == 0
        events = json.loads((folder / "out.json").read_text())["traceEvents"]
        slices[layer] = sum(event["ph"] == "X" for event in events)
    assert min(slices["ranges"], slices["calls"], slices["device"]) > 0
    assert slices["counters"] == slices["flows"] == 0


def test_trace_to_standard_output(run: Run, made: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nvtrace", "trace", str(made), "-o", "-"]
    done = subprocess.run(command, capture_output=True, check=True)
    json.loads(done.stdout)


def test_trace_of_what_lasts(run: Run, folder: Path, made: Path) -> None:
    def durations(*more: str) -> list[float]:
        assert run("trace", made, "-f", "-o", "out.json", *more).status == 0
        events = json.loads((folder / "out.json").read_text())["traceEvents"]
        return [event["dur"] for event in events if event["ph"] == "X"]

    every, long = durations(), durations("--min-duration", "20us")
    assert min(every) < 20
    assert sorted(long) == sorted(value for value in every if value >= 20)


def test_progress_only_on_a_terminal(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys; from nvtrace.cli import main, progress\n"
        "progress._QUIET_S = 0.0\n"
        "sys.exit(main(sys.argv[1:]))"
    )

    def said(*more: str) -> bytes:
        ours, theirs = pty.openpty()
        command = [sys.executable, "-c", code, "info", str(made), *more]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=theirs, check=True)
        os.close(theirs)
        try:
            return os.read(ours, 65536)
        except OSError:  # nothing was written, and nobody is left to write
            return b""
        finally:
            os.close(ours)

    shown = said()
    assert b"ranges" in shown
    assert shown.endswith(b"\r\x1b[K")  # cleared at the end
    assert said("--no-progress") == b""


@pytest.mark.parametrize(("slices", "said"), [(2_000_000, False), (3_173_398, True)])
def test_a_timeline_too_large_for_a_viewer_is_said(capsys, slices, said):
    # Perfetto was measured to take 1.5 GB for 3.2 million slices.
    say_written("out.json", Written(slices, slices, 0, 0, 0, 10**9))
    told = capsys.readouterr().err
    assert ("1.5 GB of memory" in told) is said
    for option in ("--steps", "--time", "--min-duration", "--layers"):
        assert (option in told) is said
