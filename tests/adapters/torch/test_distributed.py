"""Two ranks over gloo: recorded in the process, and by the real nsys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from training import counts

import nvtrace

SCRIPT = Path(__file__).with_name("distributed.py")
COUNTS = dict.fromkeys(("ProfileStep", "Dataloader", "Forward", "Backward", "Optimization"), 4)


@contextmanager
def two_ranks(
    kind: str, folder: Path, *arguments: str, before: tuple[str, ...] = ()
) -> Iterator[None]:
    """Run the script as ranks 0 and 1; ``{rank}`` in what comes before it is filled in."""
    running = []
    for rank in range(2):
        environment = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        }
        command = [word.format(rank=rank) for word in before]
        command += [sys.executable, str(SCRIPT), kind, str(folder / "meeting"), *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        running.append(subprocess.Popen(command, env=environment, text=True, **pipes))
    try:
        for process in running:
            output, _ = process.communicate(timeout=900)
            assert process.returncode == 0, output
        yield
    finally:
        for process in running:
            process.kill()


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_recorded_in_the_process(kind: str, tmp_path: Path) -> None:
    with two_ranks(kind, tmp_path, str(tmp_path / "out")):
        found: list[dict[str, Any]] = [
            json.loads((tmp_path / f"out.{rank}.json").read_text()) for rank in range(2)
        ]
    for rank, one in enumerate(found):
        assert one["same"]
        assert one["counts"] == COUNTS
        assert one["ranks"] == [rank]
        inner = "module.0" if kind == "ddp" else "0"
        assert inner in one["modules"]
        assert f"{inner} (backward)" in one["modules"]
        wanted = "allreduce" if kind == "ddp" else "allgather"
        assert any(wanted in name for name in one["communication"]), one["communication"]


def test_recorded_by_nsys(nsys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps, phases and modules of both ranks are in their reports, and merge into one trace."""
    monkeypatch.setenv("NVTRACE_NSYS", str(nsys))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    options = ("-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-o", f"{tmp_path}/rank{{rank}}")
    with two_ranks("ddp", tmp_path, "-", "instrument", before=(str(nsys), "profile", *options)):
        pass
    files = [tmp_path / f"rank{rank}.nsys-rep" for rank in range(2)]
    for file in files:
        trace = nvtrace.load(file)
        # the wait for the first batch comes before the first step
        assert counts(trace) == {**COUNTS, "Dataloader": 3}
        rows = trace.ranges_report()["ranges"].rows()
        kinds = {row["name"]: row["kind"] for row in rows}
        assert kinds["module.0"] == kinds["DistributedDataParallel"] == "module"
        assert kinds["forward"] == "forward"
        assert sum(row["name"] == "module.0" for row in rows) == 4
        assert sum(row["kind"] == "dataloader" for row in rows) == 4
        assert [row["step"] for row in rows if row["name"] == "backward"] == [0, 1, 2, 3]
    both = nvtrace.load(files)
    assert len(both.processes) == 2
    assert counts(both) == {name: 2 * count for name, count in {**COUNTS, "Dataloader": 3}.items()}
