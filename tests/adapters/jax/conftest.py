"""Fixtures of the JAX adapter's tests, which run where they are asked for by their path.

In a run of all tests, ``tests/adapters/test_jax.py`` runs them in a process of their own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ["JAX_PLATFORMS"] = "cpu"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    here = Path(__file__).parent
    asked = [Path(str(one).split("::")[0]).resolve() for one in config.args]
    wanted = any(here in (path, *path.parents) for path in asked)
    return None if wanted else True


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
