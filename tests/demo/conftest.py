"""Small generated reports, written once."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from nvtrace.demo import write_report


class Generated(NamedTuple):
    """A report and what its generator says about it."""

    path: Path
    rows: sqlite3.Connection
    truth: dict[str, Any]
    owners: dict[str, np.ndarray]


def _generate(path: Path, **options: Any) -> Generated:
    write_report(path, **options)
    rows = sqlite3.connect(path)
    truth = json.loads(Path(f"{path}.truth.json").read_text(encoding="utf-8"))
    with np.load(f"{path}.truth.npz") as arrays:
        owners = dict(arrays)
    return Generated(path, rows, truth, owners)


_OPTIONS = {
    "plain": {"ranks": 2},
    "everything": {
        "ranks": 3,
        "seed": 7,
        "graph": True,
        "graph_trace": True,
        "edge": True,
        "unfinished": True,
    },
}


@pytest.fixture(scope="session", params=_OPTIONS)
def report(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    made = _generate(folder / "run.sqlite", kernels=2_000, **_OPTIONS[request.param])
    yield made
    made.rows.close()


@pytest.fixture(scope="session")
def everything(tmp_path_factory):
    folder = tmp_path_factory.mktemp("everything")
    made = _generate(folder / "run.sqlite", kernels=600, **_OPTIONS["everything"])
    yield made
    made.rows.close()
