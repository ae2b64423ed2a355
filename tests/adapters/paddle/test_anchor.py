"""One run seen by nvtrace and by paddle.profiler: the same figures wherever that is right."""

from __future__ import annotations

import importlib.util
import re
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from nvtrace.adapters.paddle import operators

import nvtrace

paddle = pytest.importorskip("paddle", reason="needs paddlepaddle")
F = paddle.nn.functional

# what paddle.profiler 3.3.1 calls the operators of one step, and what they are
STEP = {
    "conv2d dygraph": "conv2d",
    "reshape dygraph": "reshape",
    "add dygraph": "add",
    "relu dygraph": "relu",
    "pool2d dygraph": "pool2d",
    "flatten dygraph": "flatten",
    "matmul dygraph": "matmul",
    "cross_entropy_with_softmax dygraph": "cross_entropy_with_softmax",
    "mean_all dygraph": "mean_all",
    "adam_ dygraph": "adam_",
    "Global_MeanAllGradNode": "mean_all_grad",
    "Global_CrossEntropyWithSoftmaxGradNode": "cross_entropy_with_softmax_grad",
    "Global_AddGradNode": "add_grad",
    "Global_MatmulGradNode": "matmul_grad",
    "Global_ReluGradNode": "relu_grad",
    "Global_FlattenGradNode": "flatten_grad",
    "Global_ReshapeGradNode": "reshape_grad",
    "Global_Conv2dGradNodeFinal": "conv2d_grad",
    "Global_Pool2dGradNode": "pool2d_grad",
    "Global_GradNodeAccumulation": "grad_accumulation",
}
STEPS = 4


@pytest.fixture(scope="module")
def example(repository: Path) -> ModuleType:
    path = repository / "examples" / "paddle_cifar10.py"
    spec = importlib.util.spec_from_file_location("paddle_cifar10", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Anchor:
    """paddle.profiler's own statistics of the very events that nvtrace got.

    Attributes:
        outside: when the program made the call that a phase is made of, Unix ns, by phase.
        steps_ns: from before the call that begins the first step to after the one that ends the
            last.
    """

    def __init__(self, statistics: Any) -> None:
        self.outside: dict[str, list[tuple[int, int]]] = {}
        self.steps_ns = 0
        self.phases = _outermost_phases(statistics.node_trees)
        self.model = {
            name: (item.call, item.cpu_time)
            for name, item in statistics.event_summary.model_perspective_items.items()
        }
        self.operators = {
            name: (item.call, item.cpu_time, item.max_cpu_time, item.min_cpu_time)
            for name, item in statistics.event_summary.items.items()
        }


def _outermost_phases(trees: dict[int, Any]) -> dict[str, list[tuple[int, int]]]:
    """Unix times of the phases, by name, ns."""
    found: dict[str, list[tuple[int, int]]] = {}
    pending = list(trees.values())
    while pending:
        node = pending.pop()
        if node.type.name in ("Dataloader", "Forward", "Backward", "Optimization"):
            found.setdefault(node.type.name, []).append((node.start_ns, node.end_ns))
        else:
            pending += node.children_node
    return {name: sorted(times) for name, times in found.items()}


@pytest.fixture
def both(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> tuple[nvtrace.Trace, Anchor]:
    """One run, seen by both: Paddle's Python ranges on, its statistics made of the same events."""
    from paddle.profiler import profiler_statistic, utils

    found: list[Anchor] = []
    read = operators.read

    def spy(trees: dict[int, Any], options: Any) -> Any:
        found.append(Anchor(profiler_statistic.StatisticData(trees, {})))
        return read(trees, options)

    monkeypatch.setattr(operators, "read", spy)
    event, kinds = paddle.profiler.RecordEvent, paddle.base.core.TracerEventType
    paddle.seed(0)
    model = example.MyNet(num_classes=10)
    opt = paddle.optimizer.Adam(learning_rate=0.001, parameters=model.parameters())
    loader = paddle.io.DataLoader(example.MadeUpCifar10(0), batch_size=4)
    profiler = nvtrace.Profiler(
        scheduler=(1, 1 + STEPS), adapters="paddle", targets=[nvtrace.ProfilerTarget.CPU]
    )
    monkeypatch.setattr(utils, "_is_profiler_used", True)
    batches = iter(loader)
    outside: dict[str, list[tuple[int, int]]] = {}
    ends: list[tuple[int, int]] = []

    def timed(name: str, call: Any, *args: Any) -> Any:
        start = time.time_ns()
        result = call(*args)
        outside.setdefault(name, []).append((start, time.time_ns()))
        return result

    def optimize() -> None:
        with event("Optimization Step", kinds.Optimization):  # as their wrapper does
            opt.step()

    with profiler:
        for number in range(2 + STEPS):
            with event(f"ProfileStep#{number}", kinds.ProfileStep):
                x, y = timed("Dataloader", next, batches)
                loss = F.cross_entropy(timed("Forward", model, x), y)
                timed("Backward", loss.backward)
                timed("Optimization", optimize)
                opt.clear_grad()
            start = time.time_ns()
            profiler.step()
            ends.append((start, time.time_ns()))
    assert profiler.trace is not None
    found[0].outside = {name: calls[1 : 1 + STEPS] for name, calls in outside.items()}
    found[0].steps_ns = ends[STEPS][1] - ends[0][0]
    return profiler.trace, found[0]


def test_model_table_agrees(both: tuple[nvtrace.Trace, Anchor]) -> None:
    trace, anchor = both
    rows = {row["name"]: row for row in trace.summary(["model"])["model"].rows()}
    instances = trace.ranges_report()["ranges"].rows()
    for name in ("Dataloader", "Forward", "Backward", "Optimization"):
        assert rows[name]["calls"] == anchor.model[name][0] == STEPS
        ours = sorted(
            (row["start_ns"] + trace.origin_unix_ns, row["end_ns"] + trace.origin_unix_ns)
            for row in instances
            if row["kind"] == name.lower()
        )
        for (start, end), (from_, until), (called, returned) in zip(
            ours, anchor.phases[name], anchor.outside[name], strict=True
        ):
            assert (start - from_) * (end - until) <= 0, "one lies in the other"
            assert called <= start <= end <= returned
        assert rows[name]["cpu_total_ns"] == sum(end - start for start, end in ours)
    calls, total = anchor.model["ProfileStep"]
    assert rows["ProfileStep"]["calls"] == calls == STEPS
    # theirs end before step() does its work, and begin after it
    assert total <= rows["ProfileStep"]["cpu_total_ns"] <= anchor.steps_ns


def test_operator_table_agrees_to_the_nanosecond(both: tuple[nvtrace.Trace, Anchor]) -> None:
    trace, anchor = both
    rows = {row["name"]: row for row in trace.summary(["operator"])["operator"].rows()}
    for theirs, ours in STEP.items():
        row = rows[ours]
        figures = (row["calls"], row["cpu_total_ns"], row["cpu_max_ns"], row["cpu_min_ns"])
        assert figures == anchor.operators[theirs], ours
    assert len(rows) == len(anchor.operators), "and there is no other operator"


def test_the_example_goes_through_its_four_steps(
    example: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["paddle_cifar10.py", "--steps", "15", "--workers", "2", "--read-ms", "1"]
    monkeypatch.setattr("sys.argv", command)
    example.main()
    printed = capsys.readouterr().out
    assert printed.count("Perf Summary") == 3
    line = r"([\d.]+) -> ([\d.]+) steps/s: ([\d.]+)x \(([+-]\d+) %\)"
    said = re.fullmatch(line, printed.splitlines()[-1])
    assert said is not None
    before, after, ratio, percent = map(float, said.groups())
    half = 0.005  # what rounding to two decimals takes or adds
    assert (
        (after - half) / (before + half) - half <= ratio <= (after + half) / (before - half) + half
    )
    assert abs(percent - 100 * (ratio - 1)) <= 100 * half + 0.5 + 1e-6
    assert len(list((tmp_path / "profiler_demo").iterdir())) == 1
