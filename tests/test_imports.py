"""``import nvtrace`` is light: it loads no framework and takes little longer than numpy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "cuda",
    "cupti",
    "cupy",
    "jax",
    "matplotlib",
    "paddle",
    "pandas",
    "polars",
    "pyarrow",
    "torch",
}
LATER = {"click", "sqlite_utils", "tabulate"}  # for the command line, for reading and for tables


def run(code: str, cwd: Path) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import nvtrace", HEAVY | LATER),
        ("import nvtrace; [getattr(nvtrace, name) for name in nvtrace.__all__]", HEAVY),
        ("import nvtrace.cli", HEAVY),
        ("import nvtrace.adapters", HEAVY),
    ],
)
def test_import_loads_nothing_heavy(code: str, absent: set[str], tmp_path: Path) -> None:
    loaded = json.loads(
        run(f"{code}; import json, sys; print(json.dumps(list(sys.modules)))", tmp_path)
    )
    assert "nvtrace" in loaded
    assert absent & {name.split(".")[0] for name in loaded} == set()


def test_import_leaves_the_gpu_driver_alone(tmp_path: Path) -> None:
    code = "import nvtrace; print(open('/proc/self/maps').read())"
    maps = run(code, tmp_path)
    assert "[stack]" in maps
    for library in ("libcuda.so", "libcudart.so", "libcupti.so"):
        assert library not in maps


def test_import_loads_next_to_nothing(tmp_path: Path) -> None:
    """That is why it takes no time."""
    code = "import sys; before = set(sys.modules); import nvtrace; {}"
    loaded = run(code.format("print(*set(sys.modules) - before)"), tmp_path).split()
    assert "nvtrace" in loaded
    assert len(loaded) < 20
