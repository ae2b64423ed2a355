"""What the recording itself costs: decoding CUPTI's records, holding ranges, and the end.

python benchmarks/capture.py      10^6 recorded ranges: bytes each, CPU s to stop and summarise
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from bench import Bench
from goals import Goal
from measuring import run

import nvtrace
from nvtrace.sources.cupti.decode import Decoder
from nvtrace.sources.cupti.layout import FIELDS, KIND_LIMIT, RecordKind
from nvtrace.sources.cupti.shim import Shim

LAUNCHES, RANGES, NAMES, STEPS = 1_000_000, 1_000_000, 50, 100
BUFFER_BYTES = 4 << 20
SIZES = {RecordKind.RUNTIME: 40, RecordKind.CONCURRENT_KERNEL: 216}  # as of CUPTI 13.0
PER_BUFFER = BUFFER_BYTES // sum(SIZES.values())
ROUNDS = 5


def goals(bench: Bench) -> list[Goal]:
    rows = []
    try:
        rows.append(
            Goal("decoding CUPTI's records, a launch", decoding(bench), "us", "", None, 0.5)
        )
    except OSError as error:
        bench.absent.append(f"decoding CUPTI's records: {error}")
    out = bench.folder / "recorded.json"
    run([sys.executable, __file__], out)
    recorded = json.loads(out.read_text())
    bench.wrong.extend(recorded["wrong"])
    cpu_s = recorded["stop_s"] + recorded["summary_s"]
    return [
        *rows,
        Goal("a recorded range, until it is written", recorded["bytes"], "bytes", "", None, 64),
        Goal("stop() and summary() of 1e6 ranges", cpu_s, "CPU s", "", None, 3),
    ]


def decoding(bench: Bench) -> float:
    """Least CPU time, in us, of decoding a launch: the record of its call and of its kernel."""
    sizes = np.zeros(KIND_LIMIT, np.uint32)
    for kind, size in SIZES.items():
        sizes[kind] = size
    names = [ctypes.create_string_buffer(b"_Z8kernel%02dv" % name) for name in range(NAMES)]
    pointers = np.array([ctypes.addressof(name) for name in names], np.uint64)
    buffers = [records(first, pointers) for first in range(0, LAUNCHES, PER_BUFFER)]
    walk, times = Shim().walk, []
    for _ in range(ROUNDS):
        decoder = Decoder(sizes, walk)
        start = time.thread_time()
        for buffer in buffers:
            decoder.add(buffer)
        times.append(time.thread_time() - start)
    count = len(buffers) * PER_BUFFER
    for kind in SIZES:
        columns = decoder.columns(kind)
        if int(columns["correlation"].sum(dtype=np.int64)) != count * (count - 1) // 2:
            bench.wrong.append(f"decoding: correlation ids of {kind.name} are not those written")
    return min(times) / count * 1e6


def records(first: int, names: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """A full buffer, from that launch on: of each the call and the kernel."""
    number = np.arange(first, first + PER_BUFFER, dtype=np.uint64)
    own = {
        "start": 1_000 * number + 1_000,
        "end": 1_000 * number + 1_700,
        "correlation": number,
        "name": names[number % NAMES],
        "callback": np.full_like(number, 211),
    }
    memory = np.zeros((PER_BUFFER, sum(SIZES.values())), np.uint8)
    begin = 0
    for kind, size in SIZES.items():
        record = memory[:, begin : begin + size]
        record[:, :4] = np.full(PER_BUFFER, kind, np.uint32)[:, None].view(np.uint8)
        for name, (offset, code) in FIELDS[kind].items():
            values = own.get(name, np.ones_like(number)).astype(code)
            record[:, offset : offset + int(code[1])] = values[:, None].view(np.uint8)
        begin += size
    return memory.reshape(-1)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def timed(action: Callable[[], Any]) -> float:
    start = time.process_time()
    with redirect_stdout(StringIO()):
        action()
    return time.process_time() - start


def record() -> dict[str, Any]:
    """Record ranges in steps and summarise them; return what that took."""
    ranges = [nvtrace.range(f"range {number}") for number in range(NAMES)]
    profiler = nvtrace.Profiler(
        targets=[nvtrace.ProfilerTarget.CPU], adapters=None, on_trace_ready=lambda _: None
    )
    profiler.start()
    before = resident()
    for _ in range(STEPS):
        for _ in range(RANGES // STEPS // NAMES):
            for one in ranges:
                with one:
                    pass
        profiler.step()
    held = resident() - before
    stop_s = timed(profiler.stop)
    summary_s = timed(profiler.summary)
    assert profiler.trace is not None
    rows = profiler.trace.summary("user_defined")["user_defined"].rows()
    calls = {row["name"]: row["calls"] for row in rows}
    expected = {f"range {number}": RANGES // NAMES for number in range(NAMES)}
    wrong = [] if calls == expected else [f"recorded ranges: {calls}, not {expected}"]
    return {"bytes": held / RANGES, "stop_s": stop_s, "summary_s": summary_s, "wrong": wrong}


if __name__ == "__main__":
    print(json.dumps(record()))
