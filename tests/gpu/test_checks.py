"""The checks for a GPU are run one by one, each in its limit; what they say is kept to a line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("checks.py")
EXTRA = """
@check
def good() -> str:
    return "two\\nlines"


@check
def bad() -> str:
    raise AssertionError("3 of 4 rows")


@check
def stuck() -> str:
    time.sleep(900)
    return ""


@check
def dead() -> str:
    os._exit(9)


if __name__"""


def run(script: Path, *names: str) -> tuple[int, list[str]]:
    command = [sys.executable, script, *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def extended(tmp_path: Path, limits: str) -> Path:
    """The script with the checks of EXTRA and other limits: of one check, of all."""
    text = SCRIPT.read_text()
    for old, new in (("\nif __name__", EXTRA), ("= 40.0, 230.0", f"= {limits}")):
        assert text.count(old) == 1
        text = text.replace(old, new)
    (tmp_path / "checks.py").write_text(text)
    return tmp_path / "checks.py"


def test_each_check_is_one_line_and_counts(tmp_path: Path) -> None:
    script = extended(tmp_path, "600.0, 900.0")
    status, lines = run(script, "good", "bad", "dead")
    assert status == 1
    assert len(lines) == 4
    assert lines[0].startswith("ok    good")
    assert lines[0].endswith("  two lines")
    assert lines[1].startswith("FAIL  bad")
    assert lines[1].endswith("AssertionError: 3 of 4 rows")
    assert lines[2].startswith("FAIL  dead")
    assert lines[3].startswith("1 of 3 passed")
    assert run(script, "good")[0] == 0


def test_a_check_that_hangs_is_given_up(tmp_path: Path) -> None:
    status, lines = run(extended(tmp_path, "1.0, 900.0"), "stuck")
    assert (status, lines[0][:11]) == (1, "HANG  stuck")


def test_all_ends_in_time(tmp_path: Path) -> None:
    status, lines = run(extended(tmp_path, "3.0, 4.0"), "good")
    assert (status, lines[0][:4]) == (1, "LATE")


def test_unknown_names() -> None:
    status, lines = run(SCRIPT, "nothing")
    assert status == 2
    assert lines[0].startswith("no check named nothing: choose from versions, rows")
