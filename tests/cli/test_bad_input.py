"""Bad input: one line that says what is wrong, status 1, nothing half-written, no traceback."""

from __future__ import annotations

import io
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nvtrace.sources import nsys_install

Run = Callable[..., Any]

SAYS_NEWER = (  # nsys 2023.4.4, word for word
    "Exportation error: Report was created in Nsight Systems version "
    "(2026.2.1.54-234433681190v0), newer than your current version (2023.4.4.54-234433681190v0).\n"
    "Please update your Nsight Systems to the latest version to view this report."
)


def fails(result: Any, *parts: str, status: int = 1) -> None:
    assert result.status == status, result
    assert result.stdout == ""
    assert result.stderr.startswith("nvtrace: error: ")
    assert result.stderr.count("\n") == 1, result.stderr
    assert "fault in nvtrace" not in result.stderr
    for part in parts:
        assert part in result.stderr


def fake_nsys(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "nsys"
    version = "NVIDIA Nsight Systems version 2023.4.4.54-1v0"
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = --version ]; then echo "{version}"; exit 0; fi\n{script}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("NVTRACE_NSYS", str(program))


@pytest.mark.parametrize("verb", ["summary", "ranges", "info"])
def test_no_file(run: Run, folder: Path, verb: str) -> None:
    fails(run(verb, "absent.sqlite"), "absent.sqlite")


def test_no_match(run: Run, folder: Path) -> None:
    fails(run("summary", "*.sqlite"), "*.sqlite")


def test_folder_without_reports(run: Run, folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "empty" / "notes.txt").write_text("nothing here")
    fails(run("summary", "empty"), "empty")


def test_empty_file(run: Run, folder: Path) -> None:
    (folder / "run.sqlite").touch()
    fails(run("summary", "run.sqlite"), "run.sqlite", "empty")


def test_text_file(run: Run, folder: Path) -> None:
    (folder / "run.sqlite").write_text("not a report\n" * 1000)
    fails(run("summary", "run.sqlite"), "run.sqlite")


@pytest.mark.parametrize("share", [0.9, 0.5, 0.01])
def test_truncated_database(run: Run, folder: Path, made: Path, share: float) -> None:
    whole = made.read_bytes()
    (folder / "run.sqlite").write_bytes(whole[: int(len(whole) * share)])
    fails(run("summary", "run.sqlite"), "run.sqlite")
    assert os.listdir(folder) == ["run.sqlite"]


def test_other_database(run: Run, folder: Path) -> None:
    with sqlite3.connect(folder / "run.sqlite") as db:
        db.execute("CREATE TABLE people (name TEXT)")
    db.close()
    fails(run("summary", "run.sqlite"), "run.sqlite")


def test_one_bad_file_among_good_ones_is_named(run: Run, folder: Path, made: Path) -> None:
    # O-25: nothing is dropped with a vague message.
    shutil.copy(made, folder / "good.sqlite")
    (folder / "bad.sqlite").write_bytes(made.read_bytes()[:20_000])
    fails(run("summary", "good.sqlite", "bad.sqlite"), "bad.sqlite")


def test_report_without_an_nsys(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "run.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report 2025@1@3@7-1v0.")
    monkeypatch.delenv("NVTRACE_NSYS", raising=False)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(nsys_install, "INSTALL_PATTERNS", ())
    advice = "nsys export --type sqlite run.nsys-rep"
    fails(run("summary", "run.nsys-rep"), "nsys 2025.1.3 or newer", advice)


def test_report_of_a_newer_nsys(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nsys(folder, f"cat >&2 <<'END'\n{SAYS_NEWER}\nEND\nexit 1", monkeypatch)
    (folder / "run.nsys-rep").write_bytes(b"some other header")
    fails(run("summary", "run.nsys-rep"), "needs nsys 2026.2.1 or newer", "2023.4.4")
    assert not (folder / "run.sqlite").exists()


def test_empty_report(run: Run, folder: Path) -> None:
    (folder / "run.nsys-rep").touch()
    fails(run("summary", "run.nsys-rep"), "run.nsys-rep", "empty")


def test_folder_is_no_output(run: Run, folder: Path, made: Path) -> None:
    (folder / "out.json").mkdir()
    for verb in ("summary", "trace"):
        fails(run(verb, made, "-o", "out.json"), "out.json")


def test_output_folder_is_absent(run: Run, folder: Path, made: Path) -> None:
    for verb in ("summary", "trace"):
        fails(run(verb, made, "-o", "absent/out.json"), "absent/out.json")
    assert os.listdir(folder) == []


def test_existing_output_is_kept(run: Run, folder: Path, made: Path) -> None:
    (folder / "out.json").write_text("mine")
    for verb in ("summary", "ranges", "info", "trace"):
        fails(run(verb, made, "-o", "out.json"), "out.json exists", "-f")
    assert (folder / "out.json").read_text() == "mine"
    for verb in ("summary", "ranges", "info", "trace"):
        assert run(verb, made, "-f", "-o", "out.json").status == 0
        assert (folder / "out.json").read_text().startswith("{")


@pytest.mark.parametrize("verb", ["summary", "ranges", "trace"])
def test_no_room_for_the_output(folder: Path, made: Path, verb: str) -> None:
    # A limit on the size of files stands for a full disk: the same error path without root.
    code = (
        "import resource, sys; from nvtrace.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, verb, str(made), "-o", "out.json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1
    assert re.fullmatch(r"nvtrace: error: cannot write out.json: .*\n", done.stderr)
    assert os.listdir(folder) == []


def test_full_device(run: Run, folder: Path, made: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    result = run("summary", made, "--format", "json", "-o", "/dev/full")
    fails(result, "/dev/full", "No space left on device")


def test_empty_standard_input(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    fails(run("summary", "-"), "standard input is empty")


def test_standard_input_twice(run: Run, folder: Path) -> None:
    fails(run("summary", "-", "-"), "standard input")


def test_text_on_standard_input(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nsys(folder, "echo 'Exportation error: Version tag is not found' >&2; exit 1", monkeypatch)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hello")))
    fails(run("summary", "-"), "not a report")


def test_steps_outside_the_capture(run: Run, folder: Path, made: Path) -> None:
    fails(run("summary", made, "--steps", "5000:"))


def test_time_outside_the_capture(run: Run, folder: Path, made: Path) -> None:
    # O-15: a window without events is never an idle, healthy profile.
    fails(run("summary", made, "--time", "5000s:"))


def test_absent_rank(run: Run, folder: Path, made: Path) -> None:
    fails(run("summary", made, "--rank", "77"), "77")
