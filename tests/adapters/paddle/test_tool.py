"""Under a tool: what a GPU wheel is told to do, what a CPU wheel shows, and a real nsys."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nvtrace
from nvtrace.emit import Calls, Label, switch

paddle = pytest.importorskip("paddle", reason="needs paddlepaddle")
F = paddle.nn.functional
core = paddle.base.core

PROGRAM = """
import warnings
warnings.simplefilter("ignore")
import paddle
import paddle.nn.functional as F
import nvtrace

net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.ReLU(), paddle.nn.Linear(8, 2))
optimizer = paddle.optimizer.Adam(parameters=net.parameters())
data = paddle.io.DataLoader([[float(row)] * 4 for row in range(12)], batch_size=3)
with nvtrace.Profiler(scheduler=(1, 3), adapters="paddle", modules=True) as profiler:
    for batch in data:
        x = paddle.stack(batch, axis=1).astype("float32")
        F.softmax(net(x)).sum().backward()
        optimizer.step()
        optimizer.clear_grad()
        profiler.step()
"""


class Tool:
    """An emitter that keeps what goes to the tool, by name."""

    def __init__(self) -> None:
        self.pushed: list[tuple[str, str]] = []
        self.open = 0

    def bind(self, label: Label) -> Calls:
        def push() -> None:
            self.pushed.append((label.category, label.name))
            self.open += 1

        def pop() -> None:
            self.open -= 1

        def mark() -> None:
            self.pushed.append((label.category, label.name))

        return Calls(push, pop, lambda: None, lambda _: None, mark)


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tool]:
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    made = Tool()
    before = switch.use(made)
    yield made
    switch.use(before)
    assert made.open == 0


def test_a_gpu_wheel_sends_its_ranges_for_the_window(
    tool: Tool, monkeypatch: pytest.MonkeyPatch, record: Any
) -> None:
    said: list[str] = []
    for name in ("enable", "disable"):
        call = f"nvprof_{name}_record_event"
        monkeypatch.setattr(core, call, lambda name=name: said.append(name), raising=False)
    monkeypatch.setattr(core, "get_cuda_device_count", lambda: 1, raising=False)

    def step() -> None:
        said.append("step")
        F.relu(paddle.ones([2]))

    schedule = nvtrace.make_scheduler(closed=1, ready=1, record=2, repeat=1)
    record(step, steps=6, scheduler=schedule)
    assert said == ["step", "step", "enable", "step", "step", "disable", "step", "step"]
    assert "operator" not in {category for category, _ in tool.pushed}, "the core does it"


def test_a_cpu_wheel_shows_forward_operators_and_says_so(
    tool: Tool, record: Any, caplog: pytest.LogCaptureFixture
) -> None:
    x = paddle.ones([2, 2])
    x.stop_gradient = False
    trace = record(lambda: F.softmax(F.relu(x)).sum().backward(), steps=2)
    operators = [name for category, name in tool.pushed if category == "operator"]
    assert operators == ["relu", "softmax", "sum"] * 2
    notes = [name for category, name in tool.pushed if category == "note"]
    assert len(notes) == 1
    code, _, message = notes[0].partition(": ")
    assert code == "forward_operators_only"
    assert "only forward ones" in message
    assert message in caplog.text
    # this process has them from Paddle's tracer, once
    rows = {row["name"]: row["calls"] for row in trace.summary(["operator"])["operator"].rows()}
    assert rows["relu"] == rows["relu_grad"] == rows["softmax"] == 2


def test_without_a_profiler_a_cpu_wheel_is_marked_all_the_same(tool: Tool) -> None:
    from nvtrace.instrumentation import instrument

    net = paddle.nn.Linear(2, 2)
    optimizer = paddle.optimizer.SGD(parameters=net.parameters())
    with instrument("paddle"):
        for _ in range(2):
            net(paddle.ones([1, 2])).sum().backward()
            optimizer.step()
            optimizer.clear_grad()
    found = [name for category, name in tool.pushed if category not in ("note", "step")]
    step = ["forward", "linear", "sum", "backward", "optimization", "sgd_", "sgd_"]
    assert [name for name in found if not name.startswith("full")] == step * 2


def test_nothing_is_wrapped_without_a_tool(monkeypatch: pytest.MonkeyPatch, record: Any) -> None:
    for name in ("NSYS_PROFILING_SESSION_ID", "NVTX_INJECTION64_PATH"):
        monkeypatch.delenv(name, raising=False)
    relu = paddle._C_ops.relu
    seen = []
    record(lambda: seen.append(paddle._C_ops.relu is relu))
    assert seen == [True] * 3


def test_a_report_of_nsys_shows_phases_layers_and_forward_operators(
    nsys: Path, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    command = [nsys, "profile", "-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-o", "report"]
    run = subprocess.run(
        [*command, sys.executable, "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    export = [nsys, "export", "-t", "sqlite", "-o", "report.sqlite", "report.nsys-rep"]
    subprocess.run(export, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    trace = nvtrace.load(tmp_path / "report.sqlite")
    report = trace.summary(["model", "operator", "user_defined"])
    model = {row["name"]: row["calls"] for row in report["model"].rows() if row["calls"]}
    phases = ("ProfileStep", "Dataloader", "Forward", "Backward", "Optimization")
    assert model == dict.fromkeys(phases, 2)
    layers = {row["name"]: row["calls"] for row in report["user_defined"].rows()}
    assert layers == {"Sequential": 2, "Linear": 4, "ReLU": 2}
    operators = {row["name"]: row["calls"] for row in report["operator"].rows()}
    assert (operators["linear"], operators["relu"], operators["softmax"]) == (4, 2, 2)
    assert not [name for name in operators if name.endswith("_grad")]
    notes = {note["code"]: note["message"] for note in report.notes}
    assert "only forward ones" in notes["forward_operators_only"]
