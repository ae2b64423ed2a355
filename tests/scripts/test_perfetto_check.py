"""The judge of timelines, judged: small traces worked by hand."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def slice_(name: str, ts: float, dur: float, tid: int = 1) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur}


NESTED = [slice_("outer", 0, 10), slice_("inner", 2, 3), slice_("kernel", 4, 5, tid=2)]
ARROW = [
    {"ph": "s", "id": 1, "name": "launch", "cat": "a", "pid": 1, "tid": 1, "ts": 3},
    {"ph": "f", "bp": "e", "id": 1, "name": "launch", "cat": "a", "pid": 1, "tid": 2, "ts": 4},
]
COUNTER = [{"ph": "C", "name": "memory", "pid": 1, "ts": t, "args": {"bytes": t}} for t in (1, 2)]
CROSSING = [slice_("a", 0, 10), slice_("b", 5, 10)]


def write(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    return path


def test_what_survives_is_counted(perfetto: ModuleType, tmp_path: Path) -> None:
    found = perfetto.check(write(tmp_path / "t.json", [*NESTED, *ARROW, *COUNTER]))
    assert found == {
        "slices": 3,
        "flows": 1,
        "processes": 1,
        "threads": 2,
        "counters": 2,
        "unfinished": 0,
        "max_depth": 1,
        "lost": [],
    }


def test_gzip_is_read(perfetto: ModuleType, tmp_path: Path) -> None:
    plain = write(tmp_path / "t.json", NESTED)
    packed = tmp_path / "t.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert perfetto.check(packed) == perfetto.check(plain)


def test_crossing_slices_are_reported_as_lost(perfetto: ModuleType, tmp_path: Path) -> None:
    found = perfetto.check(write(tmp_path / "t.json", CROSSING))
    assert found["slices"] == 1
    assert [(lost["name"], lost["value"]) for lost in found["lost"]] == [
        ("slice_drop_overlapping_complete_event", 1)
    ]


def test_open_slice_is_unfinished(perfetto: ModuleType, tmp_path: Path) -> None:
    begin = {"ph": "B", "name": "open", "pid": 1, "tid": 1, "ts": 1}
    assert perfetto.check(write(tmp_path / "t.json", [begin, *NESTED[2:]]))["unfinished"] == 1


def test_queries_return_rows(perfetto: ModuleType, tmp_path: Path) -> None:
    trace = write(tmp_path / "t.json", NESTED)
    names, empty, mixed = perfetto.query(
        trace,
        "select name, ts, dur from slice order by ts",
        "select name from slice where dur > 1000000",
        "select null as missing, 1.5 as half, -1 as less, '' as text",
    )
    assert names == [
        {"name": "outer", "ts": 0, "dur": 10_000},
        {"name": "inner", "ts": 2_000, "dur": 3_000},
        {"name": "kernel", "ts": 4_000, "dur": 5_000},
    ]
    assert empty == []
    assert mixed == [{"missing": None, "half": 1.5, "less": -1, "text": ""}]


@pytest.mark.parametrize(("text", "query"), [("hello", "select 1"), ("[]", "select nothing")])
def test_failure_is_an_error(perfetto: ModuleType, tmp_path: Path, text: str, query: str) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(perfetto.PerfettoError, match=r"t\.json: "):
        perfetto.query(tmp_path / "t.json", query)


@pytest.mark.parametrize(
    ("content", "status"), [(NESTED, 0), (CROSSING, 1), (None, 2)], ids=["whole", "lost", "absent"]
)
def test_exit_status(
    perfetto: ModuleType, tmp_path: Path, content: list[dict[str, Any]] | None, status: int
) -> None:
    path = tmp_path / "t.json" if content is None else write(tmp_path / "t.json", content)
    command = [sys.executable, perfetto.__file__, path]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == status
    assert len((run.stdout + run.stderr).splitlines()) == 1
