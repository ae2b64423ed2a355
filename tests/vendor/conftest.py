"""Reports as nvtrace reads them, and what NVIDIA's own ``nsys stats`` says of the same file.

Real captures come from the ``shared_data`` folder, with what nsys 2023.4.4 prints for most of them
beside it; generated reports need nothing but nsys.
"""

from __future__ import annotations

import csv
import gzip
import io
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nvtrace
from nvtrace.demo import write_report
from nvtrace.model.schema import RangeStyle

REPORTS = (
    "cuda_api_sum",
    "cuda_gpu_kern_sum",
    "cuda_gpu_mem_size_sum",
    "cuda_gpu_mem_time_sum",
    "nvtx_gpu_proj_trace",
    "nvtx_kern_sum",
    "nvtx_pushpop_trace",
    "nvtx_sum",
)
GENERATED: dict[str, dict[str, Any]] = {
    "generated": {"kernels": 800, "ranks": 2},
    "generated_nodes": {"kernels": 500, "ranks": 2, "seed": 3, "graph": True},
    "generated_edges": {
        "kernels": 500,
        "ranks": 3,
        "seed": 7,
        "graph": True,
        "graph_trace": True,
        "edge": True,
        "unfinished": True,
    },
    "generated_ended_elsewhere": {"kernels": 300, "ranks": 1, "seed": 1},
    "generated_backtraces": {"kernels": 100, "ranks": 1},
    "generated_domain_twice": {"kernels": 100, "ranks": 1},
    "generated_reversed": {"kernels": 100, "ranks": 1},
}
# what captures do hold, and the generator does not write
CHANGES = {
    "generated_ended_elsewhere": """
        UPDATE NVTX_EVENTS SET endGlobalTid = globalTid + 1
            WHERE textId = (SELECT id FROM StringIds WHERE value = 'epoch');
    """,
    "generated_backtraces": """
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME
                (start, end, eventClass, globalTid, correlationId, nameId, returnValue)
            SELECT start, end, 67, globalTid, correlationId, nameId, returnValue
            FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE rowid % 3 = 0;
    """,
    "generated_domain_twice": """
        INSERT INTO NVTX_EVENTS (start, eventType, domainId, text, globalTid)
            SELECT start + 1, eventType, domainId, text, globalTid + 1
            FROM NVTX_EVENTS WHERE eventType = 75 AND text = 'nvtrace';
    """,
    "generated_reversed": """
        UPDATE NVTX_EVENTS SET end = start - 10 WHERE rowid =
            (SELECT min(rowid) FROM NVTX_EVENTS WHERE eventType = 59 AND end IS NOT NULL);
    """,
}

Row = dict[str, str]
Printed = Callable[[str], list[Row]]


class Case:
    """One report, seen by both."""

    def __init__(self, name: str, path: Path, printed: Printed) -> None:
        self.name = name
        self.path = path
        self.vendor = printed

    @cached_property
    def trace(self) -> nvtrace.Trace:
        return nvtrace.load(self.path)

    def view(self, key: str) -> list[dict[str, Any]]:
        return self.trace.summary([key])[key].rows()

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro&immutable=1", uri=True)) as rows:
            return rows.execute(query).fetchall()

    def has(self, table: str) -> bool:
        return bool(self.sql(f"SELECT 1 FROM sqlite_master WHERE name = '{table}'"))

    @cached_property
    def ranges(self) -> list[dict[str, Any]]:
        """The rows of ``ranges_report``, with names and styles as nsys words them."""
        rows = self.trace.ranges_report()["ranges"].rows()
        for row in rows:
            name = f"{row['name']}, {row['attributes']}" if row["attributes"] else row["name"]
            row["label"] = f"{row['domain']}:{name}" if row["domain"] else name
            row["style"] = {"push/pop": "PushPop", "start/end": "StartEnd"}[row["style"]]
            row["start_ns"] += self.trace.shift_ns
        return rows

    @cached_property
    def contained(self) -> list[np.ndarray]:
        """For each of ``ranges`` the device rows whose call it contains, by plain search."""
        trace, launched_by = self.trace, self.trace.explain().device_call
        launched = np.flatnonzero(launched_by >= 0)
        calls, ranges = trace.calls, trace.ranges
        call = launched_by[launched]
        start, end, thread = (calls[column][call] for column in ("start", "end", "thread"))
        by_thread = {one: np.flatnonzero(thread == one) for one in np.unique(thread).tolist()}
        found = []
        for row in np.flatnonzero(ranges["style"] != RangeStyle.MARK).tolist():
            here = by_thread.get(int(ranges["thread"][row]), np.empty(0, np.int64))
            inside = (start[here] >= ranges["start"][row]) & (end[here] <= ranges["end"][row])
            found.append(launched[here[inside]])
        return found


def _read(text: str) -> list[Row]:
    """Return rows by heading, without the headings' units: nsys writes them in two ways."""
    rows = list(csv.reader(io.StringIO(text, newline="")))
    titles = [title.partition(":")[0].partition(" (")[0] for title in rows[0]] if rows else []
    return [dict(zip(titles, row, strict=True)) for row in rows[1:]]


@pytest.fixture(scope="session")
def nsys_stats(request, tmp_path_factory) -> Callable[[Path], Printed]:
    def run(path: Path) -> Printed:
        folder = tmp_path_factory.mktemp("stats")
        copy = folder / "report.sqlite"  # nsys may write into the file it reads
        shutil.copyfile(path, copy)
        command = [request.getfixturevalue("nsys"), "stats", "--report", ",".join(REPORTS)]
        command += ["--format", "csv:mem=B", "--output", folder / "out", copy]
        subprocess.run(command, check=True, capture_output=True, timeout=900)
        return lambda name: _read((folder / f"out_{name}.csv").read_text(encoding="utf-8"))

    return run


@pytest.fixture(scope="session")
def case(request, nsys_stats, tmp_path_factory) -> Callable[[str], Case]:
    """A function name -> Case: of GENERATED, else of the real captures."""
    made: dict[str, Case] = {}

    def generated(name: str) -> Case:
        path = tmp_path_factory.mktemp(name) / "run.sqlite"
        write_report(path, **GENERATED[name])
        with closing(sqlite3.connect(path)) as rows:
            rows.executescript(CHANGES.get(name, ""))
        return Case(name, path, nsys_stats(path))

    def real(name: str) -> Case:
        shared = request.getfixturevalue("shared_data")
        (path,) = [*shared.glob(f"nsys/{name}_*.sqlite"), *shared.glob(f"*-here/{name}.sqlite")]
        run: list[Printed] = []

        def printed(report: str) -> list[Row]:
            kept = path.parent / "expected" / f"{name}.{report}.csv.gz"
            plain = path.parent / f"{name}.{report}.csv"
            if kept.exists():
                return _read(gzip.decompress(kept.read_bytes()).decode())
            if plain.exists():
                return _read(plain.read_text(encoding="utf-8"))
            run[:] = run or [nsys_stats(path)]
            return run[0](report)

        return Case(name, path, printed)

    def find(name: str) -> Case:
        if name not in made:
            made[name] = generated(name) if name in GENERATED else real(name)
        return made[name]

    return find
