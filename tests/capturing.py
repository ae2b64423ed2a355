"""What the tests of recording in this process share."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nvtrace import Profiler, ProfilerTarget, Trace, lifecycle
from nvtrace.emit import switch
from nvtrace.emit.recorder import Recorder


def profiler(*args: Any, **options: Any) -> Profiler:
    """A Profiler of ranges alone, whatever machine and frameworks are here."""
    return Profiler(*args, **{"targets": [ProfilerTarget.CPU], "adapters": None, **options})


def listed(trace: Trace | None, *, marks: bool = True) -> list[dict[str, Any]]:
    """Every range of a trace as a dictionary."""
    assert trace is not None
    return trace.ranges_report(marks=marks)["ranges"].rows()


def names(trace: Trace | None) -> list[str]:
    """Names of all ranges but steps, by start."""
    return [row["name"] for row in listed(trace) if row["kind"] != "step"]


def steps(trace: Trace | None) -> list[int]:
    """Numbers of the steps."""
    return [row["step"] for row in listed(trace) if row["kind"] == "step"]


def codes(trace: Trace | None) -> set[str]:
    """Codes of the notes."""
    assert trace is not None
    return {note.code for note in trace.notes}


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """Check that no Profiler stays active and no recorder in place."""
    switch.load()
    before = switch.emitter
    yield
    assert lifecycle.active() is None
    assert switch.emitter is before
    assert not isinstance(before, Recorder)


def python(
    script: str, folder: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder, with this interpreter, and return what came of it."""
    (folder / "program.py").write_text(script, encoding="utf-8")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NVTX", "NVTRACE", "RANK"))}
    return subprocess.run(
        [sys.executable, "-W", "error", "program.py", *arguments],
        cwd=folder,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=900,
    )
