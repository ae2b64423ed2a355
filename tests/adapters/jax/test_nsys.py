"""The example under the real Nsight Systems, and under ``nvtrace run``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from nvtrace.adapters.jax import programs

import nvtrace

STEPS = 4


def run(command: list[Any], folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**os.environ, "JAX_PLATFORMS": "cpu", **environment},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(nsys: Path, repository: Path, tmp_path_factory: Any) -> Path:
    folder = tmp_path_factory.mktemp("nsys")
    run(
        [
            *(nsys, "profile", "-t", "nvtx", "--sample=none", "--cpuctxsw=none", "-o", "report"),
            *(sys.executable, repository / "examples" / "jax_train.py", "--steps", STEPS),
        ],
        folder,
        NVTRACE_HLO=str(folder / "hlo"),
    )
    return folder


@pytest.fixture(scope="module")
def trace(folder: Path, nsys: Path) -> nvtrace.Trace:
    before = os.environ.get("NVTRACE_NSYS")
    os.environ["NVTRACE_NSYS"] = str(nsys)
    try:
        return nvtrace.load(folder / "report.nsys-rep")
    finally:
        if before is None:
            del os.environ["NVTRACE_NSYS"]
        else:
            os.environ["NVTRACE_NSYS"] = before


def test_kinds_in_the_report(trace: nvtrace.Trace) -> None:
    rows = trace.ranges_report()["ranges"].rows()
    assert {row["domain"] for row in rows} == {"nvtrace"}
    kinds = Counter(row["kind"] for row in rows)
    assert kinds["step"] == STEPS + 1  # one more begins with the last step(), and never ends
    assert kinds["dataloader"] == STEPS + 1  # the last one finds no more data
    assert kinds["h2d"] == STEPS
    assert kinds["d2h"] >= 1
    assert kinds["sync"] >= 1
    calls = [row for row in rows if row["kind"] == "dispatch"]
    assert [row["name"] for row in calls] == ["jit:train_step"] * STEPS
    first = calls[0]
    inside = [
        row["name"]
        for row in rows
        if row["depth"]  # within a push/pop range
        and first["start_ns"] <= row["start_ns"]
        and row["end_ns"] <= first["end_ns"]
    ]
    assert inside == ["trace train_step", "lower train_step", "compile train_step"]
    assert "operator" not in kinds  # JAX's own profiler was left alone


def test_host_steps_of_the_report(trace: nvtrace.Trace) -> None:
    table = trace.summary("host_steps")["host_steps"]
    assert table["step"].tolist() == ["all", *map(str, range(STEPS + 1))]
    parts = [key for key in list(table.keys()) if key.endswith("_ns") and key != "wall_ns"]
    assert (sum(table[key] for key in parts) == table["wall_ns"]).all()
    assert (table["dataloader_ns"][1:-1] >= 2_000_000).all()  # the example's loader sleeps
    assert table["compile_ns"][1] > 0
    assert (table["compile_ns"][2:] == 0).all()


def test_programs_are_kept_beside_the_report(folder: Path) -> None:
    known = programs.load(folder / "hlo")
    ids = [program for name, program in known.names() if name == "jit_train_step"]
    labels = known.labels("jit_train_step", ids[0])
    assert labels is not None
    assert labels.differentiated


def test_a_program_that_knows_nothing_of_nvtrace(repository: Path, tmp_path: Path) -> None:
    example = repository / "examples" / "jax_train.py"
    said = run(
        [
            *(sys.executable, "-m", "nvtrace", "run", "-o", "run.sqlite"),
            *(example, "--plain", "--steps", STEPS),
        ],
        tmp_path,
    )
    assert "Device Phase Summary" in said
    trace = nvtrace.load(tmp_path / "run.sqlite")
    kinds = Counter(row["kind"] for row in trace.ranges_report()["ranges"].rows())
    assert kinds["h2d"] == STEPS
    assert kinds["dataloader"] == STEPS + 1
    assert kinds["operator"] > STEPS
    names = [row["name"] for row in trace.ranges_report()["ranges"].rows()]
    assert names.count("jit:train_step") == STEPS
