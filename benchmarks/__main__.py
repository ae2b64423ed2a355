"""Measure nvtrace beside its peers and its goals, and print one table.

    python benchmarks [PART...] [--folder F] [--data F]

Parts: summaries, timelines, merging, startup, ranges, capture, torch, paddle; all by default. Times
are CPU time: user and system, of the whole process tree. Ends with 3 where a figure is wrong.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import merging
import rows
import startup
import summaries
import timelines
from bench import HERE, Bench
from goals import Goal, table
from peers import Peers

DATA = os.environ.get("NVTRACE_DATA") or HERE.parent.parent / "shared" / "data"


def main() -> int:
    start = time.perf_counter()
    options = arguments()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="nvtrace-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(folder, options.data)
    known = parts(bench)
    try:
        found = [row for name in options.parts for row in measured(name, known[name])]
    finally:
        if not options.folder:
            shutil.rmtree(folder)
    print(f"\n{machine()}; {(time.perf_counter() - start) / 60:.0f} minutes\n\n{table(found)}\n")
    for line in bench.absent:
        print(f"not measured: {line}")
    for line in bench.wrong:
        print(f"WRONG {line}")
    print("figures: all as they should be" if not bench.wrong else "figures: SOME ARE WRONG")
    return 3 if bench.wrong else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__.splitlines()[0])
    names = list(parts(Bench(Path(), Path())))
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(names))
    parser.add_argument("--folder", type=Path, help="keep the files here, in place of a new folder")
    parser.add_argument("--data", type=Path, default=DATA, help="a folder of real reports")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(names):
        parser.error(f"no part is called {', '.join(unknown)}: choose from {', '.join(names)}")
    options.parts = options.parts or names
    return options


def parts(bench: Bench) -> dict[str, Callable[[], list[Goal]]]:
    """What is measured, one thing at a time."""

    @cache
    def peers() -> Peers:
        return Peers(bench, bench.report(1e6))

    return {
        "summaries": lambda: summaries.goals(bench, peers()),
        "timelines": lambda: timelines.goals(bench, peers()),
        "merging": lambda: merging.goals(bench),
        "startup": lambda: startup.goals(bench),
        "ranges": lambda: [*rows.goals(bench, "ranges"), *rows.goals(bench, "ranges", nsys=True)],
        "capture": lambda: rows.goals(bench, "capture"),
        "torch": lambda: rows.goals(bench, "torch_adapter"),
        "paddle": lambda: rows.goals(bench, "paddle_adapter"),
    }


def measured(name: str, part: Callable[[], list[Goal]]) -> list[Goal]:
    print(name, flush=True)
    return part()


def machine() -> str:
    """What the figures come from, in a line."""
    names = [line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")]
    model = names[0] if names else platform.machine()
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}"


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


if __name__ == "__main__":
    sys.exit(main())
