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
    """paddle.profiler's own statistics of the very events that nvtrace got."""

    between_ns = 0

    def __init__(self, statistics: Any) -> None:
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
    batches, ended, between = iter(loader), 0, []
    with profiler:
        for number in range(2 + STEPS):
            # as paddle.profiler.Profiler.step and its wrapper of optimizers do
            between.append(time.perf_counter_ns() - ended)
            with event(f"ProfileStep#{number}", kinds.ProfileStep):
                x, y = next(batches)
                F.cross_entropy(model(x), y).backward()
                with event("Optimization Step", kinds.Optimization):
                    opt.step()
                opt.clear_grad()
            ended = time.perf_counter_ns()
            profiler.step()
    assert profiler.trace is not None
    found[0].between_ns = sum(between[1 : 1 + STEPS])
    return profiler.trace, found[0]


def test_model_table_agrees(both: tuple[nvtrace.Trace, Anchor]) -> None:
    trace, anchor = both
    rows = {row["name"]: row for row in trace.summary(["model"])["model"].rows()}
    instances = trace.ranges_report()["ranges"].rows()
    for name in ("Dataloader", "Forward", "Backward", "Optimization"):
        assert rows[name]["calls"] == anchor.model[name][0] == STEPS
        ours = [
            (row["start_ns"] + trace.origin_unix_ns, row["end_ns"] + trace.origin_unix_ns)
            for row in instances
            if row["kind"] == name.lower()
        ]
        apart = []
        for (start, end), (from_, until) in zip(sorted(ours), anchor.phases[name], strict=True):
            assert (start - from_) * (end - until) <= 0, "one lies in the other"
            apart.append(abs(start - from_) + abs(end - until))
        assert min(apart) < 100_000, "on a busy machine any one of them may have been interrupted"
    calls, total = anchor.model["ProfileStep"]
    assert rows["ProfileStep"]["calls"] == calls == STEPS
    # theirs end before step() does its work, and begin after it
    assert total <= rows["ProfileStep"]["cpu_total_ns"] <= total + anchor.between_ns + 10_000


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
    assert ratio == pytest.approx(after / before, abs=0.01)
    assert percent == pytest.approx(100 * (ratio - 1), abs=1.5)
    assert len(list((tmp_path / "profiler_demo").iterdir())) == 1
