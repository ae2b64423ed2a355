"""Reports of Nsight Systems: kernels to HLO instructions, by which evidence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest
from builders import Capture, Node
from jax_programs import mlp
from nvtrace.adapters.jax import device_report, programs

from nvtrace.errors import SourceError


@pytest.fixture(scope="module")
def kept(tmp_path_factory: Any) -> Iterator[Path]:
    """The programs of this process, an MLP's among them."""
    step, weights, batch = mlp()
    compiled = jax.jit(step)
    jax.block_until_ready(compiled(weights, batch))
    folder = tmp_path_factory.mktemp("hlo")
    assert programs.save(folder) >= 1
    yield folder
    del compiled  # a program lives as long as its function


@pytest.fixture
def step(kept: Path) -> tuple[int, dict[str, Any]]:
    """Id of the MLP's program, and its labels."""
    known = programs.load(kept)
    ids = [program for name, program in known.names() if name == "jit_train_step"]
    labels = known.labels("jit_train_step", ids[0])
    assert labels is not None
    return ids[0], labels.by_name


def named(labels: dict[str, Any], part: str) -> str:
    """Return an instruction that works, whose op_name ends so."""
    return next(
        name
        for name, found in labels.items()
        if found.instruction.op_name.endswith(part)
        and found.instruction.opcode in ("dot", "fusion")
    )


def test_evidence(kept: Path, step: Any) -> None:
    program, labels = step
    forward = named(labels, "jvp(mlp)/dot_general")
    update = named(labels, "/sub")
    capture = Capture()
    capture.range(
        f"TSL:XlaModule:#prefix=jit(train_step),hlo_module=jit_train_step,program_id={program}#",
        *(0, 1000),
    )
    capture.range(f"TSL:Thunk:#name=jvp(mlp)/dot,hlo_op={forward},unique_hlo_op_id=4#", 10, 100)
    capture.launch(20, 30, 600, name="gemm")
    capture.range(f"TSL:Thunk:#hlo_op={update}#", 200, 300)
    capture.launch(210, 220, 300, name="loop")
    # XLA tries out kernels in programs without an id
    capture.range("TSL:XlaModule:#hlo_module=gemm_fusion#", 1100, 1300)
    capture.range(f"TSL:Thunk:#hlo_op={forward}#", 1110, 1200)
    capture.launch(1120, 1130, 50, name="trial")
    # no range at all, but a kernel made for one instruction
    capture.launch(2000, 2010, 70, name=update.replace(".", "_").replace("-", "_"))
    capture.launch(2100, 2110, 30, name="elementwise")
    report = device_report(capture.trace(), kept)
    rows = {(row["name"], row["evidence"]): row for row in report["hlo"]}
    assert {key: row["total_ns"] for key, row in rows.items()} == {
        (forward, "thunk"): 600,
        (update, "thunk"): 300,
        (update, "kernel name"): 70,
        ("(unknown)", "none"): 80,
    }
    assert rows[forward, "thunk"]["op_name"].endswith("jvp(mlp)/dot_general")
    phases = {row["phase"]: row["time_ns"] for row in report["device_phases"]}
    assert phases == {"Forward": 600, "Optimizer": 370, "Unattributed": 80}
    assert any(
        "thunk 85.7 %, kernel name 6.7 %, none 7.6 %" in note
        for note in report["device_phases"].notes
    )


def test_kernels_of_graphs_by_where_their_nodes_were_made(kept: Path, step: Any) -> None:
    program, labels = step
    forward = named(labels, "jvp(mlp)/dot_general")
    capture = Capture()
    capture.range(f"XlaModule:#hlo_module=jit_train_step,program_id={program}#", 0, 1000)
    capture.range(f"Thunk:#hlo_op={forward}#", 10, 100)
    capture.nodes.append(Node(20, 30, 7, 0, 1, 1))
    launch = capture.call(2000, 2100, name="cudaGraphLaunch")
    capture.run(5000, 5400, launch, name="captured", node=7)
    report = device_report(capture.trace(), kept)
    assert [(row["name"], row["evidence"]) for row in report["hlo"]] == [(forward, "graph node")]


def test_a_folder_without_programs(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no compiled programs"):
        device_report(Capture().trace(), tmp_path)


def test_programs_are_kept_whole(kept: Path, step: Any) -> None:
    program, labels = step
    assert program > 0
    text = next(
        module.to_string()
        for executable in jax.local_devices()[0].client.live_executables()
        for module in executable.hlo_modules()
        if module.name == "jit_train_step"
    )
    assert labels
    assert all(name in text for name in labels)
    assert not [path for path in kept.iterdir() if path.name.startswith(".")]
