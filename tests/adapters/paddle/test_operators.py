"""Operators from Paddle's own tracer: read whole, named alike, and one tracer at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from nvtrace.adapters.paddle import operators

import nvtrace
from nvtrace.instrumentation import AdapterOptions
from nvtrace.model.schema import RangeKind

paddle = pytest.importorskip("paddle", reason="needs paddlepaddle")
F = paddle.nn.functional


@dataclass
class Kind:
    name: str


@dataclass
class Moment:
    type: Kind
    timestamp_ns: int
    increase_bytes: int
    current_allocated: int
    current_reserved: int
    place: str


@dataclass
class Node:
    name: str
    type: Kind
    start_ns: int
    end_ns: int
    children_node: list[Node] = field(default_factory=list)
    mem_node: list[Moment] = field(default_factory=list)
    input_shapes: dict[str, list[list[int]]] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)


def tree(*children: Node, memory: list[Moment] | None = None) -> Node:
    return Node("root node", Kind("UserDefined"), 0, 2**64 - 1, list(children), memory or [])


def relu() -> Node:
    launch = Node("relu kernel launch", Kind("DygraphKernelLaunch"), 30, 80)
    launch.mem_node = [Moment(Kind("Allocate"), 40, 512, 600, 1024, "Place(gpu:0)")]
    dygraph = Node("relu dygraph", Kind("Operator"), 10, 90, [launch])
    dygraph.input_shapes = {"X": [[2, 3]]}
    return Node("relu pybind_imperative_func", Kind("UserDefined"), 0, 100, [dygraph])


def listed(harvest: Any) -> list[tuple[Any, ...]]:
    rows = harvest.ranges
    names = harvest.strings.take(rows.name)
    kinds = [RangeKind(kind).name for kind in rows.kind.tolist()]
    times = zip(rows.start.tolist(), rows.end.tolist(), rows.thread.tolist(), strict=True)
    return sorted(
        (thread, start, end, name, kind)
        for (start, end, thread), name, kind in zip(times, names, kinds, strict=True)
    )


def test_trees_become_columns() -> None:
    grad = Node("Global_ReluGradNode", Kind("Operator"), 210, 290)
    grad.children_node = [
        Node(
            "Local_ReluGradNode",
            Kind("OperatorInner"),
            220,
            280,
            [Node("relu_grad infer_meta", Kind("OperatorInner"), 230, 240)],
        )
    ]
    layer = Node("Net", Kind("Forward"), 0, 100, [relu()])
    found = operators.read({7: tree(layer), 9: tree(grad)}, AdapterOptions())
    assert listed(found) == [
        (7, 10, 90, "relu", "OPERATOR"),
        (7, 30, 80, "relu kernel launch", "OPERATOR_INNER"),
        (9, 210, 290, "relu_grad", "OPERATOR"),
        (9, 230, 240, "relu_grad infer_meta", "OPERATOR_INNER"),
    ]
    assert (found.marks, found.samples, found.notes) == (None, None, ())


def test_memory_is_read_once_each() -> None:
    root = tree(relu(), memory=[Moment(Kind("Free"), 150, -88, 512, 1024, "Place(gpu:0)")])
    found = operators.read({7: root}, AdapterOptions(profile_memory=True))
    marks = found.marks
    assert marks is not None
    names = found.strings.take(marks.name)
    rows = zip(
        marks.time.tolist(), names, marks.thread.tolist(), marks.payload.tolist(), strict=True
    )
    assert sorted(rows) == [(40, "allocate gpu:0", 7, 512), (150, "free gpu:0", 7, 88)]
    assert [counter.name for counter in found.counters] == [
        "Memory allocated gpu:0",
        "Memory reserved gpu:0",
    ]
    assert found.samples is not None
    levels = zip(
        *(found.samples[key].tolist() for key in ("time", "counter", "value")), strict=True
    )
    assert sorted(levels) == [(40, 0, 600.0), (40, 1, 1024.0), (150, 0, 512.0), (150, 1, 1024.0)]


def test_shapes_are_read_where_there_are_any() -> None:
    found = operators.read({7: tree(relu())}, AdapterOptions(record_shapes=True))
    rows = found.ranges
    assert rows is not None
    texts = [found.strings[row] if row >= 0 else None for row in rows.text.tolist()]
    names = found.strings.take(rows.name)
    assert dict(zip(names, texts, strict=True)) == {
        "relu": "shapes = {'X': [[2, 3]]}",
        "relu kernel launch": None,
    }
    assert found.notes == ()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"record_shapes": True}, "shapes = {'X': [[8, 16]], 'Y': [[16, 4]]}"),
        ({"with_flops": True}, "flops = 1024"),  # 8 * 4 sums of 16 products
        (
            {"record_shapes": True, "with_flops": True},
            "shapes = {'X': [[8, 16]], 'Y': [[16, 4]]}, flops = 1024",
        ),
    ],
)
def test_an_operator_has_the_shapes_that_its_inner_phase_noted(
    options: dict[str, bool], text: str
) -> None:
    inner = Node("infer_shape", Kind("OperatorInner"), 20, 30)
    inner.input_shapes = {"X": [[8, 16]], "Y": [[16, 4]]}
    inner.attributes = {"trans_x": False, "trans_y": False}
    root = tree(Node("matmul_v2", Kind("Operator"), 10, 90, [inner]))
    found = operators.read({7: root}, AdapterOptions(**options))
    rows = found.ranges
    assert rows is not None
    texts = [found.strings[row] if row >= 0 else None for row in rows.text.tolist()]
    assert dict(zip(found.strings.take(rows.name), texts, strict=True)) == {
        "matmul_v2": text,
        "infer_shape": None,
    }
    assert found.notes == ()


def old_program() -> tuple[Any, Any]:
    """An executor and a program of Paddle's old static kind: a product of 8x16 and 16x4."""
    main, start = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, start):
        weight = paddle.static.create_parameter([16, 4], "float32")
        block = main.global_block()
        made = {
            name: block.create_var(name=name, dtype="float32", shape=shape)
            for name, shape in {"x": [8, 16], "y": [8, 4]}.items()
        }
        filled = {"shape": [8, 16], "dtype": 5, "value": 1.0}
        block.append_op(type="fill_constant", outputs={"Out": made["x"]}, attrs=filled)
        inputs = {"X": made["x"], "Y": weight}
        block.append_op(type="matmul_v2", inputs=inputs, outputs={"Out": made["y"]})
    executor = paddle.static.Executor()
    executor.run(start)
    executor.run(main)  # the first run builds it, and shows no operators
    return executor, main


def test_an_old_static_program_has_shapes_and_flops(record: Any) -> None:
    pir_utils = pytest.importorskip("paddle.pir_utils", reason="a Paddle with old programs alone")
    paddle.enable_static()
    try:
        with pir_utils.OldIrGuard():
            executor, main = old_program()
            trace = record(lambda: executor.run(main), record_shapes=True, with_flops=True)
    finally:
        paddle.disable_static()
    rows = [row for row in trace.ranges_report()["ranges"].rows() if row["name"] == "matmul_v2"]
    expected = "shapes = {'X': [[8, 16]], 'Y': [[16, 4]]}, flops = 1024"
    assert [row["text"] for row in rows] == [expected] * 3
    assert not {"shapes_not_recorded", "flops_not_recorded"} & {note.code for note in trace.notes}


def test_this_paddle_records_no_shapes_and_the_report_says_so(record: Any) -> None:
    trace = record(lambda: paddle.ones([2]) + 1, record_shapes=True, with_flops=True)
    assert {"shapes_not_recorded", "flops_not_recorded"} <= {note.code for note in trace.notes}


def forward_operators() -> dict[str, Any]:
    x = paddle.to_tensor(np.linspace(0.1, 0.9, 24, dtype=np.float32).reshape(2, 3, 4))
    x.stop_gradient = False
    image = paddle.ones([1, 2, 6, 6])
    image.stop_gradient = False
    kernel = paddle.ones([3, 2, 3, 3])
    kernel.stop_gradient = False
    return {
        "conv": F.conv2d(image, kernel),
        "pool": F.max_pool2d(image, 2),
        "transposed": F.conv2d_transpose(image, paddle.ones([2, 3, 3, 3])),
        "softmax": F.softmax(x),
        "norm": paddle.norm(x, p=3),
        "layer_norm": F.layer_norm(x, 4),
        "batch_norm": F.batch_norm(image, paddle.zeros([2]), paddle.ones([2]), training=True),
        "embedding": F.embedding(paddle.to_tensor([0, 1]), x[0]),
        "matmul": paddle.matmul(x, x, transpose_y=True),
        "activations": F.gelu(F.leaky_relu(F.hardswish(F.silu(x)))),
        "shapes": paddle.concat([x, x])
        .transpose([1, 0, 2])
        .unsqueeze(0)
        .squeeze(0)
        .tile([1, 1, 2]),
        "reductions": x.mean() + x.sum() + x.max() + x.logsumexp(),
        "fft": paddle.fft.rfft(x).abs(),
        "elementwise": (x * x - x / 2) ** 2,
        "dropout": F.dropout(x, 0.5),
    }


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of the kernels that the gradients' ranges hold, taken from the tracer's own trees."""
    found: set[str] = set()
    read = operators.read

    def spy(trees: dict[int, Any], options: AdapterOptions) -> Any:
        pending = list(trees.values())
        while pending:  # here, for the trees die with the result that they are of
            node = pending.pop()
            pending += node.children_node
            if node.name.startswith("Local_"):
                found.update(
                    child.name.removesuffix(" kernel launch") for child in node.children_node
                )
        return read(trees, options)

    monkeypatch.setattr(operators, "read", spy)
    return found


def test_gradients_are_named_after_their_kernels(record: Any, kernels: set[str]) -> None:
    def step() -> None:
        for result in forward_operators().values():
            result.sum().backward()

    trace = record(step, steps=1)
    explained = trace.explain()
    shown = set(
        trace.strings.take(explained.range_name[explained.range_kind == RangeKind.OPERATOR])
    )
    gradients = {name for name in kernels if name.endswith("_grad")}
    assert len(gradients) > 25
    assert gradients - shown == set(), "the kernel of each is named after the gradient's operator"
    forward = {name.removesuffix("_grad") for name in gradients}
    assert forward - {name.rstrip("_") for name in shown} == set(), "and its forward is there"


def test_each_operator_lies_in_its_phase(record: Any) -> None:
    net = paddle.nn.Linear(3, 2)
    optimizer = paddle.optimizer.SGD(parameters=net.parameters())
    x = paddle.ones([2, 3])

    def step() -> None:
        net(x).sum().backward()
        optimizer.step()
        optimizer.clear_grad()

    trace = record(step)
    explained = trace.explain()
    found: dict[str, set[str]] = {}
    for row in np.flatnonzero(explained.range_kind == RangeKind.OPERATOR).tolist():
        name = trace.strings[int(explained.range_name[row])]
        phase = int(explained.range_phase[row])
        kind = RangeKind(int(explained.range_kind[phase])).name if phase >= 0 else "none"
        found.setdefault(name, set()).add(kind)
    assert found["matmul"] == {"FORWARD"}
    assert found["sum"] == {"none"}
    assert found["matmul_grad"] == found["grad_accumulation"] == {"BACKWARD"}
    assert found["sgd_"] == {"OPTIMIZATION"}


def test_a_paddle_profiler_that_lives_keeps_its_tracer(record: Any) -> None:
    anchor = paddle.profiler.Profiler()
    trace = record(lambda: paddle.ones([2]) + 1)
    assert "operators_not_recorded" in {note.code for note in trace.notes}
    del anchor
    trace = record(lambda: paddle.ones([2]) + 1)
    assert "operators_not_recorded" not in {note.code for note in trace.notes}
    assert trace.summary(["operator"])["operator"].rows()


def test_no_paddle_profiler_is_made_meanwhile_but_one_that_only_times() -> None:
    options: dict[str, Any] = {"adapters": "paddle", "targets": [nvtrace.ProfilerTarget.CPU]}
    with nvtrace.Profiler(**options) as profiler:
        with pytest.raises(nvtrace.UsageError, match=r"one tracer.*stop\(\) nvtrace's Profiler"):
            paddle.profiler.Profiler()
        timer = paddle.profiler.Profiler(timer_only=True)
        profiler.step()
    del timer
    anchor = paddle.profiler.Profiler()
    anchor.start()
    anchor.stop()


def test_a_missing_paddle_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "paddle", None)
    with (
        pytest.raises(nvtrace.NvtraceError, match="needs paddlepaddle"),
        nvtrace.Profiler(adapters="paddle"),
    ):
        pass


def test_an_old_paddle_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paddle, "__version__", "2.5.2")
    with (
        pytest.raises(nvtrace.NvtraceError, match=r"2\.6 or newer: this is 2\.5\.2"),
        nvtrace.Profiler(adapters="paddle"),
    ):
        pass
