"""How long a user waits for a short answer."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from bench import Bench, say
from goals import Goal
from measuring import run

ROUNDS = 25
NUMPY = [sys.executable, "-c", "import numpy"]
NVTRACE = [str(Path(sys.executable).with_name("nvtrace"))]


def goals(bench: Bench) -> list[Goal]:
    small, medium = bench.report(4e3), bench.report(6.5e4)
    commands = {
        "nvtrace --help": [*NVTRACE, "--help"],
        f"summary, {size(small)}": [*NVTRACE, "summary", str(small)],
        "import nvtrace": [sys.executable, "-c", "import nvtrace"],
    }
    rows = []
    for name, command in commands.items():
        ours, numpy = paired(command, NUMPY)
        rows.append(Goal(name, 1e3 * ours, "CPU ms", "import numpy", 1e3 * numpy, 1.5))
    cost, _ = bench.summary(medium, repeat=7)
    say(f"nvtrace summary, {size(medium)}", cost)
    return [*rows, Goal(f"summary, {size(medium)}", cost.cpu_s, "CPU s", "", None, 1)]


def size(report: Path) -> str:
    return f"a report of {report.stat().st_size / 1e6:.2g} MB"


def paired(command: list[str], peer: list[str]) -> tuple[float, float]:
    """CPU seconds of the pair of runs, one after the other, whose ratio is the median."""
    run(command), run(peer)  # compiles what is not compiled
    pairs = [(run(command).cpu_s, run(peer).cpu_s) for _ in range(ROUNDS)]
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    theirs = statistics.median(numpy for _, numpy in pairs)
    return ratio * theirs, theirs
