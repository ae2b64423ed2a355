"""The oldest JAX that is supported: the same tests, in a process of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest

OLDEST = "0.6.2"
FILES = ("test_hooks.py", "test_session.py", "test_phases.py", "test_steps.py")


@pytest.fixture(scope="module")
def old_jax(repository: Path) -> Path:
    folder = repository / ".tools" / f"jax-{OLDEST}"
    wanted = {os.environ.get(name, "").lower() for name in ("CI", "NVTRACE_INSTALL_TOOLS")}
    if wanted - {"", "0", "false", "no"}:
        environment = {**os.environ, "PYTHON": sys.executable}
        script = repository / "scripts" / "install-old-jax"
        subprocess.run([script, folder], env=environment, check=True, timeout=600)
    if not (folder / "complete").exists():
        pytest.skip(f"no jax {OLDEST} in {folder}: run scripts/install-old-jax")
    return folder


@pytest.mark.skipif(jax.__version__ == OLDEST, reason=f"this is jax {OLDEST}")
@pytest.mark.skipif(sys.version_info >= (3, 14), reason=f"jax {OLDEST} ends with Python 3.13")
def test_everything_on_the_oldest_version(old_jax: Path, repository: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(old_jax)}
    here = Path(__file__).parent
    version = subprocess.run(
        [sys.executable, "-c", "import jax; print(jax.__version__)"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert version.stdout.strip() == OLDEST
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *(here / f for f in FILES),
        ],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert re.search(r"\d+ passed", run.stdout)
