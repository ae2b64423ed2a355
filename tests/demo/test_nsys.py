"""The real nsys reads a generated report and says what the truth says."""

from __future__ import annotations

import csv
import sqlite3
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from nvtrace.model.nsys_ddl import COLUMNS

LATER_TABLES = {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "TARGET_INFO_CUDA_DEVICE"}
REPORTS = (
    "cuda_gpu_kern_sum",
    "nvtx_sum",
    "nvtx_kern_sum",
    "cuda_api_sum",
    "cuda_gpu_mem_time_sum",
    "nvtx_gpu_proj_sum",
)


@pytest.fixture(scope="module")
def stats(nsys, report, tmp_path_factory) -> dict[str, list[dict[str, str]]]:
    out = tmp_path_factory.mktemp("stats") / "out"
    command = [nsys, "stats", "--report", ",".join(REPORTS), "--format", "csv", "--output", out]
    subprocess.run([*command, report.path], check=True, capture_output=True, timeout=900)
    tables = {}
    for name in REPORTS:
        with Path(f"{out}_{name}.csv").open(encoding="utf-8", newline="") as file:
            tables[name] = list(csv.DictReader(file))
    return tables


def figures(row, count: str = "Instances") -> tuple[int, ...]:
    return tuple(int(row[k]) for k in (count, "Total Time (ns)", "Min (ns)", "Max (ns)"))


def spoken(row) -> str:
    return f"{row['domain']}:{row['name']}" if row["domain"] else row["name"]


def test_cuda_gpu_kern_sum(stats, report):
    expected = {
        row["name"]: (row["calls"], row["total_ns"], row["min_ns"], row["max_ns"])
        for row in report.truth["kernels"]
    }
    assert {row["Name"]: figures(row) for row in stats["cuda_gpu_kern_sum"]} == expected


def test_cuda_api_sum(stats, report):
    expected = defaultdict(int)
    for row in report.truth["calls"]:
        name, _, version = row["name"].rpartition("_v")
        expected[name if len(version) == 4 else row["name"]] += row["calls"]
    assert {row["Name"]: int(row["Num Calls"]) for row in stats["cuda_api_sum"]} == expected


def test_cuda_gpu_mem_time_sum(stats, report):
    names = {
        "[CUDA memcpy Host-to-Device]": "HtoD",
        "[CUDA memcpy Device-to-Host]": "DtoH",
        "[CUDA memcpy Device-to-Device]": "DtoD",
        "[CUDA memset]": "memset",
    }
    expected = {
        row["name"]: (row["calls"], row["total_ns"], row["min_ns"], row["max_ns"])
        for row in report.truth["memory"]
    }
    found = {names[r["Operation"]]: figures(r, "Count") for r in stats["cuda_gpu_mem_time_sum"]}
    assert found == expected


def test_nvtx_sum(stats, report):
    expected = defaultdict(list)
    for row in report.truth["ranges"]:
        if not row["unfinished"]:  # nsys gives such a range an end
            expected[spoken(row)].append(row)
    found = {row["Range"]: figures(row) for row in stats["nvtx_sum"]}
    found.pop("nvtrace:never closed", None)
    assert found == {
        name: (
            sum(r["calls"] for r in rows),
            sum(r["total_ns"] for r in rows),
            min(r["min_ns"] for r in rows),
            max(r["max_ns"] for r in rows),
        )
        for name, rows in expected.items()
    }


def test_nvtx_kern_sum(stats, report):
    expected, found = defaultdict(lambda: (0, 0)), defaultdict(lambda: (0, 0))
    for row in report.truth["ranges"]:
        if row["kernels"]:
            key = spoken(row), str(row["process"])
            expected[key] = add(expected[key], row["kernels"], row["kernel_ns"])
    for row in stats["nvtx_kern_sum"]:
        # nsys joins the call and the kernel that have no correlation id, 0, with each other.
        if row["NVTX Range"] not in ("", "nvtrace:edge around zero"):
            key = row["NVTX Range"], row["PID"]
            found[key] = add(found[key], int(row["Kern Inst"]), int(row["Total Time (ns)"]))
    assert found == expected


def add(sums: tuple[int, int], kernels: int, ns: int) -> tuple[int, int]:
    return sums[0] + kernels, sums[1] + ns


def test_nvtx_gpu_proj_sum_lists_the_ranges_with_work(stats, report):
    # Two ranges with equal bounds vanish from this report of nsys; so do those that end elsewhere.
    found = {row["Range"] for row in stats["nvtx_gpu_proj_sum"]} - {"nvtrace:edge around zero"}
    expected = {
        spoken(row)
        for row in report.truth["ranges"]
        if row["gpu_total_ns"] and not row["name"].startswith("edge equal")
    }
    assert found <= {spoken(row) for row in report.truth["ranges"]}
    if not report.truth["options"]["graph_trace"]:  # nsys 2023.4.4 does not read graph runs
        assert found == expected


def test_tables_are_declared_as_nsys_declares_them(nsys, tmp_path):
    program = "import time; time.sleep(0.01)"
    base = tmp_path / "small"
    record = [nsys, "profile", "-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-o", base]
    export = [nsys, "export", "--lazy=false", "--type", "sqlite", "-o", f"{base}.sqlite"]
    subprocess.run(
        [*record, sys.executable, "-c", program], check=True, capture_output=True, timeout=900
    )
    subprocess.run([*export, f"{base}.nsys-rep"], check=True, capture_output=True, timeout=900)
    real, ours = sqlite3.connect(f"{base}.sqlite"), sqlite3.connect(":memory:")
    for table in COLUMNS.keys() - LATER_TABLES:
        columns = " ".join(COLUMNS[table].split())
        ours.execute(f"CREATE TABLE {table} ({columns})")
        query = f"PRAGMA table_info({table})"
        assert ours.execute(query).fetchall() == real.execute(query).fetchall(), table
    real.close()
    ours.close()
