from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., Any]

TITLES = (
    "Device",
    "Overview",
    "Model",
    "Distribution",
    "Operator",
    "Kernel",
    "Memory",
    "UserDefined",
)


def test_demo_says_that_it_is_synthetic_and_shows_everything(run: Run, folder: Path) -> None:
    result = run("demo")
    assert result.status == 0
    assert "SYNTHETIC" in result.stdout.splitlines()[0]
    for title in TITLES:
        assert f"{title} " in result.stdout
    assert "nsys profile -t cuda,nvtx" in result.stderr
    assert "nvtrace summary report.nsys-rep" in result.stderr
    made = folder / "demo-output"
    assert sorted(os.listdir(made)) == ["synthetic-report.sqlite", "synthetic-timeline.json.gz"]
    timeline = json.loads(gzip.decompress((made / "synthetic-timeline.json.gz").read_bytes()))
    assert len(timeline["traceEvents"]) > 1000
    assert run("summary", made / "synthetic-report.sqlite").status == 0


def test_demo_elsewhere_and_again(run: Run, folder: Path) -> None:
    for _ in range(2):
        assert run("demo", "-o", "deep/down").status == 0
    assert len(os.listdir(folder / "deep" / "down")) == 2


def test_demo_where_a_file_is(run: Run, folder: Path) -> None:
    (folder / "taken").touch()
    result = run("demo", "-o", "taken")
    assert result.status == 1
    assert result.stderr == "nvtrace: error: cannot make the folder taken: File exists\n"
