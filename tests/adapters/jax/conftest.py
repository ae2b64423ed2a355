"""Fixtures of the JAX adapter's tests, left out without jax; under $CI that fails.

With $NVTRACE_OLD_JAX the tests run on the JAX in that folder: see test_older_version.py.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Iterator

import pytest

os.environ["JAX_PLATFORMS"] = "cpu"

if importlib.util.find_spec("jax") is None:
    if os.environ.get("CI"):
        raise ImportError("the JAX adapter's tests need jax: pip install --group test")
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """Check that what the adapter puts in the place of things is gone after each test."""
    logging.getLogger("nvtrace").setLevel(logging.ERROR)  # there is no GPU here, and it says so
    before = hooked()
    yield
    logging.getLogger("nvtrace").setLevel(logging.NOTSET)
    assert hooked() == before


def hooked() -> list[object]:
    """Everything that the adapter puts something in the place of, and who listens."""
    import jax
    from jax._src import monitoring
    from jax._src.array import ArrayImpl

    return [
        jax.jit,
        jax.device_put,
        jax.block_until_ready,
        vars(jax.profiler.StepTraceAnnotation).get("__exit__"),
        *(vars(ArrayImpl).get(name) for name in ("block_until_ready", "_value", "item")),
        *(
            list(getattr(monitoring, f"get_{kind}_listeners")())
            for kind in ("event", "event_duration", "scalar")
        ),
    ]
