"""Whether two checkouts say the same of every report, byte for byte: before and after a change.

    git worktree add ../before COMMIT
    python benchmarks/unchanged.py ../before REPORT-OR-FOLDER...

Compares `nvtrace summary` and `nvtrace ranges` as JSON, what they say on standard error, and their
exit status. Ends with 3 where something differs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import HERE

VERBS = ("summary", "ranges")
SUFFIXES = {".sqlite", ".sqlite3", ".db"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("reports", type=Path, nargs="+")
    options = parser.parse_args()
    changed = compared = 0
    for report in found(options.reports):
        for verb in VERBS:
            compared += 1
            if said(options.before.resolve(), verb, report) != said(HERE.parent, verb, report):
                changed += 1
                print(f"nvtrace {verb} {report}: differs")
    print(f"{compared} compared, {changed} differ")
    return 3 if changed or not compared else 0


def found(paths: list[Path]) -> Iterator[Path]:
    for path in map(Path.resolve, paths):
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES)
        else:
            yield path


def said(checkout: Path, verb: str, report: Path) -> tuple[int, bytes, bytes]:
    command = [sys.executable, "-m", "nvtrace", verb, str(report), "--format", "json"]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True)
    return done.returncode, done.stdout, done.stderr


if __name__ == "__main__":
    sys.exit(main())
