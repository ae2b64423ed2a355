"""The commands of the guide to nsys, run with the real one."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

TRAINING = """
import time
import nvtrace

with nvtrace.range("before"):
    pass
for number in range(3):
    with nvtrace.step(number):
        with nvtrace.phase("forward"):
            pass
    time.sleep(0.5)  # nsys needs a moment to end a capture, sometimes more
open("finished", "w").close()
"""


@pytest.fixture
def record(folder: Path, repository: Path, nsys: Path) -> Callable[[str], list[Path]]:
    """Run the guide's command that holds ``option``, and return the reports it made."""
    guide = (repository / "docs" / "guides" / "nsys.md").read_text()
    commands = re.findall(r"^\$ (nsys profile .*)$", guide, re.MULTILINE)
    (folder / "train.py").write_text(TRAINING)

    def run(option: str) -> list[Path]:
        command = next(command for command in commands if option in command)
        program = {"nsys": str(nsys), "python": sys.executable}
        words = [program.get(word, word) for word in shlex.split(command)]
        for _ in range(3):  # once in many runs, nsys ends its capture without a report
            said = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)
            reports = sorted(folder.glob("*.nsys-rep"))
            if reports:
                return reports
        raise AssertionError(f"no report: {said.stdout}\n{said.stderr}")

    return run


def names(run: Run, report: Path, nsys: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("NVTRACE_NSYS", str(nsys))
    result = run("ranges", report, "--format", "json")
    assert result.status == 0, result.stderr
    return sorted(row["name"] for row in json.loads(result.stdout)["views"]["ranges"])


def test_plain_recording(
    run: Run, record: Callable[[str], list[Path]], nsys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (report,) = record("-o report python")
    expected = ["before", *["forward"] * 3, *["step"] * 3]
    assert names(run, report, nsys, monkeypatch) == expected


def test_capture_of_one_step(
    run: Run,
    folder: Path,
    record: Callable[[str], list[Path]],
    nsys: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # O-17: nsys compares registered strings, and wants the domain.
    (report,) = record("-c nvtx -p step@nvtrace --capture-range-end=stop")
    found = names(run, report, nsys, monkeypatch)
    steps = found.count("step")
    assert steps >= 1
    assert found == [*["forward"] * steps, *["step"] * steps]  # and nothing from before
    assert (folder / "finished").exists()
