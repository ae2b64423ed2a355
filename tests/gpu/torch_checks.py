"""Checks of the PyTorch adapter that need a GPU: ``python tests/gpu/torch_checks.py [NAME ...]``.

Needs torch with CUDA and nvtrace with the extra ``cupti``; ``emit_nvtx`` needs nsys as well, named
by $NVTRACE_NSYS or on the path, and is left out without. No network. Every check is a process of
its own with a limit; all together end within four minutes. Exit status 0 when every check passed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIMIT_S, ALL_S = 60.0, 230.0
CHECKS: dict[str, Callable[[], str]] = {}
STEPS = 3

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def check(function: Callable[[], str]) -> Callable[[], str]:
    """Add a check: it returns what it found, or raises."""
    CHECKS[function.__name__] = function
    return function


def model_of(torch: Any) -> Any:
    """Two blocks of two linear layers, and inputs for them."""
    torch.manual_seed(0)
    blocks = [
        torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 256))
        for _ in range(2)
    ]
    return torch.nn.Sequential(*blocks).cuda(), torch.randn(64, 256, device="cuda")


def train(torch: Any, model: Any, x: Any, steps: int = STEPS) -> Any:
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()
    return [p.detach().cpu() for p in model.parameters()]


def recorded(**options: Any) -> Any:
    import torch

    import nvtrace

    model, x = model_of(torch)
    train(torch, model, x, 2)
    with nvtrace.Profiler(adapters=["torch"], **options) as profiler:
        train(torch, model, x)
    assert profiler.trace is not None
    return profiler.trace


def view(trace: Any, name: str) -> dict[str, Any]:
    return {row["name"]: row for row in trace.summary(name)[name].rows()}


@check
def results_are_unchanged() -> str:
    import torch

    import nvtrace

    plain = train(torch, *model_of(torch))
    with nvtrace.Profiler(adapters=["torch"], modules=True):
        found = train(torch, *model_of(torch))
    assert all(torch.equal(one, other) for one, other in zip(plain, found, strict=True))
    return f"{len(plain)} tensors the same to the bit"


@check
def phases_hold_the_kernels() -> str:
    """Backward launches from autograd's thread, under the Backward of the main one."""
    trace = recorded()
    model = view(trace, "model")
    for phase in ("Forward", "Backward", "Optimization"):
        assert model[phase]["calls"] == STEPS, (phase, model[phase]["calls"])
        assert model[phase]["gpu_total_ns"] > 0, phase
    assert model["Others"]["gpu_total_ns"] == 0, model["Others"]
    return ", ".join(f"{name} {row['gpu_total_ns']} ns" for name, row in model.items())


@check
def modules_hold_forward_and_backward_kernels() -> str:
    trace = recorded(modules=True)
    rows = view(trace, "user_defined")
    for name in ("0", "0.0", "1.2"):
        for one in (name, f"{name} (backward)"):
            assert rows[one]["gpu_total_ns"] > 0, one
            assert rows[one]["kernels"] >= STEPS, (one, rows[one]["kernels"])
    inner = sum(rows[f"{n} (backward)"]["gpu_total_ns"] for n in ("0", "1"))
    outer = rows["Sequential (backward)"]["gpu_total_ns"]
    assert 0 < inner <= outer, (inner, outer)
    return f"backward of the blocks {inner} of {outer} ns"


@check
def operators_hold_the_kernels_that_torch_says() -> str:
    """Kernels an operator launched itself, against torch.profiler's own correlation."""
    import torch

    trace = recorded()
    model, x = model_of(torch)
    train(torch, model, x, 2)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as theirs:
        train(torch, model, x)
    expected: Counter[str] = Counter()
    for event in theirs.events():
        if str(event.device_type).endswith("CPU") and event.kernels:
            expected[event.name] += len(event.kernels)
    explained, strings = trace.explain(), trace.strings
    ours: Counter[str] = Counter()
    for row in explained.device_range.tolist():
        if row >= 0:
            ours[strings[int(explained.range_name[row])]] += 1
    aten = {name: count for name, count in expected.items() if name.startswith("aten::")}
    found = {name: count for name, count in ours.items() if name.startswith("aten::")}
    assert found == aten, (found, aten)
    return f"{sum(aten.values())} kernels of {len(aten)} operators"


@check
def memory_is_what_the_allocator_says() -> str:
    """Net and levels of the window, against torch's own account at its two ends and of its peak."""
    import torch

    import nvtrace

    model, x = model_of(torch)
    train(torch, model, x, 2)
    with nvtrace.Profiler(adapters=["torch"], profile_memory=True) as profiler:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        train(torch, model, x)
        after, peak = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
        reserved = torch.cuda.max_memory_reserved()
    trace = profiler.trace
    assert trace is not None
    row = view(trace, "allocations")["cuda:0"]
    found = [row[name] for name in ("net_bytes", "peak_bytes", "peak_reserved_bytes")]
    assert found == [after - before, peak, reserved], (found, before, after, peak, reserved)
    (level,) = [n for n, one in enumerate(trace.counters) if one.name == "Memory allocated cuda:0"]
    last = trace.samples["value"][trace.samples["counter"] == level][-1]
    assert last == after, (last, after)
    return f"{row['allocations']} allocations, peak {peak} bytes"


@check
def graph_kernels_belong_to_the_launch() -> str:
    import torch

    import nvtrace

    model, x = model_of(torch)
    graphed = torch.cuda.make_graphed_callables(model, (x,))
    train(torch, graphed, x, 2)
    with nvtrace.Profiler(adapters=["torch"]) as profiler:
        train(torch, graphed, x)
    assert profiler.trace is not None
    model_rows = view(profiler.trace, "model")
    for phase in ("Forward", "Backward"):
        assert model_rows[phase]["calls"] == STEPS, (phase, model_rows[phase]["calls"])
        assert model_rows[phase]["gpu_total_ns"] > 0, phase
    return ", ".join(f"{n} {row['gpu_total_ns']} ns" for n, row in model_rows.items())


@check
def compiled_model_is_one_graph() -> str:
    import torch
    from torch._dynamo.utils import counters

    import nvtrace

    model, x = model_of(torch)
    compiled = torch.compile(model)
    with nvtrace.Profiler(adapters=["torch"], modules=True) as profiler:
        train(torch, compiled, x)
    train(torch, compiled, x)
    breaks = sum(counters["graph_break"].values())
    graphs = counters["stats"]["unique_graphs"]
    assert (graphs, breaks) == (1, 0), (graphs, breaks)
    assert profiler.trace is not None
    forward = view(profiler.trace, "model")["Forward"]
    assert forward["calls"] == STEPS, forward
    assert forward["gpu_total_ns"] > 0, forward
    return f"1 graph, Forward {forward['gpu_total_ns']} ns"


@check
def recomputation_is_no_forward() -> str:
    import torch
    from torch.utils.checkpoint import checkpoint

    import nvtrace

    net, x = model_of(torch)

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Any) -> Any:
            return checkpoint(self.net[1], self.net[0](x), use_reentrant=False)

    with nvtrace.Profiler(adapters=["torch"]) as profiler:
        train(torch, Net(), x)
    assert profiler.trace is not None
    rows = view(profiler.trace, "model")
    found = [rows[name]["calls"] for name in ("Forward", "Backward")]
    assert found == [STEPS, STEPS], found
    return f"{STEPS} of each"


@check
def emit_nvtx_under_nsys() -> str:
    """Operators, modules and kernels in one report, backward included."""
    nsys = os.environ.get("NVTRACE_NSYS") or shutil.which("nsys")
    if nsys is None:
        return "left out: no nsys"
    import nvtrace

    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.nsys-rep")
        options = ["-t", "cuda,nvtx", "-s", "none", "--cpuctxsw=none", "-o", str(report)]
        program = [sys.executable, __file__, "--marked"]
        subprocess.run([nsys, "profile", *options, *program], check=True, timeout=LIMIT_S)
        trace = nvtrace.load(report)
        model, rows = view(trace, "model"), view(trace, "user_defined")
        operators = view(trace, "operator")
    for phase in ("Forward", "Backward", "Optimization"):
        assert model[phase]["calls"] == STEPS, (phase, model[phase]["calls"])
        assert model[phase]["gpu_total_ns"] > 0, phase
    for name in ("aten::addmm", "AddmmBackward0"):
        assert operators[name]["calls"] == 4 * STEPS, (name, operators[name]["calls"])
        assert operators[name]["gpu_total_ns"] > 0, name
    for name in ("0.0", "0.0 (backward)"):
        assert rows[name]["gpu_total_ns"] > 0, name
    return f"{len(operators)} operators, {trace.device.rows} device events"


def marked() -> None:
    import torch

    import nvtrace

    model, x = model_of(torch)
    train(torch, model, x, 2)
    with nvtrace.instrument("torch", modules=True):
        train(torch, model, x)


def main(names: list[str]) -> int:
    """Run the checks; returns how many failed."""
    failed, until = 0, time.monotonic() + ALL_S
    for name in names or CHECKS:
        command = [sys.executable, __file__, "--only", name]
        limit = min(LIMIT_S, until - time.monotonic())
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=max(limit, 1))
            lines = (run.stdout if not run.returncode else run.stderr).strip().splitlines()
            status, last = run.returncode, lines[-1] if lines else ""
        except subprocess.TimeoutExpired:
            status, last = 1, f"not done after {limit:.0f} s"
        failed += bool(status)
        print(f"{'FAILED' if status else 'passed'}  {name}: {last}", flush=True)
    return failed


if __name__ == "__main__":
    if sys.argv[1:2] == ["--only"]:
        print(CHECKS[sys.argv[2]]())
    elif sys.argv[1:2] == ["--marked"]:
        marked()
    else:
        sys.exit(min(main(sys.argv[1:]), 100))
