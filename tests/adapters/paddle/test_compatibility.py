"""A program for paddle.profiler runs with its import line changed."""

from __future__ import annotations

import gzip
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nvtrace

paddle = pytest.importorskip("paddle", reason="needs paddlepaddle")

FUNCTIONS = [
    "make_scheduler",
    "export_chrome_tracing",
    "export_protobuf",
    "load_profiler_result",
    "RecordEvent",
    "Profiler",
    "Profiler.start",
    "Profiler.stop",
    "Profiler.step",
    "Profiler.step_info",
    "Profiler.export",
    "Profiler.summary",
    "RecordEvent.begin",
    "RecordEvent.end",
]


def find(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def test_every_name_is_here() -> None:
    assert set(paddle.profiler.__all__) <= set(nvtrace.__all__)


@pytest.mark.parametrize("path", FUNCTIONS)
def test_every_call_of_theirs_is_one_of_ours(path: str) -> None:
    theirs = inspect.signature(find(paddle.profiler, path)).parameters
    ours = inspect.signature(find(nvtrace, path)).parameters
    assert [name for name in theirs if name not in ours] == []
    for name, parameter in theirs.items():
        assert ours[name].kind == parameter.kind, name
        required = ours[name].default is inspect.Parameter.empty
        assert not required or parameter.default is inspect.Parameter.empty, name
    positional = [
        [name for name, one in found.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
        for found in (theirs, ours)
    ]
    assert positional[1][: len(positional[0])] == positional[0]


@pytest.mark.parametrize("name", ["ProfilerState", "ProfilerTarget", "SortedKeys", "SummaryView"])
def test_every_choice_of_theirs_is_one_of_ours(name: str) -> None:
    theirs, ours = getattr(paddle.profiler, name), getattr(nvtrace, name)
    assert set(theirs.__members__) <= set(ours.__members__)


@pytest.mark.parametrize(
    ("scheduler", "states"),
    [
        ((3, 14), "..rRRRRRRRRRRX...."),
        ((1, 3), "rRX....."),
        ((0, 3), "RRX....."),
        ({"closed": 1, "ready": 1, "record": 3, "repeat": 3}, ".rRRX.rRRX.rRRX....."),
        ({"closed": 1, "ready": 1, "record": 4, "skip_first": 1}, "..rRRRX.rRRRX.rRRRX."),
    ],
)
def test_schedules_are_theirs(scheduler: Any, states: str) -> None:
    letters = {"CLOSED": ".", "READY": "r", "RECORD": "R", "RECORD_AND_RETURN": "X"}
    if isinstance(scheduler, dict):
        made = [module.make_scheduler(**scheduler) for module in (nvtrace, paddle.profiler)]
    else:
        made = [module.Profiler(scheduler=scheduler) for module in (nvtrace, paddle.profiler)]
        made = [made[0]._schedule, made[1].scheduler]
    for one in made:
        assert "".join(letters[one(step).name] for step in range(len(states))) == states


def test_protobuf_is_answered_with_what_to_use() -> None:
    with pytest.raises(nvtrace.UsageError, match="export_nsys"):
        nvtrace.export_protobuf("./log")


def test_foreign_devices_are_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    target = nvtrace.ProfilerTarget
    profiler = nvtrace.Profiler(
        targets=[target.CPU, target.XPU, target.CUSTOM_DEVICE], custom_device_types=["npu"]
    )
    assert profiler.targets == {target.CPU}
    assert "no CUSTOM_DEVICE, XPU" in caplog.text
    assert "custom devices are not recorded: npu" in caplog.text


def test_in_profiler_mode_is_theirs() -> None:
    assert not nvtrace.in_profiler_mode()
    with nvtrace.Profiler(scheduler=lambda _: nvtrace.ProfilerState.CLOSED, adapters=None):
        assert nvtrace.in_profiler_mode(), "in closed steps too"
    assert not nvtrace.in_profiler_mode()
    with nvtrace.Profiler(timer_only=True, adapters=None):
        assert not nvtrace.in_profiler_mode()


SEED = """
import paddle
import paddle.nn.functional as F
import numpy as np
import {profiler} as profiler

class Images(paddle.io.Dataset):
    def __getitem__(self, row):
        return np.full((3, 32, 32), row % 7, np.float32), np.array(row % 10)
    def __len__(self):
        return 4 * 20

{network}

model = MyNet(num_classes=10)
model.train()
opt = paddle.optimizer.Adam(learning_rate=0.001, parameters=model.parameters())
train_loader = paddle.io.DataLoader(Images(), shuffle=True, batch_size=4, num_workers=0)

def my_on_trace_ready(prof):
    callback = profiler.export_chrome_tracing('./profiler_demo')
    callback(prof)
    prof.summary(sorted_by=profiler.SortedKeys.GPUTotal)

p = profiler.Profiler(scheduler = [3,14], on_trace_ready=my_on_trace_ready, timer_only={timer_only})
p.start()
for epoch in range(10):
    for batch_id, data in enumerate(train_loader()):
        x_data = data[0]
        y_data = paddle.to_tensor(data[1])
        y_data = paddle.unsqueeze(y_data, 1)
        logits = model(x_data)
        loss = F.cross_entropy(logits, y_data)
        loss.backward()
        opt.step()
        opt.clear_grad()
        p.step()
        if batch_id == 19:
            p.stop()
            exit()
"""


def run_seed(repository: Path, folder: Path, profiler: str, timer_only: bool) -> str:
    example = (repository / "examples" / "paddle_cifar10.py").read_text(encoding="utf-8")
    network = example[example.index("class MyNet") : example.index("def train")]
    network = network.replace(": Any", "").replace(" -> Any", "")
    script = SEED.format(profiler=profiler, network=network, timer_only=timer_only)
    (folder / "train.py").write_text(script, encoding="utf-8")
    command = [sys.executable, "-W", "ignore", "train.py"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout


def calls_in(printed: str, title: str) -> dict[str, int]:
    """Calls by name of a printed table: the first two cells of its rows."""
    body = printed.split(title)[1].split("Note:")[0] if title in printed else ""
    rows = re.findall(r"^ *(\w+) +(\d+) ", body, re.MULTILINE)
    return {name: int(calls) for name, calls in rows}


@pytest.mark.parametrize("timer_only", [True, False])
def test_the_program_runs_with_one_line_changed(
    timer_only: bool, repository: Path, tmp_path: Path
) -> None:
    printed = run_seed(repository, tmp_path, "nvtrace", timer_only)
    assert "Perf Summary" in printed
    assert "Reader Ratio" in printed
    phases = ("ProfileStep", "Dataloader", "Forward", "Backward", "Optimization")
    assert calls_in(printed, "Model Summary") == ({} if timer_only else dict.fromkeys(phases, 11))
    timelines = list((tmp_path / "profiler_demo").glob("*"))
    if timer_only:
        assert timelines == []
        return
    operators = calls_in(printed, "Operator Summary")
    assert operators["conv2d"] == operators["conv2d_grad"] == 33
    (timeline,) = timelines
    assert json.loads(gzip.decompress(timeline.read_bytes()))["traceEvents"]
