"""Marking and recording in Python alone, as where no compiler was: the same tests once more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WITHOUT = """
import sys
sys.modules["nvtrace.native.recorder"] = None  # an import of it fails
import pytest
status = pytest.main([*sys.argv[1:], "-q", "-p", "no:cacheprovider", "-p", "no:xdist"])
from nvtrace.emit.native import BestNest, Block
assert (BestNest.__module__, Block.__module__) == ("nvtrace.emit.nest", "nvtrace.emit.blocks")
raise SystemExit(status)
"""


def test_marking_without_the_native_part(repository: Path) -> None:
    files = [repository / "tests" / name for name in ("test_ranges.py", "test_phases.py")]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *files], cwd=repository, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
