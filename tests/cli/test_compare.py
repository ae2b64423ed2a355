"""``nvtrace compare``: the answer in each format, several runs, and what a job can fail on."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import Capture

from nvtrace.analysis.digest import VIEWS
from nvtrace.cli import compare

Run = Callable[..., Any]


def write(path: Path, lengths: list[int]) -> Path:
    """Write a report with steps of so many ns, a kernel of 10 ns in each."""
    capture, at = Capture(), 1_000
    for number, length in enumerate(lengths):
        capture.step(number, at, at + length)
        capture.launch(at + 1, at + 2, 10, name="gemm")
        at += length
    return capture.write(path)


@pytest.fixture
def reports(tmp_path: Path) -> dict[str, Path]:
    """Steps of 1000 ns, 7 per cent more, as many as before within noise, three alone, and none."""
    noisy = [900, 1150, 1000, 870, 1130, 1020]
    return {
        name: write(tmp_path / f"{name}.sqlite", lengths)
        for name, lengths in {
            "before": [1000] * 6,
            "slower": [1070] * 6,
            "noisy": noisy,
            "few": [2000] * 2,
        }.items()
    } | {"without": Capture(ranges=[]).write(tmp_path / "without.sqlite", lazy=False)}


def test_views_are_those_of_the_analysis() -> None:
    assert compare.VIEWS == VIEWS


def test_json(run: Run, reports: dict[str, Path]) -> None:
    result = run("compare", reports["before"], reports["slower"], "--format", "json")
    assert (result.status, result.stderr) == (0, "")
    report = json.loads(result.stdout)
    assert report["schema"] == 1
    assert report["totals"] == {"per_step": True}
    assert tuple(report["views"]) == VIEWS
    assert [source["run"] for source in report["sources"]] == ["before", "after"]
    after = report["views"]["steps"][1]
    assert (after["steps"], after["median_ns"], after["verdict"]) == (6, 1070, "slower")
    assert report["views"]["kernel"] == [
        {
            "run": "after",
            "name": "gemm",
            "status": "both",
            "calls_before": 1.0,
            "calls_after": 1.0,
            "gpu_before_ns": 10,
            "gpu_after_ns": 10,
            "gpu_change_ns": 0,
            "gpu_change": 0.0,
        }
    ]


@pytest.mark.parametrize("format", ["table", "csv", "markdown", "html"])
def test_every_format(run: Run, reports: dict[str, Path], format: str) -> None:
    result = run("compare", reports["before"], reports["slower"], "--format", format)
    assert (result.status, result.stderr) == (0, "")
    assert "gemm" in result.stdout
    assert "slower" in result.stdout


def test_one_view_as_csv(run: Run, reports: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "steps.csv"
    names = ("before", "slower", "noisy")
    result = run("compare", *(reports[name] for name in names), "--view", "steps", "-o", out)
    assert result.status == 0, result.stderr
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert [row["run"] for row in rows] == ["before", "after 1", "after 2"]
    assert [row["median_ns"] for row in rows] == ["1000", "1070", "1010"]


def test_a_run_of_several_files(run: Run, reports: dict[str, Path], tmp_path: Path) -> None:
    """A folder is one run: here of two ranks, whose steps count once."""
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in range(2):
        shutil.copy(reports["slower"], folder / f"run.rank{rank}.sqlite")
    result = run("compare", reports["before"], folder, "--format", "json")
    assert result.status == 0, result.stderr
    views = json.loads(result.stdout)["views"]
    assert [row["steps"] for row in views["steps"]] == [6, 6]
    assert views["kernel"][0]["calls_after"] == 2


def test_a_rank_without_steps_is_compared_whole(
    run: Run, reports: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "ranks"
    folder.mkdir()
    shutil.copy(reports["before"], folder / "run.rank0.sqlite")
    idle = Capture()
    idle.launch(1, 2, 30, name="gemm", pid=2, tid=2)
    idle.write(folder / "run.rank1.sqlite")
    for rank, per_step, calls in ((0, True, 1), (1, False, 1)):
        result = run("compare", folder, folder, "--rank", rank, "--format", "json")
        assert result.status == 0, result.stderr
        report = json.loads(result.stdout)
        assert report["totals"] == {"per_step": per_step}
        assert report["views"]["kernel"][0]["calls_after"] == calls


@pytest.mark.parametrize(
    ("after", "most", "status", "said"),
    [
        (["slower"], "5", 3, "after: step time +7.0 %, more than 5 %\n"),
        (["slower"], "10", 0, ""),
        (["noisy"], "0", 0, ""),
        (["before"], "0", 0, ""),
        (["noisy", "slower"], "5", 3, "after 2: step time +7.0 %, more than 5 %\n"),
        (["few"], "5", 1, "nvtrace: error: --fail-above has too few steps to judge by: "),
        (["without"], "5", 1, "nvtrace: error: --fail-above has too few steps to judge by: "),
    ],
)
def test_status(
    run: Run, reports: dict[str, Path], after: list[str], most: str, status: int, said: str
) -> None:
    paths = [reports[name] for name in ("before", *after)]
    result = run("compare", *paths, "--view", "kernel", "--fail-above", most, "--format", "json")
    assert result.status == status, result.stderr
    assert result.stderr.startswith(said)
    assert len(result.stderr.splitlines()) == (1 if said else 0)
    assert tuple(json.loads(result.stdout)["views"]) == ("steps", "kernel")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 2, "Missing argument 'BEFORE'"),
        (["{before}"], 2, "Missing argument 'AFTER...'"),
        (["{before}", "missing.sqlite"], 1, "missing.sqlite: no such file"),
        (["{before}", "{before}", "--view", "kernels"], 2, "'kernels' is none of steps, phases"),
        (["{before}", "{few}", "--steps", "4:6"], 1, "few.sqlite: no step in 4:6"),
        (["{before}", "{before}", "--fail-above", "-1"], 2, "-1"),
        (["-", "-"], 1, "standard input (-) can be read once only"),
    ],
)
def test_wrong_use(
    run: Run, reports: dict[str, Path], arguments: list[str], status: int, said: str
) -> None:
    given = [word.format(**reports) if "{" in word else word for word in arguments]
    result = run("compare", *given)
    assert (result.status, result.stdout) == (status, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_damaged_file(run: Run, reports: dict[str, Path], tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(reports["before"].read_bytes()[:3000])
    result = run("compare", reports["before"], damaged)
    assert result.status == 1
    assert result.stderr.startswith("nvtrace: error: ")
    assert len(result.stderr.splitlines()) == 1
