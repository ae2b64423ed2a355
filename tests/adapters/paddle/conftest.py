"""What the tests of the Paddle adapter share. Without Paddle they are skipped; under $CI they fail.

After every test each choke point of Paddle must be the very object that it was before.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import nvtrace

if importlib.util.find_spec("paddle") is not None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for ccache and numpy's old names
        import paddle
        import paddle.profiler
    # else the first paddle.profiler.Profiler wraps every optimizer, for good
    paddle.profiler.utils._has_optimizer_wrapped = True
elif os.environ.get("CI"):
    raise pytest.UsageError("the tests of the Paddle adapter need paddlepaddle: make setup")

Training = Callable[[], Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "adapters/paddle" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("ignore:::paddle"))


def choke_points() -> dict[tuple[str, str], object]:
    """Everything that the adapter may replace, by owner and name."""
    from paddle.base import core
    from paddle.incubate import LookAhead
    from paddle.io.dataloader import dataloader_iter as iterators

    owners = [
        paddle.nn.Layer,
        core.eager,
        core.ProcessGroup,
        iterators._DataLoaderIterSingleProcess,
        iterators._DataLoaderIterMultiProcess,
        paddle.profiler.Profiler,
        LookAhead,
        paddle._C_ops,
        *(getattr(paddle.optimizer, name) for name in paddle.optimizer.__all__),
    ]
    return {
        (getattr(owner, "__name__", str(owner)), name): value
        for owner in owners
        for name, value in vars(owner).items()
        if not name.startswith("_") or name in ("__call__", "__next__", "__init__")
    }


@pytest.fixture(autouse=True)
def restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)  # paddle.profiler makes a folder where it is
    before = choke_points()
    yield
    after = choke_points()
    assert after.keys() == before.keys()
    assert [name for name in before if after[name] is not before[name]] == []


@pytest.fixture
def record() -> Callable[..., nvtrace.Trace]:
    """A function that records ``steps`` calls of a training step as the adapter sees them."""

    def run(train: Training, steps: int = 3, **options: Any) -> nvtrace.Trace:
        options = {"targets": [nvtrace.ProfilerTarget.CPU], "adapters": "paddle", **options}
        with nvtrace.Profiler(**options) as profiler:
            for _ in range(steps):
                train()
                profiler.step()
        assert profiler.trace is not None
        return profiler.trace

    return run


@pytest.fixture
def calls() -> Callable[[nvtrace.Trace], dict[str, int]]:
    """A function that returns how often each phase was in the Model view."""

    def count(trace: nvtrace.Trace) -> dict[str, int]:
        rows = trace.summary(["model"])["model"].rows()
        return {
            row["name"]: row["calls"]
            for row in rows
            if row["name"] not in ("ProfileStep", "Others")
        }

    return count
