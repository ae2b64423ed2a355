"""CUPTI without a GPU: real libraries to parse records, and stand-ins that a capture runs against.

``cupti``
    Folder that ``scripts/install-cupti`` fills. Taken from $NVTRACE_CUPTI_PREFIX or
    ``.tools/cupti``; installed there when $CI or $NVTRACE_INSTALL_TOOLS is set.
``shim``
    The native part, built from its source.
``double``
    ``double(script, **environment)`` runs a script in which cupti-python finds the stand-ins for
    CUPTI 13.0 and its driver, and nvtrace the shim; returns what it printed, as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PREAMBLE = """
import ctypes, json, os, sys, time
from pathlib import Path
import numpy as np
from nvtrace.errors import CollectorUnavailable
from nvtrace.sources.cupti import Collector, diagnose, diagnosis, shim
if os.environ.get("TEST_SHIM"):
    shim.LIBRARY = Path(os.environ["TEST_SHIM"])
if os.environ.get("TEST_NODES"):
    diagnosis.device_nodes = lambda: int(os.environ["TEST_NODES"])
"""


def _set(name: str) -> bool:
    return os.environ.get(name, "").lower() not in {"", "0", "false", "no"}


def lacks(reason: str) -> None:
    """Skip the test that needs a tool, or fail it where tools have to be there."""
    if _set("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def cupti() -> Path:
    prefix = Path(os.environ.get("NVTRACE_CUPTI_PREFIX") or ROOT / ".tools" / "cupti")
    if _set("CI") or _set("NVTRACE_INSTALL_TOOLS"):
        run = subprocess.run(
            [ROOT / "scripts" / "install-cupti", prefix],
            capture_output=True,
            text=True,
            timeout=900,
            env={**os.environ, "PYTHON": sys.executable},
        )
        if run.returncode:
            lacks(run.stderr.strip().splitlines()[-1])
    elif not (prefix / "complete").exists():
        lacks(f"no CUPTI at {prefix}: run scripts/install-cupti or set NVTRACE_INSTALL_TOOLS=1")
    return prefix


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    compiler = shutil.which("cc")
    if compiler is None:
        lacks("no cc: install a C compiler")

    def build(source: Path, target: str, *flags: str) -> Path:
        library = tmp_path_factory.mktemp("built") / target
        library.parent.mkdir(parents=True, exist_ok=True)
        command = [compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        subprocess.run([*command, "-pthread", *flags, "-o", library, source], check=True)
        return library

    return build


@pytest.fixture(scope="session")
def shim(build: Callable[..., Path]) -> Path:
    return build(ROOT / "nvtrace" / "native" / "buffers.c", "buffers.so")


@pytest.fixture(scope="session")
def driver_double(build: Callable[..., Path]) -> Path:
    return build(HERE / "driver.c", "libcuda.so.1", "-Wl,-soname,libcuda.so.1")


@pytest.fixture(scope="session")
def cupti_double(build: Callable[..., Path]) -> Path:
    return build(HERE / "cupti.c", "libcupti.so.13", "-Wl,-soname,libcupti.so.13")


@pytest.fixture(scope="session")
def site(cupti: Path, cupti_double: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages in which cupti-python 13.0 finds the stand-in as its library."""
    folder = tmp_path_factory.mktemp("site")
    for package in (cupti / "13.0").glob("cupti*"):
        if package.name != "cupti-python-samples":
            (folder / package.name).symlink_to(package)
    (folder / "nvidia/cu13/lib").mkdir(parents=True)
    (folder / "nvidia/cu13/lib/libcupti.so.13").symlink_to(cupti_double)
    return folder


def run_script(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script after PREAMBLE, without the variables that tools set."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("NVTX", "NVTRACE", "NSYS", "CUDA", "DOUBLE", "LD_"))
    }
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", PREAMBLE + script],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=900,
    )


@pytest.fixture
def double(
    site: Path, cupti: Path, driver_double: Path, shim: Path, tmp_path: Path
) -> Callable[..., Any]:
    def run(script: str, **environment: str) -> Any:
        given = {
            "PYTHONPATH": f"{site}:{cupti / 'support'}",
            "LD_LIBRARY_PATH": str(driver_double.parent),
            "TEST_SHIM": str(shim),
            "TEST_NODES": "1",
            "DOUBLE_LOG": str(tmp_path / "log"),
        }
        done = run_script(script, **{**given, **environment})
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout) if done.stdout else None

    return run
