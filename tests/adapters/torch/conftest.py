"""Fixtures of the PyTorch adapter's tests, left out without torch; under $CI that fails."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nvtrace

try:
    import torch
except ImportError:
    torch = None
    if os.environ.get("CI"):
        raise
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def _as_if_alone() -> Any:
    """The same start for every test, and nothing of the adapter left behind by it."""
    torch.manual_seed(0)
    before = _hooked()
    logging.getLogger("nvtrace").setLevel(logging.ERROR)  # there is no GPU here, and it says so
    yield
    logging.getLogger("nvtrace").setLevel(logging.NOTSET)
    torch._dynamo.reset()
    assert all(one is other for one, other in zip(_hooked(), before, strict=True))


def _hooked() -> list[Any]:
    """Everything that the adapter puts something in the place of."""
    from torch.optim import lr_scheduler, optimizer
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    schedulers = [lr_scheduler.LRScheduler, *vars(lr_scheduler).values()]
    return [
        torch.nn.Module.__call__,
        torch.autograd._engine_run_backward,
        torch.autograd.graph._engine_run_backward,
        torch.autograd.backward,
        torch.autograd.grad,
        _BaseDataLoaderIter.__next__,
        torch.optim.Optimizer.zero_grad,
        *(vars(torch.amp.GradScaler)[name] for name in ("step", "update", "unscale_")),
        *(vars(one)["step"] for one in schedulers if "step" in getattr(one, "__dict__", {})),
        *optimizer._global_optimizer_pre_hooks.values(),
        *optimizer._global_optimizer_post_hooks.values(),
    ]


@pytest.fixture
def profiled() -> Callable[..., nvtrace.Trace]:
    """Runs a training loop twice, recorded and not, and checks that both end with the same bits.

    The loop takes a seeded start and returns what it trained: tensors by name.
    """

    def run(loop: Callable[[], dict[str, Any]], **options: Any) -> nvtrace.Trace:
        torch.manual_seed(0)
        plain = loop()
        torch.manual_seed(0)
        profiler = nvtrace.Profiler(adapters=["torch"], **options)
        with profiler:
            recorded = loop()
        assert plain.keys() == recorded.keys()
        for name, value in plain.items():
            same = np.array_equal(_bits(value), _bits(recorded[name]))
            assert same, f"{name} differs"
        assert profiler.trace is not None
        return profiler.trace

    return run


def _bits(tensor: Any) -> np.ndarray:
    return tensor.detach().contiguous().view(torch.uint8).numpy()
