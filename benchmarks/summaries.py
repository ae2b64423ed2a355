"""Import and all summaries: of 10^6 kernels, of ten times as many, and of a real report."""

from __future__ import annotations

import sys
from pathlib import Path

from bench import HERE, Bench, say
from goals import Goal
from measuring import Failed, median, run, touch_memory
from peers import Peers, nsys_stats
from truth import check_straightforward, check_summary, check_timeline, events

WHOLE_RUN = """
import sys, nvtrace
from nvtrace import sinks
report, summary, timeline = sys.argv[1:]
trace = nvtrace.load(report)
sinks.write(sinks.render(trace.summary(), "json"), summary)
trace.export(timeline)
"""


def goals(bench: Bench, peers: Peers) -> list[Goal]:
    report = bench.report(1e6)
    cost, said = bench.summary(report, repeat=3)
    say("nvtrace summary, 1e6 kernels", cost)
    bench.wrong.extend(check_summary(report, said))
    others = [*_whole_run(bench), *_ten_times(bench, cost.cpu_s), *_real(bench)]
    figure = "summary, 1e6 kernels"
    return [
        Goal(figure, cost.cpu_s, "CPU s", "nsys stats", peers.cpu_s("nsys stats"), 1 / 60),
        Goal(figure, cost.cpu_s, "CPU s", "nsys-ai", peers.cpu_s("nsys-ai"), 1 / 15),
        Goal(f"{figure}: peak", cost.peak_mb, "MB", "", None, 400),
        *others,
    ]


def _whole_run(bench: Bench) -> list[Goal]:
    """Summaries and timeline in one process, as a user of the library would."""
    report = bench.report(1e5)
    summary, timeline = bench.folder / "whole.json", bench.folder / "whole.chrome.json"
    command = [sys.executable, "-c", WHOLE_RUN, report, summary, timeline]
    # as the command line has it: or numpy's threads, which have nothing to do, spin for a while
    alone = {"OPENBLAS_NUM_THREADS": "1"}
    costs = [run(command, environment=alone) for _ in range(3)]
    cost = say("load, summary and export, 1e5 kernels", median(costs))
    bench.wrong.extend(check_summary(report, summary))
    bench.wrong.extend(check_timeline(report, timeline))
    plain = [sys.executable, HERE / "straightforward.py", report, timeline]
    touch_memory()
    tables = bench.folder / "straightforward.json"
    straight = say("the same in straightforward Python", run(plain, tables))
    bench.wrong.extend(check_straightforward(report, tables))
    figure = "summary and timeline, 1e5 kernels"
    return [Goal(figure, cost.cpu_s, "CPU s", "plain Python", straight.cpu_s, 1 / 15)]


def _ten_times(bench: Bench, cpu_s: float) -> list[Goal]:
    report = bench.report(1e7)
    cost, said = bench.summary(report)
    say("nvtrace summary, 1e7 kernels", cost)
    bench.wrong.extend(check_summary(report, said))
    size = cost.peak_mb * 1e6 / events(report)
    return [
        Goal("summary, 1e7 kernels", cost.cpu_s, "CPU s", "1e6 kernels", cpu_s, 11),
        Goal("summary, 1e7 kernels: peak, an event", size, "bytes", "", None, 110),
    ]


def _real(bench: Bench) -> list[Goal]:
    """The same on a report that somebody recorded; equal to nsys stats by the tests."""
    report = bench.real_report()
    if report is None:
        bench.absent.append(f"a real report: there is none under {bench.data}")
        return []
    size = f"{report.stat().st_size / 1e6:.1f} MB"
    cost, _ = bench.summary(report, repeat=5)
    say(f"nvtrace summary, {report.name}", cost)
    try:
        stats = say("nsys stats", nsys_stats(bench, _writable(bench, report))).cpu_s
    except Failed as error:
        bench.absent.append(f"nsys stats on {report.name}: {error}")
        stats = None
    return [Goal(f"summary, a real report of {size}", cost.cpu_s, "CPU s", "nsys stats", stats, 1)]


def _writable(bench: Bench, report: Path) -> Path:
    """A copy where nsys may write beside it."""
    copy = bench.folder / f"real-{report.name}"
    copy.write_bytes(report.read_bytes())
    return copy
