from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click
import pytest

from nvtrace import cli
from nvtrace.errors import NvtraceError

Run = Callable[..., Any]


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make the verb ``info`` raise ``error``."""

    def fail(*args: object, **kwargs: object) -> NoReturn:
        raise error

    command = click.Command("info", callback=fail)
    monkeypatch.setattr(cli.Verbs, "get_command", lambda self, ctx, name: command)


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_has_help(run: Run, verb: str) -> None:
    result = run(verb, "--help")
    assert result.status == 0
    assert result.stdout.startswith(f"Usage: nvtrace {verb} ")
    assert result.stderr == ""


def test_help_names_every_verb(run: Run) -> None:
    result = run("--help")
    assert result.status == 0
    for verb in cli.VERBS:
        assert f"\n  {verb} " in result.stdout


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from nvtrace.cli import main; main(['--help'])\n"
        "heavy = {'numpy', 'sqlite3', 'nvtx', 'tabulate', 'pandas', 'torch'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_module_and_script_say_the_same() -> None:
    from importlib.metadata import version

    script = Path(sys.executable).with_name("nvtrace")
    for command in ([sys.executable, "-m", "nvtrace"], [str(script)]):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout == f"nvtrace {version('nvtrace')}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("sumary",),
        ("summary",),
        ("summary", "--bogus", "x"),
        ("summary", "--view", "kernels", "x"),
        ("summary", "--sort", "size", "x"),
        ("summary", "--steps", "4:3", "x"),
        ("summary", "--time", "5", "x"),
        ("summary", "--rule", "x=y", "x"),
        ("summary", "--unit", "h", "x"),
        ("summary", "-o", "out.docx", "x"),
        ("ranges", "--top", "-1", "x"),
        ("trace", "x"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(run: Run, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.status == 2
    assert result.stdout == ""
    assert result.stderr.startswith("nvtrace: error: ")
    assert result.stderr.count("\n") == 1
    assert "--help`" in result.stderr


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (NvtraceError("file: wrong\nfix it"), 1, "nvtrace: error: file: wrong fix it\n"),
        (
            PermissionError(13, "Permission denied", "x"),
            1,
            "nvtrace: error: x: Permission denied\n",
        ),
        (MemoryError(), 1, "nvtrace: error: out of memory; "),
        (KeyError("k"), 1, "nvtrace: error: KeyError: 'k'; this is a fault in nvtrace: "),
    ],
)
def test_errors_are_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, line: str
) -> None:
    monkeypatch.delenv("NVTRACE_DEBUG", raising=False)
    raising(monkeypatch, error)
    result = run("info")
    assert result.status == status
    assert result.stderr.startswith(line)
    assert result.stderr.count("\n") == 1


def test_debug_shows_the_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVTRACE_DEBUG", "1")
    raising(monkeypatch, KeyError("k"))
    result = run("info")
    assert result.status == 1
    assert "Traceback (most recent call last)" in result.stderr


def test_interrupt(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, KeyboardInterrupt())
    result = run("info")
    assert result.status == 130
    assert "Traceback" not in result.stderr


UNBUFFERED = pytest.mark.parametrize("unbuffered", ["", "1"])


@UNBUFFERED
def test_closed_pipe_is_quiet(made: Path, unbuffered: str) -> None:
    # More than a pipe holds.
    command = [sys.executable, "-m", "nvtrace", "ranges", made, "--format", "json"]
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=env, **pipes) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert said == b""
    assert process.returncode == 141


@UNBUFFERED
@pytest.mark.parametrize("arguments", [["summary"], ["trace", "-o", "-"]])
def test_full_standard_output(made: Path, unbuffered: str, arguments: list[str]) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    command = [sys.executable, "-m", "nvtrace", *arguments, str(made)]
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, env=env, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("nvtrace: error: ")
    assert "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1


@UNBUFFERED
def test_short_writes_are_not_lost(made: Path, tmp_path: Path, unbuffered: str) -> None:
    # A limit on the size of files takes the first part of a write, like a disk that gets full.
    code = (
        "import resource; from nvtrace.cli import run\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "run()"
    )
    command = [sys.executable, "-c", code, "ranges", str(made), "--format", "json"]
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open(tmp_path / "out", "wb") as out:
        done = subprocess.run(command, env=env, stdout=out, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "nvtrace: error: File too large\n"


def test_closed_standard_output(made: Path) -> None:
    command = f"{shlex.join([sys.executable, '-m', 'nvtrace', 'info', str(made)])} >&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_output_survives_a_narrow_encoding(made: Path) -> None:
    command = [sys.executable, "-m", "nvtrace", "ranges", made]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_completion_comes_with_click() -> None:
    script = Path(sys.executable).with_name("nvtrace")
    env = {**os.environ, "_NVTRACE_COMPLETE": "bash_complete", "COMP_CWORD": "1"}
    env["COMP_WORDS"] = "nvtrace su"
    done = subprocess.run([str(script)], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "plain,summary"
