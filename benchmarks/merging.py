"""Eight reports of 10^6 kernels as one."""

from __future__ import annotations

import os

from bench import Bench, say
from goals import Goal
from truth import check_merged

COPIES = 8


def goals(bench: Bench) -> list[Goal]:
    report = bench.report(1e6)
    copies = [bench.folder / f"copy.rank{rank}.sqlite" for rank in range(COPIES)]
    for copy in copies:
        copy.unlink(missing_ok=True)
        os.link(report, copy)
    one, _ = bench.summary(report)
    merged, said = bench.summary(*copies)
    say(f"nvtrace summary, {COPIES} reports of 1e6 kernels", merged)
    bench.wrong.extend(check_merged(report, COPIES, said))
    figure = f"summary, {COPIES} times 1e6 kernels"
    return [
        Goal(figure, merged.cpu_s, "CPU s", "one", one.cpu_s, COPIES * 1.1),
        Goal(f"{figure}: peak", merged.peak_mb, "MB", "one", one.peak_mb, 2),
    ]
