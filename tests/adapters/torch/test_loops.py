"""Phases and steps of training loops, with exact counts; what is trained stays the same."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
import torch
from torch.optim.optimizer import _global_optimizer_pre_hooks
from torch.utils.checkpoint import checkpoint
from training import PHASES, counts, loader, named, note_codes, perceptron

import nvtrace


def of(steps: int, waits: int, forward: int, backward: int, optimization: int) -> dict[str, int]:
    values = (steps, waits, forward, backward, optimization)
    return {name: value for name, value in zip(PHASES, values, strict=True) if value}


def loss_of(model: Any, x: Any) -> Any:
    return model(x).square().mean()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("modules", [False, True])
def test_bare_loop(profiled: Any, workers: int, modules: bool) -> None:
    def loop() -> dict[str, Any]:
        model = perceptron()
        optimizer = torch.optim.Adam(model.parameters())
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        for _ in range(2):
            for (x,) in loader(num_workers=workers):
                optimizer.zero_grad()
                loss_of(model, x).backward()
                optimizer.step()
                schedule.step()
        return model.state_dict()

    trace = profiled(loop, modules=modules)
    assert counts(trace) == of(8, 8, 8, 8, 8)
    assert "steps_by_adapter" in note_codes(trace)
    assert len(named(trace, "Optimizer.zero_grad")) == 8
    assert len(named(trace, "lr_scheduler.step")) == 1 + 8  # one of its own as it is made
    for name in ("Sequential", "inner", "act", "outer"):
        assert len(named(trace, name)) == (8 if modules else 0)
        assert len(named(trace, f"{name} (backward)")) == (8 if modules else 0)


def test_steps_of_the_program_win() -> None:
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with nvtrace.Profiler(adapters=["torch"]) as profiler:
        for number, (x,) in enumerate(loader()):
            loss_of(model, x).backward()
            if number % 2:
                optimizer.step()
            profiler.step()
    assert profiler.trace is not None
    assert counts(profiler.trace) == of(4, 4, 4, 4, 2)
    assert "steps_by_adapter" not in note_codes(profiler.trace)


def test_windows_of_a_schedule() -> None:
    """Steps that the optimizer ends go through a schedule, and windows hold what is theirs."""
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    traces = []
    profiler = nvtrace.Profiler(
        adapters=["torch"],
        scheduler=nvtrace.make_scheduler(closed=1, ready=1, record=2, repeat=2),
        on_trace_ready=lambda one: traces.append(one.trace),
    )
    with profiler:
        for (x,) in loader(samples=40):
            optimizer.zero_grad()
            loss_of(model, x).backward()
            optimizer.step()
    assert [counts(trace) for trace in traces] == [of(2, 2, 2, 2, 2)] * 2
    assert [[row["step"] for row in named(trace, "forward")] for trace in traces] == [
        [2, 3],
        [6, 7],
    ]


def closed_until_1(step: int) -> nvtrace.ProfilerState:
    return nvtrace.ProfilerState.RECORD if 1 <= step < 4 else nvtrace.ProfilerState.CLOSED


@pytest.mark.parametrize(
    ("scheduler", "left_out"),
    [((1, 4), {}), (closed_until_1, {1: "known to have ended too late"})],
    ids=["armed before", "armed then"],
)
def test_a_step_that_ended_before_it_was_recorded(scheduler: Any, left_out: dict[int, str]) -> None:
    """That the optimizer's ends count is known at the second: too late for step 1."""
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with nvtrace.Profiler(adapters=["torch"], scheduler=scheduler) as profiler:
        for _ in itertools.repeat(None, 6):
            loss_of(model, torch.ones(4, 8)).backward()
            optimizer.step()
    trace, benchmark = profiler.trace, profiler.benchmark
    assert trace is not None
    assert counts(trace) == of(2, 0, 2, 2, 2)
    assert trace.explain().step_numbers.tolist() == [2, 3]
    assert benchmark is not None
    assert dict(benchmark.left_out) == left_out
    assert benchmark.batch_cost.minimum > 1e-6


def test_accumulation(profiled: Any) -> None:
    def loop() -> dict[str, Any]:
        model = perceptron()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for number, (x,) in enumerate(loader(samples=32)):
            loss_of(model, x).backward()
            if number % 2:
                optimizer.step()
                optimizer.zero_grad()
        return model.state_dict()

    trace = profiled(loop)
    assert counts(trace) == of(4, 8, 8, 8, 4)
    (note,) = [note for note in trace.notes if note.code == "gradient_accumulation"]
    assert "8 backward passes for 4 optimizer steps" in note.message


def test_grad_scaler_with_a_step_skipped(profiled: Any) -> None:
    def loop() -> dict[str, Any]:
        model = perceptron()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        for number, (x,) in enumerate(loader()):
            optimizer.zero_grad()
            loss = loss_of(model, x) * (float("inf") if number == 1 else 1.0)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        return model.state_dict()

    trace = profiled(loop)
    assert counts(trace) == of(4, 4, 4, 4, 4)
    (skipped,) = named(trace, "optimizer step skipped")
    assert skipped["style"] == "mark"
    assert skipped["step"] == 1
    (note,) = [note for note in trace.notes if note.code == "steps_skipped"]
    assert "1 of 4 optimizer steps" in note.message
    assert len(named(trace, "GradScaler.unscale_")) == 4
    assert len(named(trace, "GradScaler.update")) == 4


def test_lbfgs_runs_forward_and_backward_in_its_step(profiled: Any) -> None:
    closures = []

    def loop() -> dict[str, Any]:
        model = perceptron()
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
        closures.clear()
        for (x,) in loader():

            def closure(x: Any = x) -> Any:
                closures.append(1)
                optimizer.zero_grad()
                loss = loss_of(model, x)
                loss.backward()
                return loss

            optimizer.step(closure)
        return model.state_dict()

    trace = profiled(loop)
    assert len(closures) > 4
    assert counts(trace) == of(4, 4, len(closures), len(closures), 4)
    rows = trace.summary("model")["model"].rows()
    phases = sum(row["cpu_total_ns"] for row in rows if row["name"] != "ProfileStep")
    (step,) = [row["cpu_total_ns"] for row in rows if row["name"] == "ProfileStep"]
    assert phases == step  # what is nested counts once


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputation_is_no_forward(profiled: Any, reentrant: bool) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = perceptron(), perceptron()

        def forward(self, x: Any) -> Any:
            return checkpoint(self.second, self.first(x), use_reentrant=reentrant)

    def loop() -> dict[str, Any]:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for (x,) in loader():
            optimizer.zero_grad()
            loss_of(model, x).backward()
            optimizer.step()
        return model.state_dict()

    trace = profiled(loop, modules=True)
    assert counts(trace) == of(4, 4, 4, 4, 4)
    again = [row for row in named(trace, "second.inner") if "backward" in row["path"]]
    assert len(named(trace, "first.inner")) == 4
    assert len(named(trace, "second.inner")) == 8
    assert len(again) == 4


def test_two_optimizers_make_one_step(profiled: Any) -> None:
    def loop() -> dict[str, Any]:
        generator, critic = perceptron(), perceptron()
        for_generator = torch.optim.Adam(generator.parameters())
        for_critic = torch.optim.Adam(critic.parameters())
        for (real,) in loader():
            noise = torch.ones_like(real)
            for_critic.zero_grad()
            fake = generator(noise)
            (critic(fake.detach()).mean() - critic(real).mean()).backward()
            for_critic.step()
            for_generator.zero_grad()
            (-critic(fake).mean()).backward()
            for_generator.step()
        return {**generator.state_dict(), **critic.state_dict(prefix="critic.")}

    trace = profiled(loop)
    # generator once, critic on fake, on real, and on fake again
    assert [len(named(trace, name)) for name in ("forward", "backward")] == [16, 8]
    assert len(named(trace, "optimization")) == 8
    # the critic steps first and ends the step, so what follows its last one is in no step
    assert counts(trace) == of(4, 4, 15, 7, 7)


def test_iterable_dataset_ends_without_a_wait(profiled: Any) -> None:
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            return iter(torch.ones(12, 8))

    def loop() -> dict[str, Any]:
        model = perceptron()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in torch.utils.data.DataLoader(Stream(), batch_size=4):
            optimizer.zero_grad()
            loss_of(model, x).backward()
            optimizer.step()
        return model.state_dict()

    assert counts(profiled(loop)) == of(3, 3, 3, 3, 3)


def test_waits_are_reader_cost() -> None:
    with nvtrace.Profiler(adapters=["torch"]) as profiler:
        for _ in loader():
            profiler.step()
    trace, benchmark = profiler.trace, profiler.benchmark
    assert trace is not None
    assert benchmark is not None
    waits = [row["duration_ns"] for row in named(trace, "dataloader")]
    assert len(waits) == 4
    assert benchmark.reader_cost.maximum > 0


def test_modules_that_prepare_data_are_no_forward() -> None:
    double = torch.nn.Identity()

    class Data(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, row: int) -> Any:
            return double(torch.ones(2))

    with nvtrace.Profiler(adapters=["torch"]) as profiler:
        for _ in torch.utils.data.DataLoader(Data(), batch_size=2):
            profiler.step()
    assert profiler.trace is not None
    assert counts(profiler.trace) == of(2, 2, 0, 0, 0)


def test_gradients_by_autograd_grad() -> None:
    from torch.autograd import grad  # by name, before the adapter comes

    x = torch.ones(3, requires_grad=True)
    with nvtrace.Profiler(adapters=["torch"]) as profiler:
        grad(x.square().sum(), x)
        torch.autograd.grad(x.square().sum(), x)
        torch.func.grad(lambda y: y.square().sum())(torch.ones(3))
        profiler.step()
    assert profiler.trace is not None
    assert counts(profiler.trace) == of(1, 0, 0, 3, 0)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_stays_open_after_an_error(error: type[BaseException]) -> None:
    class Breaks(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise error

    class BreaksBackward(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            raise error

    model = perceptron()
    x = torch.ones(4, 8, requires_grad=True)
    with nvtrace.Profiler(adapters=["torch"], modules=True) as profiler:
        with pytest.raises(error):
            torch.nn.Sequential(Breaks())(x)
        with pytest.raises(error):
            BreaksBackward.apply(x).sum().backward()
        model(x)
        profiler.step()
    trace = profiler.trace
    assert trace is not None
    assert counts(trace) == of(1, 0, 2, 1, 0)
    rows = trace.ranges_report()["ranges"].rows()
    assert [row["name"] for row in rows if row["unfinished"]] == []
    assert {row["depth"] for row in rows if row["kind"] in ("forward", "backward")} == {0}


def test_optimizer_step_that_raises_ends_where_the_next_phase_begins() -> None:
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def closure() -> Any:
        raise ValueError

    with nvtrace.Profiler(adapters=["torch"]) as profiler:
        with pytest.raises(ValueError, match=r"^$"):
            optimizer.step(closure)
        loss_of(model, torch.ones(4, 8)).backward()
        with pytest.raises(ValueError, match=r"^$"):
            optimizer.step(closure)
        with pytest.raises(ValueError, match=r"^$"):
            optimizer.step(closure)
        profiler.step()
    trace = profiler.trace
    assert trace is not None
    assert counts(trace) == of(1, 0, 1, 1, 3)
    first, second, third = named(trace, "optimization")
    (forward,) = named(trace, "forward")
    assert first["end_ns"] <= forward["start_ns"]
    assert second["end_ns"] <= third["start_ns"]
    assert not first["unfinished"]
    assert not second["unfinished"]


def test_threads_have_phases_of_their_own() -> None:
    def work(x: Any) -> None:
        loss_of(perceptron(), x).backward()

    with nvtrace.Profiler(adapters=["torch"]) as profiler:
        threads = [threading.Thread(target=work, args=(torch.ones(4, 8),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        profiler.step()
    trace = profiler.trace
    assert trace is not None
    assert counts(trace) == of(1, 0, 2, 2, 0)
    for name in ("forward", "backward", "AddmmBackward0"):
        assert len({row["thread"] for row in named(trace, name)}) == 2


def test_loader_workers_start_clean() -> None:
    """A worker forked from a recording process finds torch as it is without nvtrace."""

    class Data(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, row: int) -> Any:
            names = [torch.nn.Module.__call__.__name__, torch.optim.Optimizer.zero_grad.__name__]
            engine = torch.autograd._engine_run_backward.__module__
            hooks = len(_global_optimizer_pre_hooks)
            clean = names == ["_wrapped_call_impl", "zero_grad"] and not hooks
            return torch.tensor(clean and engine == "torch.autograd.graph")

    with nvtrace.Profiler(adapters=["torch"]) as profiler:
        assert torch.nn.Module.__call__.__name__ != "_wrapped_call_impl"
        data = torch.utils.data.DataLoader(Data(), num_workers=2, multiprocessing_context="fork")
        found = torch.cat(list(data))
        profiler.step()
    assert found.tolist() == [True] * 4
    assert profiler.trace is not None
    assert counts(profiler.trace) == of(1, 4, 0, 0, 0)


def test_what_another_put_on_top_stays() -> None:
    """Somebody else's function calls ours, which does nothing then, and once again later."""
    before = torch.nn.Module.__call__
    seen = []
    with nvtrace.Profiler(adapters=["torch"]):
        ours = torch.nn.Module.__call__

        def theirs(module: Any, *args: Any, **kwargs: Any) -> Any:
            seen.append(module)
            return ours(module, *args, **kwargs)

        torch.nn.Module.__call__ = theirs
    try:
        assert torch.nn.Module.__call__ is theirs
        perceptron()(torch.ones(1, 8))
        assert len(seen) == 4
        assert _forwards() == 1
        assert torch.nn.Module.__call__ is theirs
    finally:
        torch.nn.Module.__call__ = before
    assert _forwards() == 1
    assert torch.nn.Module.__call__ is before


def _forwards() -> int:
    with nvtrace.Profiler(adapters=["torch"]) as profiler:
        perceptron()(torch.ones(1, 8))
        profiler.step()
    assert profiler.trace is not None
    return counts(profiler.trace)["Forward"]


def test_steps_end_with_the_first_optimizer_alive() -> None:
    """The first one may be gone, as after a search for a learning rate."""
    with nvtrace.Profiler(adapters=["torch"]) as profiler:
        for _ in range(2):
            model = perceptron()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in itertools.repeat(None, 2):
                loss_of(model, torch.ones(4, 8)).backward()
                optimizer.step()
            del optimizer
    assert profiler.trace is not None
    assert counts(profiler.trace)["ProfileStep"] == 4
