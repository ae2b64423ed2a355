"""Import, summarise and export a report of a million kernels, beside nsys and plain Python.

Prints CPU seconds of the whole process tree, wall seconds and peak memory, medians of repeated
runs, and checks what nvtrace says against what the generator of the report knows to be true.

    python benchmarks/million.py [--kernels 1e6] [--repeat 3] [--no-nsys]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from measuring import Cost, median, run

NSYS_REPORTS = (
    "cuda_gpu_kern_sum,nvtx_sum,cuda_api_sum,cuda_gpu_mem_time_sum,nvtx_gpu_proj_sum,nvtx_kern_sum"
)
HERE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=float, default=1e6)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3, help="runs of nvtrace")
    parser.add_argument("--no-nsys", action="store_true", help="nsys takes minutes")
    parser.add_argument("--folder", type=Path, help="keep the files here, in place of a new folder")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="nvtrace-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return benchmark(folder, options)
    finally:
        if not options.folder:
            shutil.rmtree(folder)


def benchmark(folder: Path, options: argparse.Namespace) -> int:
    kernels = int(options.kernels)
    report = generate(folder / "report.sqlite", kernels, options.ranks)
    small = generate(folder / "tenth.sqlite", max(kernels // 10, 1), options.ranks)
    title(report)
    summary, _ = nvtrace(report, options.repeat)
    wrong = check(report)
    if not options.no_nsys:
        compare_with_nsys(report, summary)
    title(small)
    small_summary, small_trace = nvtrace(small, options.repeat)
    wrong += check(small)
    command = [sys.executable, HERE / "straightforward.py", small, folder / "plain.json"]
    plain = say("straightforward Python", run(command))
    both = small_summary.cpu_s + small_trace.cpu_s
    print(f"  ratio: plain Python takes {plain.cpu_s / both:.1f} x the CPU time of nvtrace")
    for line in wrong:
        print(f"WRONG {line}")
    print("figures: all equal to the truth" if not wrong else f"figures: {len(wrong)} are wrong")
    return 3 if wrong else 0


def generate(path: Path, kernels: int, ranks: int) -> Path:
    size = ["--kernels", str(kernels), "--ranks", str(ranks)]
    run([sys.executable, "-m", "nvtrace.demo", path, *size])
    return path


def title(report: Path) -> None:
    rows = truth_of(report)["rows"]
    counts = [
        f"{rows['CUPTI_ACTIVITY_KIND_KERNEL']:,} kernels",
        f"{rows['CUPTI_ACTIVITY_KIND_RUNTIME']:,} calls",
        f"{rows['NVTX_EVENTS']:,} ranges",
    ]
    print(f"\n{', '.join(counts)}, {report.stat().st_size / 1e6:,.0f} MB")
    print(f"  {'':36}{'CPU s':>9}{'wall s':>9}{'peak MB':>9}")


def say(name: str, cost: Cost) -> Cost:
    print(f"  {name:36}{cost.cpu_s:9.2f}{cost.wall_s:9.2f}{cost.peak_mb:9.0f}", flush=True)
    return cost


def nvtrace(report: Path, repeat: int) -> tuple[Cost, Cost]:
    """Time both commands, in turn, so that a change in the machine's speed meets both."""
    command = [sys.executable, "-m", "nvtrace"]
    timeline = report.with_suffix(".json.gz")
    summaries, traces = [], []
    for _ in range(repeat):
        timeline.unlink(missing_ok=True)
        summaries.append(
            run([*command, "summary", report, "--format", "json"], report.with_suffix(".json"))
        )
        traces.append(run([*command, "trace", report, "-o", timeline]))
    return (
        say("nvtrace summary --format json", median(summaries)),
        say("nvtrace trace -o out.json.gz", median(traces)),
    )


def compare_with_nsys(report: Path, summary: Cost) -> None:
    nsys = find_nsys()
    if nsys is None:
        print("  nsys stats: absent (scripts/install-nsys, or set NVTRACE_NSYS)")
        return
    out = report.parent / "stats"
    command = [nsys, "stats", "--report", NSYS_REPORTS, "--format", "csv", "--force-overwrite"]
    cost = say("nsys stats, six reports", run([*command, "true", "--output", out, report]))
    print(
        f"  ratio: nsys stats takes {cost.cpu_s / summary.cpu_s:.1f} x the CPU time of "
        f"nvtrace summary and {cost.peak_mb / summary.peak_mb:.1f} x its memory"
    )


def find_nsys() -> str | None:
    prefix = os.environ.get("NVTRACE_NSYS_PREFIX") or HERE.parent / ".tools" / "nsight-systems"
    installed = Path(prefix) / "target-linux-x64" / "nsys"
    named = os.environ.get("NVTRACE_NSYS")
    return named or (str(installed) if installed.exists() else shutil.which("nsys"))


def truth_of(report: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads(Path(f"{report}.truth.json").read_text(encoding="utf-8"))
    return truth


def check(report: Path) -> list[str]:
    """Compare the summary with the truth; return what differs."""
    said = json.loads(report.with_suffix(".json").read_text(encoding="utf-8"))
    true, views = truth_of(report), said["views"]
    pairs = {
        "totals": ({key: said["totals"][key] for key in true["totals"]}, true["totals"]),
        "kernels": (
            {row["name"]: (row["calls"], row["gpu_total_ns"]) for row in views["kernel"]},
            {row["name"]: (row["calls"], row["total_ns"]) for row in true["kernels"]},
        ),
        "copies": (
            sorted((row["calls"], row["bytes"], row["gpu_total_ns"]) for row in views["memory"]),
            sorted((row["calls"], row["bytes"], row["total_ns"]) for row in true["memory"]),
        ),
        "busy time of the devices": (
            sorted(row["busy_ns"] for row in views["device"] if row["busy_ns"] is not None),
            sorted(row["busy_in_steps_ns"] for row in true["devices"]),
        ),
        "user-defined ranges": (
            {
                (row["name"], row["domain"], row["process"], *figures(row, "cpu_"))
                for row in views["user_defined"]
                if "domain" in row and row["domain"] is not None
            },
            {
                (row["name"], row["domain"], str(row["process"]), *figures(row))
                for row in true["ranges"]
                if row["category"] in ("user", "module", "")
            },
        ),
    }
    return [
        f"{report.name}: {name}: {found}, not {expected}"
        for name, (found, expected) in pairs.items()
        if found != expected
    ]


def figures(row: dict[str, Any], prefix: str = "") -> tuple[int, ...]:
    return tuple(row[k] for k in ("calls", f"{prefix}total_ns", "gpu_total_ns", "kernels"))


if __name__ == "__main__":
    raise SystemExit(main())
