"""Eight reports of 10^6 kernels: as one, and one beside the other."""

from __future__ import annotations

import os

from bench import NVTRACE, Bench, say
from goals import Goal
from measuring import run, touch_memory
from truth import check_compared, check_merged

COPIES = 8
MOST = 1.1 * COPIES


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
    out = bench.folder / "compared.json"
    touch_memory()
    compared = run([*NVTRACE, "compare", *copies, "--format", "json"], out)
    say(f"nvtrace compare, {COPIES} reports of 1e6 kernels", compared)
    bench.wrong.extend(check_compared(report, out))
    return [
        goal
        for verb, cost in (("summary", merged), ("compare", compared))
        for goal in (
            Goal(
                f"{verb}, {COPIES} times 1e6 kernels", cost.cpu_s, "CPU s", "one", one.cpu_s, MOST
            ),
            Goal(
                f"{verb}, {COPIES} times 1e6 kernels: peak",
                cost.peak_mb,
                "MB",
                "one",
                one.peak_mb,
                2,
            ),
        )
    ]
