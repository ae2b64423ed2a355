"""What nvtrace says of a generated report, beside what the generator knows to be true."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

_KINDS = ("RUNTIME", "KERNEL", "MEMCPY", "MEMSET")
_RANGE = ("process", "name", "category", "style")


def truth_of(report: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads(Path(f"{report}.truth.json").read_text(encoding="utf-8"))
    return truth


def events(report: Path) -> int:
    """How many events it holds: all that is on a timeline."""
    rows: dict[str, int] = truth_of(report)["rows"]
    return rows["NVTX_EVENTS"] + sum(rows[f"CUPTI_ACTIVITY_KIND_{kind}"] for kind in _KINDS)


def check_summary(report: Path, summary: Path) -> list[str]:
    """Compare a summary, as JSON, with the truth; return what differs."""
    said = json.loads(summary.read_text(encoding="utf-8"))
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
                (row["name"], row["domain"], row["process"], *_figures(row, "cpu_"))
                for row in views["user_defined"]
                if "domain" in row and row["domain"] is not None
            },
            {
                (row["name"], row["domain"], str(row["process"]), *_figures(row))
                for row in true["ranges"]
                if row["category"] in ("user", "module", "")
            },
        ),
    }
    return _differences(report.name, pairs)


def _figures(row: dict[str, Any], prefix: str = "") -> tuple[int, ...]:
    return tuple(row[k] for k in ("calls", f"{prefix}total_ns", "gpu_total_ns", "kernels"))


def check_merged(report: Path, copies: int, summary: Path) -> list[str]:
    """Compare the summary of so many copies of a report with the truth of the one."""
    said = json.loads(summary.read_text(encoding="utf-8"))
    true = truth_of(report)
    times = ("gpu_ns", "attributed_gpu_ns", "inferred_gpu_ns", "unattributed_gpu_ns")
    pairs = {
        "GPU time": (
            [said["totals"][key] for key in times if key in true["totals"]],
            [copies * true["totals"][key] for key in times if key in true["totals"]],
        ),
        "kernels": (
            {row["name"]: (row["calls"], row["gpu_total_ns"]) for row in said["views"]["kernel"]},
            {
                row["name"]: (copies * row["calls"], copies * row["total_ns"])
                for row in true["kernels"]
            },
        ),
    }
    return _differences(f"{copies} times {report.name}", pairs)


def check_compared(report: Path, comparison: Path) -> list[str]:
    """Compare what is said of copies of one report with what must be: nothing changed."""
    views = json.loads(comparison.read_text(encoding="utf-8"))["views"]
    steps, kernels = views["steps"], views["kernel"]
    changed = {row["name"] for row in kernels if row["gpu_change_ns"] or row["status"] != "both"}
    known = {row["name"] for row in truth_of(report)["kernels"]}
    pairs = {
        "changes of the step time": ({row["change"] for row in steps[1:]}, {0.0}),
        "kernels that changed": (changed, set()),
        "kernels, of steps alone": ({row["name"] for row in kernels} & known != set(), True),
    }
    return _differences(f"comparing {report.name} with itself", pairs)


def check_straightforward(report: Path, tables: Path) -> list[str]:
    """Compare what the yardstick says with the truth: it has to do the work it is timed for."""
    said, true = json.loads(tables.read_text(encoding="utf-8")), truth_of(report)
    figures = ("calls", "total_ns", "min_ns", "max_ns")
    pairs = {
        "kernels": (
            sorted(said["kernel"]),
            sorted(_row(row, "name", *figures) for row in true["kernels"]),
        ),
        "calls": (
            sorted(said["calls"]),
            sorted(_row(row, "name", *figures) for row in true["calls"]),
        ),
        "copies": (
            sorted(row[:4] for row in said["memory"]),
            sorted(_row(row, "name", "calls", "bytes", "total_ns") for row in true["memory"]),
        ),
        "user-defined ranges": (
            sorted([*row[:8], row[9], row[11]] for row in said["ranges"] if _nested(*row[2:4])),
            sorted(
                _row(row, *_RANGE, *figures, "gpu_total_ns", "kernels")
                for row in true["ranges"]
                if _nested(row["category"], row["style"])
            ),
        ),
        "devices": (
            sorted(row[:2] for row in said["device"]),
            sorted(_row(row, "device", "busy_in_steps_ns") for row in true["devices"]),
        ),
    }
    return _differences(f"straightforward Python on {report.name}", pairs)


def _nested(category: str, style: int) -> bool:
    return category in ("user", "module") and style == 59


def _row(row: dict[str, Any], *names: str) -> list[Any]:
    return [row[name] for name in names]


def check_timeline(report: Path, timeline: Path) -> list[str]:
    """Compare a timeline's kernels, time and arrows with the truth; return what differs."""
    opened = gzip.open if timeline.suffix == ".gz" else open
    with opened(timeline, "rb") as file:
        rows = json.load(file)["traceEvents"]
    true = truth_of(report)
    count = {kind: true["rows"][f"CUPTI_ACTIVITY_KIND_{kind}"] for kind in _KINDS}
    found = Counter((row["ph"], row.get("cat")) for row in rows)
    kernels = [row for row in rows if row["ph"] == "X" and row["cat"] == "kernel"]
    works = count["KERNEL"] + count["MEMCPY"] + count["MEMSET"]
    pairs = {
        "kernels": (len(kernels), count["KERNEL"]),
        "their time": (
            sum(round(1000 * row["dur"]) for row in kernels),
            sum(row["total_ns"] for row in true["kernels"]),
        ),
        "copies": (found["X", "memcpy"], count["MEMCPY"]),
        "calls": (found["X", "cuda"], count["RUNTIME"]),
        "arrows": ([found[phase, "launch"] for phase in "sf"], [works, works]),
    }
    return _differences(timeline.name, pairs)


def _differences(name: str, pairs: dict[str, tuple[Any, Any]]) -> list[str]:
    return [
        f"{name}: {what}: {found}, not {expected}"
        for what, (found, expected) in pairs.items()
        if found != expected
    ]
