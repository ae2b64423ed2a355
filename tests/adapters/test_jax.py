"""The tests of the JAX adapter, in processes of their own.

JAX warns wherever a process that imported it forks, as other tests do; and the adapter would be at
work in all of them. ``pytest tests/adapters/jax`` runs the tests themselves.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "jax"
OLDEST = "0.6.2"
ON_OLDEST = ("test_hooks.py", "test_session.py", "test_phases.py", "test_steps.py")


def _set(name: str) -> bool:
    return os.environ.get(name, "").lower() not in {"", "0", "false", "no"}


def version(environment: dict[str, str]) -> str:
    """Return the version of JAX that a Python with this environment imports."""
    command = [sys.executable, "-c", "import jax; print(jax.__version__)"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return found.stdout.strip()


def run(paths: list[Path], repository: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert re.search(r"\d+ passed", done.stdout)


@pytest.fixture(scope="module", autouse=True)
def _has_jax() -> None:
    if importlib.util.find_spec("jax") is None:
        if _set("CI"):
            pytest.fail("no jax: pip install --group test", pytrace=False)
        pytest.skip("no jax: pip install --group test")


@pytest.fixture(scope="module")
def old_jax(repository: Path) -> Path:
    folder = repository / ".tools" / f"jax-{OLDEST}"
    if _set("CI") or _set("NVTRACE_INSTALL_TOOLS"):
        environment = {**os.environ, "PYTHON": sys.executable}
        script = repository / "scripts" / "install-old-jax"
        subprocess.run([script, folder], env=environment, check=True, timeout=900)
    if not (folder / "complete").exists():
        pytest.skip(f"no jax {OLDEST} in {folder}: run scripts/install-old-jax")
    return folder


def test_this_version(repository: Path) -> None:
    run([FOLDER], repository, dict(os.environ))


@pytest.mark.skipif(sys.version_info >= (3, 14), reason=f"jax {OLDEST} ends with Python 3.13")
def test_the_oldest_version(old_jax: Path, repository: Path) -> None:
    if version(dict(os.environ)) == OLDEST:
        pytest.skip(f"this is jax {OLDEST}")
    environment = {**os.environ, "PYTHONPATH": str(old_jax)}
    assert version(environment) == OLDEST
    run([FOLDER / name for name in ON_OLDEST], repository, environment)
