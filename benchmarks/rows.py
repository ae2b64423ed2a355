"""Measure one part in a process of its own, where others leave no trace.

python benchmarks/rows.py MODULE OUT.json     MODULE has goals(bench), which returns its rows
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

from bench import HERE, Bench
from goals import Goal
from measuring import Failed, run
from peers import find_nsys


def goals(bench: Bench, module: str, *, nsys: bool = False) -> list[Goal]:
    """Return the rows of a module; with `nsys`, measured while that records the process."""
    out = bench.folder / "rows.json"
    command = [sys.executable, str(HERE / "rows.py"), module, str(out)]
    if nsys:
        program = find_nsys()
        if program is None:
            bench.absent.append(f"{module}.py under nsys: not installed; see scripts/install-nsys")
            return []
        report = str(bench.folder / "profiled")
        options = ["-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-f", "true", "-o", report]
        command = [program, "profile", *options, *command]
    try:
        run(command, bench.folder / "printed.txt")
    except Failed as error:
        bench.absent.append(f"{module}.py: {error}")
        return []
    found = json.loads(out.read_text(encoding="utf-8"))
    bench.wrong.extend(found["wrong"])
    bench.absent.extend(found["absent"])
    return [Goal(**row) for row in found["rows"]]


def main(module: str, out: str) -> None:
    bench = Bench(Path(out).parent, Path())
    rows = [asdict(row) for row in importlib.import_module(module).goals(bench)]
    found = {"rows": rows, "wrong": bench.wrong, "absent": bench.absent}
    Path(out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
