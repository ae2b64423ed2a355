"""Run a program and say what it cost."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


class Failed(Exception):
    """A program did not come to a good end; the message says which, and what it printed last."""


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


def run(
    command: Sequence[str | Path],
    stdout: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Cost:
    """Run a program to its end.

    Args:
        command: program and arguments.
        stdout: file for its standard output, which is dropped otherwise.
        environment: what to change in the environment. Compiled modules are kept in any case, as
            they are where nvtrace is installed.

    Raises:
        Failed: it ended with another status than 0.
    """
    variables = {**os.environ, **(environment or {})}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    # Through a small process between: Linux counts in a child's peak what its parent had at hand.
    between = [sys.executable, "-I", "-S", __file__, str(stdout or os.devnull)]
    words = [str(word) for word in command]
    done = subprocess.run([*between, *words], capture_output=True, text=True, env=variables)
    status, *cost = json.loads(done.stdout)
    if status:
        last = done.stderr.strip().splitlines()[-1:]
        raise Failed(f"{' '.join(words)}: exit {status}: {''.join(last)}")
    return Cost(*cost)


def _run(stdout: str, *words: str) -> tuple[int, float, float, float]:
    """Return the status of a program, and its cost."""
    start = time.perf_counter()
    with open(stdout, "wb") as out:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out)
    # wait4 and not wait: its usage is that of this child and its children alone.
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    code = os.waitstatus_to_exitcode(status)
    return code, usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024 / 1e6


def touch_memory() -> None:
    """Have the machine's memory at hand before something large is measured.

    A virtual machine gets memory from its host when it is first touched, at 2 to 4 s of system time
    a GB, and gives back what is not in use: who takes much would pay for it, and who takes little
    not.
    """
    found = Path("/proc/meminfo")
    if not found.exists():
        return
    sizes = dict(line.split(":") for line in found.read_text().splitlines())
    size = min(8 << 30, int(sizes["MemAvailable"].split()[0]) * 1024 // 2)
    run([sys.executable, "-c", f"import numpy; numpy.ones({size}, numpy.uint8)"])


def median(costs: Sequence[Cost]) -> Cost:
    """The median of each figure."""
    return Cost(
        statistics.median(c.cpu_s for c in costs),
        statistics.median(c.wall_s for c in costs),
        statistics.median(c.peak_mb for c in costs),
    )


def total(costs: Sequence[Cost]) -> Cost:
    """The cost of runs one after another: times add up, the greatest peak counts."""
    return Cost(
        sum(c.cpu_s for c in costs),
        sum(c.wall_s for c in costs),
        max(c.peak_mb for c in costs),
    )


if __name__ == "__main__":
    print(json.dumps(_run(*sys.argv[1:])))
