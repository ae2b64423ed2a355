"""Verbs that read reports start no threads of numpy's; programs that are run keep theirs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SAID = (
    "import os; from nvtrace.cli import run\n"
    "def end(_):\n"
    "    print(os.environ.get('OPENBLAS_NUM_THREADS'), len(os.listdir('/proc/self/task')))\n"
    "os._exit = end\n"
    "run()"
)


def said(*arguments: str | Path, chosen: str | None = None) -> list[str]:
    env = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    env |= {"OPENBLAS_NUM_THREADS": chosen} if chosen else {}
    command = [sys.executable, "-c", SAID, *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize("verb", ["summary", "info", "ranges", "compare", "trace"])
def test_threads_that_multiply_matrices_are_not_started(made: Path, folder: Path, verb: str):
    more = {"compare": [made], "trace": ["-o", folder / "timeline.json"]}.get(verb, [])
    assert said(verb, made, *more) == ["1", "1"]


def test_who_chose_a_number_keeps_it(made: Path):
    assert said("summary", made, chosen="3")[0] == "3"


def test_a_program_that_is_run_is_not_told_how_many_to_start(folder: Path):
    Path("train.py").write_text("import os; print(os.environ.get('OPENBLAS_NUM_THREADS'))")
    command = [sys.executable, "-m", "nvtrace", "run", "--no-summary", "train.py"]
    env = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "None"
