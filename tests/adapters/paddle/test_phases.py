"""Phases of every way in which a Paddle program trains, and nothing changed by looking."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from nvtrace.adapters.paddle import marks
from nvtrace.adapters.paddle.nested import python_nested

import nvtrace
from nvtrace.model.schema import RangeKind

paddle = pytest.importorskip("paddle", reason="needs paddlepaddle")
F = paddle.nn.functional

ONE_EACH = {"Forward": 3, "Backward": 3, "Optimization": 3}


@pytest.fixture(params=["native", "python"])
def nested(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once as it was built, once as where there was no compiler."""
    if request.param == "python":
        monkeypatch.setattr(marks, "Nested", python_nested)


class Net(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first = paddle.nn.Linear(4, 8)
        self.second = paddle.nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        return self.second(F.relu(self.first(x)))


class Signs(paddle.optimizer.Optimizer):
    """An optimizer as a user writes one."""

    def step(self) -> None:
        for parameter in self._parameter_list:
            if parameter.grad is not None:
                parameter.set_value(parameter - 0.01 * paddle.sign(parameter.grad))


class Training:
    """A network, an optimizer and fixed data; ``weights`` tells what was learnt."""

    def __init__(
        self, optimizer: Callable[..., Any] = paddle.optimizer.Adam, **options: Any
    ) -> None:
        paddle.seed(1)
        self.net = Net()
        self.optimizer = optimizer(parameters=self.net.parameters(), **options)
        values = np.arange(24, dtype=np.float32).reshape(6, 4) / 24
        self.x = paddle.to_tensor(values)
        self.y = paddle.to_tensor(np.arange(6, dtype=np.int64).reshape(6, 1) % 2)

    def loss(self) -> Any:
        return F.cross_entropy(self.net(self.x), self.y)

    def weights(self) -> list[list[float]]:
        return [parameter.numpy().ravel().tolist() for parameter in self.net.parameters()]


def backward(one: Training) -> None:
    one.loss().backward()
    one.optimizer.step()
    one.optimizer.clear_grad()


def autograd_backward(one: Training) -> None:
    paddle.autograd.backward([one.loss()])
    one.optimizer.step()
    one.optimizer.clear_grad()


def grad(one: Training) -> None:
    parameters = one.net.parameters()
    for parameter, gradient in zip(parameters, paddle.grad(one.loss(), parameters), strict=True):
        parameter.set_value(parameter - 0.1 * gradient)


def minimize(one: Training) -> None:
    loss = one.loss()
    loss.backward()
    one.optimizer.minimize(loss)
    one.optimizer.clear_grad()


def scaled(one: Training) -> None:
    scaler = paddle.amp.GradScaler(init_loss_scaling=8.0)
    with paddle.amp.auto_cast(dtype="bfloat16"):
        loss = one.loss()
    scaler.scale(loss).backward()
    scaler.step(one.optimizer)
    scaler.update()
    one.optimizer.clear_grad()


def scaled_minimize(one: Training) -> None:
    scaler = paddle.amp.GradScaler(init_loss_scaling=8.0)
    with paddle.amp.auto_cast(dtype="bfloat16"):
        loss = one.loss()
    scaled_loss = scaler.scale(loss)
    scaled_loss.backward()
    scaler.minimize(one.optimizer, scaled_loss)
    one.optimizer.clear_grad()


def recomputed(one: Training) -> None:
    from paddle.distributed.fleet.utils import recompute

    F.cross_entropy(recompute(one.net, one.x), one.y).backward()
    one.optimizer.step()
    one.optimizer.clear_grad()


def look_ahead() -> Training:
    one = Training(paddle.optimizer.SGD, learning_rate=0.1)
    one.optimizer = paddle.incubate.LookAhead(one.optimizer, alpha=0.5, k=2)
    return one


def user_written() -> Training:
    return Training(Signs, learning_rate=0.01)


@pytest.mark.parametrize(
    ("make", "step", "expected"),
    [
        (Training, backward, ONE_EACH),
        (Training, autograd_backward, ONE_EACH),
        (Training, grad, {"Forward": 3, "Backward": 3}),
        (Training, minimize, ONE_EACH),
        (Training, scaled, ONE_EACH),
        (Training, scaled_minimize, ONE_EACH),
        (Training, recomputed, ONE_EACH),
        (look_ahead, backward, ONE_EACH),
        (look_ahead, minimize, ONE_EACH),
        (user_written, backward, ONE_EACH),
    ],
)
def test_phases_are_found_and_nothing_is_changed(
    make: Callable[[], Training],
    step: Callable[[Training], None],
    expected: dict[str, int],
    record: Any,
    calls: Any,
) -> None:
    bare, seen = make(), make()
    for _ in range(3):
        step(bare)
    trace = record(lambda: step(seen))
    assert calls(trace) == expected
    assert seen.weights() == bare.weights()
    step(bare), step(seen)
    assert seen.weights() == bare.weights(), "it trains on after the Profiler has stopped"


def test_a_closure_runs_its_own_phases_inside_the_step(record: Any, calls: Any) -> None:
    one = Training(paddle.optimizer.LBFGS, learning_rate=0.1, max_iter=2)
    evaluated = []

    def closure() -> Any:
        one.optimizer.clear_grad()
        loss = one.loss()
        loss.backward()
        evaluated.append(loss)
        return loss

    found = calls(record(lambda: one.optimizer.step(closure), steps=1))
    assert found == {"Forward": len(evaluated), "Backward": len(evaluated), "Optimization": 1}


@pytest.mark.usefixtures("nested")
def test_fit_shows_every_phase_and_one_forward_a_step(record: Any, calls: Any) -> None:
    class Data(paddle.io.Dataset):
        def __getitem__(self, row: int) -> tuple[Any, Any]:
            return np.full(4, row, np.float32), np.array([row % 2])

        def __len__(self) -> int:
            return 6

    model = paddle.Model(Net())
    model.prepare(
        paddle.optimizer.Adam(parameters=model.parameters()), paddle.nn.CrossEntropyLoss()
    )
    trace = record(lambda: model.fit(Data(), batch_size=2, epochs=1, verbose=0, shuffle=False), 1)
    assert calls(trace) == {"Dataloader": 3, **ONE_EACH}


@pytest.mark.usefixtures("nested")
def test_layers_are_marked_where_asked_for(record: Any) -> None:
    one = Training()
    loss = paddle.nn.CrossEntropyLoss()

    def step() -> None:
        loss(one.net(one.x), one.y).backward()
        one.optimizer.step()
        one.optimizer.clear_grad()

    rows = record(step, modules=True).summary(["user_defined"])["user_defined"].rows()
    assert {row["name"]: row["calls"] for row in rows} == {
        "Net": 3,
        "Linear": 6,
        "CrossEntropyLoss": 3,
    }
    assert record(step).summary(["user_defined"])["user_defined"].rows() == []


@pytest.mark.usefixtures("nested")
def test_an_error_in_a_layer_leaves_no_phase_open(record: Any, calls: Any) -> None:
    one = Training()

    def step() -> None:
        with pytest.raises(ValueError, match=r"matmul|shape|dim"):
            one.net(paddle.ones([2, 3]))
        backward(one)

    assert calls(record(step)) == {"Forward": 6, "Backward": 3, "Optimization": 3}


@pytest.mark.usefixtures("nested")
def test_two_threads_have_phases_of_their_own(record: Any, calls: Any) -> None:
    both = [Training(), Training()]

    def step() -> None:
        threads = [threading.Thread(target=backward, args=(one,)) for one in both]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    trace = record(step)
    assert calls(trace) == {"Forward": 6, "Backward": 6, "Optimization": 6}
    rows = {row["name"]: row for row in trace.summary(["model"])["model"].rows()}
    assert 0 <= rows["Others"]["cpu_total_ns"] <= rows["ProfileStep"]["cpu_total_ns"]
    assert both[0].weights() == both[1].weights()


@pytest.mark.parametrize("full_graph", [True, False])
@pytest.mark.parametrize("compiled_first", [True, False])
def test_to_static(full_graph: bool, compiled_first: bool, record: Any, calls: Any) -> None:
    bare, seen = Training(), Training()
    for one in (bare, seen):
        one.net = paddle.jit.to_static(one.net, full_graph=full_graph)
    for _ in range(4):
        backward(bare)
    if compiled_first:
        backward(seen)
    trace = record(lambda: backward(seen))
    assert calls(trace) == ONE_EACH
    if not compiled_first:
        backward(seen)
    assert seen.weights() == bare.weights()
    explained = trace.explain()
    operators = trace.strings.take(explained.range_name[explained.range_kind == RangeKind.OPERATOR])
    assert {"matmul", "relu_"} <= set(operators) or {"matmul", "relu"} <= set(operators)


def test_the_first_optimizer_ends_the_step(calls: Any) -> None:
    generator, critic = Training(), Training()
    schedule = nvtrace.make_scheduler(closed=1, ready=1, record=2, repeat=1)
    with nvtrace.Profiler(
        scheduler=schedule, adapters="paddle", targets=[nvtrace.ProfilerTarget.CPU]
    ) as profiler:
        for _ in range(6):
            backward(generator)
            backward(critic)
    trace = profiler.trace
    assert trace is not None
    assert profiler.step_number == 6
    assert len(trace.explain().step_rows) == 2
    # the window begins and ends right after a step of the first optimizer
    assert calls(trace) == {"Forward": 4, "Backward": 4, "Optimization": 4}


def test_closed_steps_are_not_marked_and_not_patched() -> None:
    one = Training()
    call = paddle.nn.Layer.__call__
    states = []
    schedule = nvtrace.make_scheduler(closed=2, ready=1, record=1, repeat=1)
    with nvtrace.Profiler(
        scheduler=schedule, adapters="paddle", targets=[nvtrace.ProfilerTarget.CPU]
    ) as profiler:
        for _ in range(6):
            states.append(paddle.nn.Layer.__call__ is call)
            backward(one)
            profiler.step()
    assert states == [True, True, False, False, True, True]
