"""Run a program and say what it cost."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cost:
    """What one run took, with all processes that it started and waited for.

    Attributes:
        cpu_s: user and system time of the whole tree.
        wall_s: time that passed.
        peak_mb: greatest resident size of any one process of the tree, in 1e6 bytes.
    """

    cpu_s: float
    wall_s: float
    peak_mb: float


def run(command: Sequence[str | Path], stdout: Path | None = None) -> Cost:
    """Run a program to its end.

    Args:
        command: program and arguments.
        stdout: file for its standard output, which is dropped otherwise.

    Raises:
        SystemExit: the program failed; says what it printed last.
    """
    words = [str(word) for word in command]
    start = time.perf_counter()
    with open(stdout or os.devnull, "wb") as out, open(os.devnull, "rb") as nothing:
        process = subprocess.Popen(words, stdin=nothing, stdout=out, stderr=subprocess.PIPE)
        assert process.stderr is not None
        errors = process.stderr.read()
        # wait4 and not wait: its usage is that of this child and its children alone.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stderr.close()
    wall = time.perf_counter() - start
    if process.returncode:
        last = errors.decode(errors="replace").strip().splitlines()[-1:]
        raise SystemExit(f"{' '.join(words)}: exit {process.returncode}: {''.join(last)}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024 / 1e6)


def median(costs: Sequence[Cost]) -> Cost:
    """The median of each figure."""
    return Cost(
        statistics.median(c.cpu_s for c in costs),
        statistics.median(c.wall_s for c in costs),
        statistics.median(c.peak_mb for c in costs),
    )
