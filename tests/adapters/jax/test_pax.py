"""Phases of a real training run: four ranks of a Pax model, an A100 each."""

from __future__ import annotations

import lzma
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nvtrace.adapters.jax import hlo, phases, programs, thunks

from nvtrace.analysis.summaries.hlo import EVIDENCE, Work, instructions_table, phases_table

pytest.importorskip("pyarrow.parquet")

STEP = "pjit__wrapped_step_fn"
# in per cent of the step's device time, as found by an implementation of its own
RANK0 = {
    "Forward": 36.1,
    "Backward": 52.9,
    "Optimizer": 4.0,
    "Communication": 6.1,
    "Unattributed": 0.9,
}


@pytest.fixture(scope="module", params=range(4))
def rank(request: Any, shared_data: Path, tmp_path_factory: Any) -> tuple[int, Work]:
    import pyarrow.parquet as parquet

    folder = tmp_path_factory.mktemp("pax")
    with zipfile.ZipFile(shared_data / "pax" / f"pax_fsdp4_4proc_proc{request.param}.zip") as file:
        file.extractall(folder)
    (program,) = folder.glob(f"dump/*{STEP}*.pb.xz")
    labels = phases.label(hlo.read_hlo_proto(lzma.decompress(program.read_bytes())))
    table = parquet.read_table(folder / "nvtx_gpu_proj_trace" / "trace.parquet")
    rows = table.select(["Name", "Projected Duration", "RangeId", "RangeStack"]).to_pylist()
    return request.param, work(labels, rows)


def work(labels: phases.Labels, rows: list[dict[str, Any]]) -> Work:
    """Return the thunks of the training step; none of their names may be beyond reading."""
    by_id = {row["RangeId"]: row["Name"] for row in rows}
    names: list[str] = []
    times = []
    for row in rows:
        if not (row["Name"] or "").startswith("TSL:Thunk:"):
            continue
        parsed = thunks.parse(row["Name"])
        assert parsed is not None
        assert set(parsed[1]) <= {"name", "hlo_op"}
        above = [by_id.get(float(one), "") for one in row["RangeStack"].split(":") if one]
        if any(f"hlo_module={STEP}," in one for one in above):
            names.append(parsed[1]["hlo_op"])
            times.append(row["Projected Duration"])
    facts = [
        {**programs.facts(labels.by_name[name], labels), "name": name}
        for name in dict.fromkeys(names)
    ]
    place = {one["name"]: row for row, one in enumerate(facts)}
    found = np.array([place[name] for name in names], np.int32)
    own = np.array(times, np.int64)
    level = np.full(len(own), EVIDENCE.index("thunk"), np.uint8)
    return Work(facts, found, level, own, own)


def test_shares(rank: tuple[int, Work]) -> None:
    number, found = rank
    table = phases_table(found)
    ratio = dict(zip(table["phase"], table["ratio"], strict=True))
    assert set(ratio) == set(RANK0)
    assert sum(ratio.values()) == pytest.approx(100)
    computing = {name: share for name, share in ratio.items() if name != "Communication"}
    expected = {name: share for name, share in RANK0.items() if name != "Communication"}
    if number == 0:
        assert ratio == pytest.approx(RANK0, abs=0.2)
        assert found.own.sum() == pytest.approx(678e6, rel=1e-3)
    else:  # the first step waited for rank 0 for seconds
        assert 84 < ratio["Communication"] < 91
    # all ranks compute the same
    whole = sum(computing.values())
    scaled = {name: 93.9 * share / whole for name, share in computing.items()}
    assert scaled == pytest.approx(expected, abs=0.5)


def test_coverage(rank: tuple[int, Work]) -> None:
    number, found = rank
    table = phases_table(found)
    computing = found.by_instruction("collective") != True  # noqa: E712 (an array)
    assert int(computing[found.instruction].sum()) == 12_935
    if number == 0:
        whole = found.own.sum()
        assert table["op_name_ns"].sum() / whole == pytest.approx(0.889, abs=0.002)
        assert table["mixed_ns"].sum() / whole == pytest.approx(0.277, abs=0.005)
        assert any("88.9 %" in note or "89.0 %" in note for note in table.notes)


def test_instructions(rank: tuple[int, Work]) -> None:
    table = instructions_table(rank[1])
    assert table["calls"].sum() == 13_050
    assert table["self_ns"].sum() == rank[1].own.sum()
    assert set(table["module"]) == {STEP}
    assert set(table["opcode"]) >= {"fusion", "custom-call"}
    assert any("/praxis/" in (source or "") for source in table["source"])
