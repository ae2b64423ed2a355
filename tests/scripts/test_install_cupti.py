"""The installer of CUPTI: what is there stays, what cannot be done is said in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def install(repository: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    script = repository / "scripts" / "install-cupti"
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable}
    command = [script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment)


def test_complete_is_left_alone(repository: Path, tmp_path: Path) -> None:
    python = f"Python {sys.version.split()[0]}"
    (tmp_path / "complete").write_text(f"1 {python}\n")
    (tmp_path / "13.0").mkdir()
    run = install(repository, tmp_path)
    assert (run.returncode, run.stdout.strip(), run.stderr) == (0, str(tmp_path), "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["13.0", "complete"]


@pytest.mark.parametrize("arguments", [("a", "b"), ("--help",)])
def test_wrong_usage(repository: Path, arguments: tuple[str, ...]) -> None:
    run = install(repository, *arguments)
    assert (run.returncode, run.stderr) == (1, "install-cupti: usage: install-cupti [PREFIX]\n")


def test_no_place_to_write(repository: Path) -> None:
    run = install(repository, "/proc/nowhere/cupti")
    assert run.returncode == 1
    assert run.stderr == "install-cupti: cannot create /proc/nowhere\n"
