"""What the parts of the benchmark share: its reports, runs of nvtrace, and what went wrong."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from measuring import Cost, median, run, touch_memory

HERE = Path(__file__).parent
NVTRACE = (sys.executable, "-m", "nvtrace")


@dataclass(frozen=True)
class Bench:
    """One run of the benchmark.

    Attributes:
        folder: where its files go.
        data: a folder of real reports; it may be absent.
        wrong: figures of nvtrace that are not what they should be.
        absent: what was not measured, and why.
    """

    folder: Path
    data: Path
    wrong: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)

    def report(self, kernels: float) -> Path:
        """Return a report of so many kernels, of two processes; made where it is not there yet."""
        path = self.folder / f"kernels-{kernels:.0f}.sqlite"
        if not path.exists():
            size = ["--kernels", f"{kernels:.0f}", "--ranks", "2"]
            run([sys.executable, "-m", "nvtrace.demo", path, *size])
        return path

    def summary(self, *reports: Path, repeat: int = 1) -> tuple[Cost, Path]:
        """Summarise reports as one, all views; return the median cost and the JSON."""
        out = self.folder / "summary.json"
        touch_memory()
        command = [*NVTRACE, "summary", *reports, "--format", "json"]
        return median([run(command, out) for _ in range(repeat)]), out

    def real_report(self) -> Path | None:
        """Return the largest real report at hand."""
        found = self.data.glob("**/*.sqlite")
        return max(found, key=lambda path: path.stat().st_size, default=None)


def say(name: str, cost: Cost) -> Cost:
    """Print what one run took, as it comes."""
    print(
        f"  {name:52}{cost.cpu_s:9.2f} s CPU{cost.wall_s:9.2f} s{cost.peak_mb:9,.0f} MB", flush=True
    )
    return cost
