"""Fixtures that the tests share.

``nsys``
    Path of a real Nsight Systems command line, 2023.4.4. Taken from $NVTRACE_NSYS_PREFIX or
    ``.tools/nsight-systems`` (in the user's cache folder where the checkout's path has a space,
    which nsys cannot bear); installed there by ``scripts/install-nsys`` when $CI or
    $NVTRACE_INSTALL_TOOLS is set.
``perfetto``
    The module ``scripts/perfetto_check.py``: ``perfetto.check(path)`` counts what survives in
    Perfetto, ``perfetto.query(path, sql, ...)`` returns rows as dictionaries.
``shared_data``
    Folder of real captures: $NVTRACE_SHARED_DATA or ``../shared/data`` beside the checkout.
``repository``
    Root of the checkout.

Without its tool a test is skipped with the reason; under $CI that is a failure. Captures are not
part of the project, so a test of them is skipped everywhere where they are absent.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no failure, and every run tries the same; --hypothesis-profile=default does not.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

# A shell that puts a run in the background lets it ignore Ctrl-C, and so would what it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_ROOT = Path(__file__).resolve().parents[1]


def _set(name: str) -> bool:
    return os.environ.get(name, "").lower() not in {"", "0", "false", "no"}


def _lacks(reason: str) -> None:
    """Skip the test that needs a tool, or fail it where tools have to be there."""
    if _set("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def repository() -> Path:
    return _ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = Path(os.environ.get("NVTRACE_SHARED_DATA") or _ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real captures at {folder}: set NVTRACE_SHARED_DATA to their folder")
    return folder


@pytest.fixture(scope="session")
def nsys() -> Path:
    tools = _ROOT / ".tools"
    if " " in str(tools):
        tools = Path.home() / ".cache" / "nvtrace"
    prefix = Path(os.environ.get("NVTRACE_NSYS_PREFIX") or tools / "nsight-systems")
    program = prefix / "target-linux-x64" / "nsys"
    if _set("CI") or _set("NVTRACE_INSTALL_TOOLS"):
        script = _ROOT / "scripts" / "install-nsys"
        run = subprocess.run([script, prefix], capture_output=True, text=True, timeout=900)
        if run.returncode:
            _lacks(run.stderr.strip().splitlines()[-1])
    elif not program.exists():
        _lacks(f"no nsys at {program}: run scripts/install-nsys or set NVTRACE_INSTALL_TOOLS=1")
    return program


@pytest.fixture(scope="session")
def perfetto() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "perfetto_check", _ROOT / "scripts" / "perfetto_check.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if absent := module.missing():
        _lacks(f"Perfetto needs {', '.join(absent)}: pip install --group test")
    return module
