"""The timeline of 10^6 kernels: whole runs of `nvtrace trace`, with arrows."""

from __future__ import annotations

import sys
from pathlib import Path

from bench import NVTRACE, Bench, say
from goals import Goal
from measuring import Cost, Failed, median, run, touch_memory
from peers import Peers

WITHOUT_ISAL = "import sys; sys.modules['isal'] = None; from nvtrace.cli import run; run()"


def goals(bench: Bench, peers: Peers) -> list[Goal]:
    report = bench.report(1e6)
    plain, size = _trace(bench, report, "json", NVTRACE)
    peer = peers.cpu_s("nsys2json")  # right behind, for the machine changes from minute to minute
    rows = [
        Goal(
            "timeline, 1e6 kernels: peak",
            plain.peak_mb,
            "MB",
            "summary",
            bench.summary(report)[0].peak_mb,
            2,
        )
    ]
    rows += _compressed(bench, report, plain)
    rows += _protobuf(bench, report, plain, size)
    return [Goal("timeline, 1e6 kernels", plain.cpu_s, "CPU s", "nsys2json", peer, 1 / 18), *rows]


def _trace(bench: Bench, report: Path, suffix: str, program: tuple[str, ...]) -> tuple[Cost, int]:
    """The cost of a timeline, and its bytes."""
    out, costs = bench.folder / f"timeline.{suffix}", []
    touch_memory()
    for _ in range(3):
        costs.append(run([*program, "trace", report, "-o", out]))
        size = out.stat().st_size
        out.unlink()  # to replace a file costs what it takes the system to let go of it
    return say(f"nvtrace trace -o timeline.{suffix}", median(costs)), size


def _compressed(bench: Bench, report: Path, plain: Cost) -> list[Goal]:
    programs = {"zlib": (sys.executable, "-c", WITHOUT_ISAL)}
    try:
        import isal  # noqa: F401 (whether it is there)
    except ImportError:
        bench.absent.append("isal: not installed")
    else:
        programs = {"isal": NVTRACE, **programs}
    rows = []
    for name, program in programs.items():
        cost, _ = _trace(bench, report, "json.gz", program)
        figure = f"timeline in .gz by {name}"
        # by the clock on the wall: what compresses runs beside what writes
        rows.append(Goal(figure, cost.wall_s, "s", "in .json", plain.wall_s, 2))
    return rows


def _protobuf(bench: Bench, report: Path, plain: Cost, plain_size: int) -> list[Goal]:
    try:
        cost, size = _trace(bench, report, "pftrace", NVTRACE)
    except Failed as error:
        bench.absent.append(f"a timeline in .pftrace: {error}")
        return []
    return [
        Goal("timeline in .pftrace", cost.cpu_s, "CPU s", "in .json", plain.cpu_s, 2),
        Goal("timeline in .pftrace: size", size / 1e6, "MB", "in .json", plain_size / 1e6, 1 / 2.5),
    ]
