"""The installer of nsys: what is there stays, what cannot be done is said in one line."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest


def install(repository: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    script = repository / "scripts" / "install-nsys"
    return subprocess.run([script, *arguments], capture_output=True, text=True, timeout=900)


def test_installed_is_left_alone(repository: Path, nsys: Path) -> None:
    before = nsys.stat()
    run = install(repository, nsys.parents[1])
    assert (run.returncode, run.stdout.strip(), run.stderr) == (0, str(nsys), "")
    assert (nsys.stat().st_ino, nsys.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_installed_records_exports_and_reports(nsys: Path, tmp_path: Path) -> None:
    record = ["profile", "-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-o", "r", "true"]
    for arguments in (
        record,
        ["export", "-t", "sqlite", "-o", "r.sqlite", "r.nsys-rep"],
        ["stats", "--force-export=true", "--report", "nvtx_sum", "--format", "csv", "r.nsys-rep"],
    ):
        run = subprocess.run([nsys, *arguments], cwd=tmp_path, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
    assert (tmp_path / "r.sqlite").read_bytes().startswith(b"SQLite format 3\0")


@pytest.mark.parametrize("arguments", [("a", "b"), ("--help",)])
def test_wrong_usage(repository: Path, arguments: tuple[str, ...]) -> None:
    run = install(repository, *arguments)
    assert (run.returncode, run.stderr) == (1, "install-nsys: usage: install-nsys [PREFIX]\n")


def test_path_with_a_space(repository: Path, tmp_path: Path) -> None:
    run = install(repository, tmp_path / "a b")
    assert run.returncode == 1
    assert run.stderr.startswith("install-nsys: nsys does not run from a path with a space: ")
    assert list(tmp_path.iterdir()) == []


def test_no_place_to_write(repository: Path) -> None:
    if not os.path.exists("/etc/debian_version"):
        pytest.skip("the installer needs Debian")
    run = install(repository, "/proc/nowhere/nsys")
    assert run.returncode == 1
    assert run.stderr == "install-nsys: cannot create /proc/nowhere\n"
