"""``events(script)``: what a Python script sends to an NVTX tool, told by the tool itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest


class Event(NamedTuple):
    pid: int
    thread: int
    kind: str
    domain: str
    category: str
    color: str
    payload: str
    registered: bool
    name: str


@pytest.fixture(scope="session")
def injection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        if os.environ.get("CI"):
            pytest.fail("no cc to compile the NVTX tool of the tests", pytrace=False)
        pytest.skip("no cc to compile the NVTX tool of the tests: install a C compiler")
    library = tmp_path_factory.mktemp("nvtx") / "injection.so"
    source = Path(__file__).with_name("injection.c")
    command = [compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, source]
    subprocess.run(command, check=True)
    return library


@pytest.fixture
def events(injection: Path, tmp_path: Path) -> Callable[..., list[Event]]:
    def run(script: str, **environment: str) -> list[Event]:
        log = tmp_path / "events"
        log.unlink(missing_ok=True)
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("NVTX", "NVTRACE"))}
        tool = {"NVTX_INJECTION64_PATH": str(injection), "NVTX_TEST_LOG": str(log)}
        subprocess.run(
            [sys.executable, "-W", "error", "-c", script],
            env={**clean, **tool, **environment},
            cwd=tmp_path,
            check=True,
            timeout=900,
        )
        if not log.exists():
            return []
        rows = [line.split("\t") for line in log.read_text().splitlines()]
        return [Event(int(r[0]), int(r[1]), *r[2:7], r[7] == "1", r[8]) for r in rows]

    return run
