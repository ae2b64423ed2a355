"""Checks of the CUPTI collector that need a GPU: ``python tests/gpu/checks.py [NAME ...]``.

Needs torch with CUDA, cupti-python and nvtrace with its native part; no network. Every check is a
process of its own with its own limit, prints one line, and all together end within four minutes.
Exit status 0 when every check passed. Lines of checks that ask an open question carry the answer.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIMIT_S, ALL_S = 40.0, 230.0
CHECKS: dict[str, Callable[[], str]] = {}

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def check(function: Callable[[], str]) -> Callable[[], str]:
    """Add a check: it returns what it found, or raises."""
    CHECKS[function.__name__] = function
    return function


def ready() -> Any:
    """Torch with CUDA up, and the kernels that ``launch`` uses loaded."""
    import torch

    launch(torch, 10)
    return torch


def launch(torch: Any, count: int) -> None:
    """Launch ``count`` + 1 kernels, each one runtime call, and wait."""
    x = torch.ones(256, device="cuda")
    torch.cuda.synchronize()
    for _ in range(count):
        x.add_(1)
    torch.cuda.synchronize()


def collect(work: Callable[[], object], **options: Any) -> Any:
    """What a collector records of some work."""
    from nvtrace.sources.cupti import Collector

    collector = Collector(**options)
    collector.start()
    try:
        work()
    finally:
        activity = collector.stop()
    return activity


def kernels(activity: Any) -> Any:
    """Which device rows are kernels."""
    return activity.device["kind"] == 0


def notes(activity: Any) -> str:
    return ",".join(note.code for note in activity.notes) or "no notes"


@check
def versions() -> str:
    torch = ready()
    from nvtrace.sources.cupti import diagnose
    from nvtrace.sources.cupti.library import Library, mapped

    found = diagnose()
    assert found.ok, found.sentence
    collect(lambda: launch(torch, 1))
    (path,) = mapped()
    return f"{dict(found.facts)} libcupti {Library(path).version} torch {torch.__version__}"


@check
def rows() -> str:
    """Kernels, copies and sets, each once, joined to their calls and threads."""
    torch = ready()
    import numpy as np

    host = torch.ones(1 << 20).pin_memory()
    ids: list[int] = []

    def work() -> None:
        ids.append(threading.get_native_id())
        for _ in range(100):
            device = host.to("cuda", non_blocking=True)
            device.cpu()
            torch.cuda.synchronize()
        launch(torch, 2000)

    def both() -> None:
        thread = threading.Thread(target=work)
        thread.start()
        work()
        thread.join()

    activity = collect(both)
    device, calls = activity.device, activity.calls
    up = device["bytes"][(device["kind"] == 1) & (device["copy_kind"] == 1)]
    down = device["bytes"][(device["kind"] == 1) & (device["copy_kind"] == 2)]
    assert (up == 4 << 20).sum() == 200, f"{len(up)} copies up"
    assert (down == 4 << 20).sum() == 200, f"{len(down)} copies down"
    adds = np.bincount(device["name"][kernels(activity)]).max()
    assert adds == 4000, f"{adds} kernels of 4000"
    joined = np.isin(device["correlation"], calls["correlation"])
    assert joined.all(), f"{(~joined).sum()} rows have no call"
    assert set(ids) <= set(calls["thread_id"].tolist()), "thread ids are not the system's"
    assert activity.untimed == 0
    return f"{len(device['start'])} rows, {len(calls['start'])} calls, {notes(activity)}"


@check
def overhead() -> str:
    """Time a launch takes without, under and after collecting."""
    torch = ready()
    count = 20_000

    def per_launch() -> float:
        begin = time.perf_counter()
        launch(torch, count)
        return (time.perf_counter() - begin) / count * 1e9

    per_launch()
    said = [f"before {per_launch():.0f}"]
    for name, kinds in (
        ("kernel", ("kernel",)),
        ("kernel+runtime", ("kernel", "runtime")),
        ("default", ("runtime", "driver", "kernel", "memcpy", "memset", "overhead")),
    ):
        spent: list[float] = []
        activity = collect(lambda spent=spent: spent.append(per_launch()), kinds=kinds)  # type: ignore[misc]
        found = int(kernels(activity).sum())
        assert found == count + 1, f"{name}: {found} kernels of {count + 1}"
        assert activity.untimed == 0
        said.append(f"{name} {spent[0]:.0f}")
    said.append(f"after {per_launch():.0f}")
    return "ns per launch: " + ", ".join(said)


@check
def containment() -> str:
    """Launches fall into the host range around them."""
    torch = ready()
    import numpy as np

    x = torch.zeros(256, device="cuda")
    spans = []

    def work() -> None:
        for number in range(300):
            begin = time.time_ns()
            for _ in range(number % 5):
                x.add_(1)
            spans.append((begin, time.time_ns(), number % 5))
        torch.cuda.synchronize()

    activity = collect(work)
    calls = activity.calls
    launched = np.isin(calls["correlation"], activity.device["correlation"][kernels(activity)])
    starts, ends = calls["start"][launched], calls["end"][launched]
    wrong = [
        number
        for number, (begin, end, wanted) in enumerate(spans)
        if int(((starts >= begin) & (ends <= end)).sum()) != wanted
    ]
    assert not wrong, f"{len(wrong)} of 300 ranges hold other launches than were made in them"
    return f"{launched.sum()} launches in 300 ranges"


@check
def clock() -> str:
    """Kernels lie between the moments around their launch and its end."""
    torch = ready()
    x = torch.zeros(1 << 20, device="cuda")
    spans = []

    def work() -> None:
        for _ in range(300):
            begin = time.time_ns()
            x.add_(1)
            torch.cuda.synchronize()
            spans.append((begin, time.time_ns()))

    activity = collect(work)
    device = activity.device
    pairs = zip(device["start"][kernels(activity)], device["end"][kernels(activity)], strict=True)
    outside = sum(not (b <= s and e <= t) for (b, t), (s, e) in zip(spans, pairs, strict=True))
    assert not outside, f"{outside} of 300 kernels lie outside their window"
    assert not activity.clock.foreign
    anchor = activity.clock.anchors[0]
    return f"CUPTI - wall {anchor.cupti - anchor.unix} ns, read within {anchor.width} ns"


@check
def gil_held() -> str:
    """Calls made with the interpreter's lock held, beside busy threads, do not hang."""
    torch = ready()
    runtime = ctypes.PyDLL("libcudart.so.13")
    buffer = torch.zeros(1 << 16, dtype=torch.uint8, device="cuda")
    done = threading.Event()

    def spin() -> None:
        while not done.is_set():
            sum(range(1000))

    def work() -> None:
        for thread in (threads := [threading.Thread(target=spin) for _ in range(3)]):
            thread.start()
        address = ctypes.c_void_p(buffer.data_ptr())
        for _ in range(60_000):
            runtime.cudaMemsetAsync(address, 0, ctypes.c_size_t(64), None)
        done.set()
        for thread in threads:
            thread.join()

    activity = collect(work, buffer_bytes=1 << 16)
    found = int((activity.device["kind"] == 2).sum())
    assert found + activity.lost_records >= 60_000, f"{found} sets of 60000"
    return f"{found} sets, {notes(activity)}"


def graph_of(torch: Any, nodes: int) -> Any:
    """A captured CUDA graph of some kernels."""
    x = torch.zeros(256, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(nodes):
            x.add_(1)
    graph.keep = x
    return graph


def replays(torch: Any, graph: Any, count: int) -> Callable[[], None]:
    def work() -> None:
        for _ in range(count):
            graph.replay()
        torch.cuda.synchronize()

    return work


def graph_facts(activity: Any) -> tuple[int, int, int]:
    """Kernel rows of graph nodes, their correlation ids, and how many of those are calls."""
    import numpy as np

    nodes = kernels(activity) & (activity.device["graph_node"] != 0)
    ids = np.unique(activity.device["correlation"][nodes])
    return int(nodes.sum()), len(ids), int(np.isin(ids, activity.calls["correlation"]).sum())


@check
def graph_nodes() -> str:
    """Graphs captured before and during the capture, node by node."""
    torch = ready()
    early = graph_of(torch, 20)
    late: list[Any] = []

    def work() -> None:
        replays(torch, early, 50)()
        late.append(graph_of(torch, 20))
        replays(torch, late[0], 50)()

    activity = collect(work)
    found, ids, known = graph_facts(activity)
    assert found == 2000, f"{found} node rows of 2000"
    assert (ids, known) == (100, 100), f"{ids} ids for 100 replays, {known} of them calls"
    return f"2000 node rows, one id a replay, {notes(activity)}"


@check
def graph_level() -> str:
    torch = ready()
    graph = graph_of(torch, 20)
    activity = collect(replays(torch, graph, 50), graphs="graph")
    found = int((activity.device["kind"] == 3).sum())
    early = f"captured before: {found} rows of 50, {int(kernels(activity).sum())} kernels"

    def work() -> None:
        replays(torch, graph_of(torch, 20), 50)()

    activity = collect(work, graphs="graph")
    found = int((activity.device["kind"] == 3).sum())
    assert found == 50, f"{found} graph rows of 50; {early}"
    return early


@check
def graphs_again() -> str:
    """Tells whether graph launches of a second capture keep their ids (wrong in CUPTI 13.0)."""
    torch = ready()
    graph = graph_of(torch, 20)
    told = [graph_facts(collect(replays(torch, graph, 50))) for _ in range(2)]
    assert told[0] == (1000, 50, 50), f"first capture: {told[0]}"
    return f"second capture: rows, ids, ids that are calls = {told[1]} (right: (1000, 50, 50))"


@check
def torch_profiler() -> str:
    """Tells what torch.profiler and a collector do to each other."""
    torch = ready()
    from torch.profiler import ProfilerActivity, profile

    from nvtrace.errors import CollectorUnavailable

    def profiled(work: Callable[[], object]) -> int:
        with profile(activities=[ProfilerActivity.CUDA]) as run:
            work()
        return sum(event.device_type == torch.autograd.DeviceType.CUDA for event in run.events())

    def collected() -> str:
        try:
            activity = collect(lambda: launch(torch, 100))
        except CollectorUnavailable as error:
            return error.verdict
        clock = "foreign clock" if activity.clock.foreign else "wall clock"
        return f"{int(kernels(activity).sum())} kernels, {clock}"

    said = [f"collector first: {collected()}"]
    said.append(f"profiler then: {profiled(lambda: launch(torch, 100))} events")
    inside: list[str] = []
    profiled(lambda: inside.append(collected()))
    said.append(f"collector inside it: {inside[0]}")
    said.append(f"collector after it: {collected()}")
    seen: list[int] = []
    activity = collect(lambda: seen.append(profiled(lambda: launch(torch, 100))))
    said.append(f"profiler inside collector: {seen[0]} events, {notes(activity)}")
    said.append(f"profiler last: {profiled(lambda: launch(torch, 100))} events")
    return "; ".join(said)


@check
def second_collector() -> str:
    torch = ready()
    from nvtrace.errors import CollectorUnavailable

    said = []

    def work() -> None:
        try:
            collect(lambda: None)
        except CollectorUnavailable as error:
            said.append((error.verdict, str(error)))
        launch(torch, 100)

    activity = collect(work)
    assert [verdict for verdict, _ in said] == ["busy"], said
    assert int(kernels(activity).sum()) == 101
    return said[0][1]


@check
def budget() -> str:
    torch = ready()
    options: dict[str, Any] = {"kinds": ("kernel",), "buffer_bytes": 1 << 16}
    activity = collect(lambda: launch(torch, 50_000), budget_bytes=1 << 19, **options)
    found = int(kernels(activity).sum())
    total = found + activity.lost_records + activity.dropped_records
    assert activity.lost_records, "nothing was lost: the budget did not bind"
    assert total == 50_001, f"{found} + {activity.lost_records} lost is not 50001"
    return f"{found} kept, {activity.lost_records} lost, {activity.dropped_records} dropped"


@check
def exit_without_stop() -> str:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import checks\n"
        "torch = checks.ready()\n"
        "from nvtrace.sources.cupti import Collector\n"
        "collector = Collector(); collector.start(); checks.launch(torch, 1000)\n"
    )
    command = [sys.executable, "-c", script, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr.strip()[-200:]}"
    return "status 0"


@check
def fork() -> str:
    torch = ready()

    def work() -> None:
        launch(torch, 500)
        child = os.fork()
        if not child:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        launch(torch, 500)

    found = int(kernels(collect(work)).sum())
    assert found == 1002, f"{found} kernels of 1002"
    return "1002 kernels"


@check
def autograd() -> str:
    """Work that another thread launches carries that thread's id."""
    torch = ready()
    layer = torch.nn.Linear(64, 64, device="cuda")
    x = torch.randn(64, 64, device="cuda")
    layer(x).sum().backward()
    activity = collect(lambda: [layer(x).sum().backward() for _ in range(50)])
    me = threading.get_native_id()
    threads = set(activity.calls["thread_id"].tolist())
    assert me in threads
    assert len(threads) > 1, "backward ran on this thread"
    return f"{len(threads)} threads"


@check
def driver_calls() -> str:
    """Tells whether runtime launches also give driver rows, and that Triton's give theirs."""
    torch = ready()
    import numpy as np

    activity = collect(lambda: launch(torch, 1000))
    doubled = int((activity.calls["domain"] == 1).sum())
    said = f"{doubled} driver rows for 1001 runtime launches"
    compiled = torch.compile(lambda x: torch.sin(x) * 2)
    x = torch.randn(1 << 16, device="cuda")
    compiled(x)
    activity = collect(lambda: [compiled(x) for _ in range(100)])
    calls, device = activity.calls, activity.device
    driver = calls["correlation"][calls["domain"] == 1]
    found = int(np.isin(device["correlation"][kernels(activity)], driver).sum())
    assert found >= 100, f"{found} of 100 Triton kernels have a driver call"
    return f"{said}; {found} Triton kernels with theirs"


@check
def memory() -> str:
    """Tells what many captures leave behind."""
    torch = ready()

    def resident() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") >> 20

    sizes = []
    for _ in range(30):
        collect(lambda: launch(torch, 2000))
        sizes.append(resident())
    assert sizes[-1] - sizes[9] < 64, f"resident MiB by capture: {sizes}"
    return f"resident MiB after 1, 10, 30 captures: {sizes[0]}, {sizes[9]}, {sizes[-1]}"


def run(names: list[str]) -> int:
    """Run checks one after the other; returns how many did not pass."""
    begin, failed = time.monotonic(), 0
    for name in names:
        left = ALL_S - (time.monotonic() - begin)
        started = time.monotonic()
        if left < 5:
            status, said = "LATE", "no time left"
        else:
            status, said = alone(name, min(LIMIT_S, left))
        failed += status != "ok"
        print(f"{status:4}  {name:18} {time.monotonic() - started:5.1f} s  {said}", flush=True)
    print(f"{len(names) - failed} of {len(names)} passed in {time.monotonic() - begin:.0f} s")
    return failed


def alone(name: str, limit_s: float) -> tuple[str, str]:
    """Run one check in a process of its own: how it went, and its last line."""
    command = [sys.executable, "-u", __file__, "--one", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return "HANG", f"did not end within {limit_s:.0f} s"
    lines = (done.stdout if done.returncode == 0 else done.stderr or done.stdout).splitlines()
    return "ok" if done.returncode == 0 else "FAIL", lines[-1] if lines else str(done.returncode)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--one"]:
        print(CHECKS[arguments[1]]().replace("\n", " "))
        return 0
    unknown = set(arguments) - set(CHECKS)
    if unknown:
        print(f"no check named {', '.join(sorted(unknown))}: choose from {', '.join(CHECKS)}")
        return 2
    return 1 if run(arguments or list(CHECKS)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
