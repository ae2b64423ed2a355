"""nvtrace against what the generator knows of the reports it wrote."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import pytest

import nvtrace
from nvtrace.demo import write_report
from nvtrace.model.schema import Attribution, DeviceKind

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"kernels": 1_500, "ranks": 2, "seed": 5},
    "graph": {"kernels": 600, "ranks": 2, "seed": 6, "graph": True, "graph_trace": True},
    "edges": {
        "kernels": 600,
        "ranks": 3,
        "seed": 7,
        "graph": True,
        "graph_trace": True,
        "edge": True,
        "unfinished": True,
    },
}
TABLES = {
    DeviceKind.KERNEL: "kernel",
    DeviceKind.MEMCPY: "memcpy",
    DeviceKind.MEMSET: "memset",
    DeviceKind.GRAPH: "graph",
}
# two copy kernels are launched in an NCCL range: communication, by where they were launched
EDGE_COMMUNICATION_NS = 2 * 3_000

# how many kernels the run of a whole graph held is not known
AROUND_GRAPH_RUNS = {"clip gradients", "optimization", "step", "epoch", "train"}


class Generated(NamedTuple):
    name: str
    trace: nvtrace.Trace
    rows: sqlite3.Connection
    truth: dict[str, Any]
    owners: dict[str, np.ndarray]


@pytest.fixture(scope="module", params=OPTIONS)
def generated(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param) / "run.sqlite"
    write_report(path, **OPTIONS[request.param])
    truth = json.loads(path.with_name("run.sqlite.truth.json").read_text(encoding="utf-8"))
    with np.load(f"{path}.truth.npz") as arrays:
        owners = dict(arrays)
    with closing(sqlite3.connect(path)) as rows:
        yield Generated(request.param, nvtrace.load(path), rows, truth, owners)


def range_keys(generated) -> dict[int, tuple[int, int, str]]:
    """rowid -> (globalTid without its machine, start, name); 0, which is no row, -> nothing."""
    query = (
        "SELECT n.rowid, globalTid & 0xFFFFFFFFFFFF, start, coalesce(text, value) "
        "FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId"
    )
    return {0: None} | {row[0]: tuple(row[1:]) for row in generated.rows.execute(query)}


def own_keys(trace) -> list[tuple[int, int, str] | None]:
    """The same of each range of the trace; for -1, nothing."""
    ranges, threads = trace.ranges, trace.threads
    pids = [trace.processes[row].pid for row in threads["process"].tolist()]
    thread = [pid << 24 | tid for pid, tid in zip(pids, threads["tid"].tolist(), strict=True)]
    starts = (ranges["start"] + trace.shift_ns).tolist()
    names = trace.strings.take(ranges["name"])
    return [
        *zip([thread[row] for row in ranges["thread"].tolist()], starts, names, strict=True),
        None,
    ]


def test_owner_and_phase_of_every_row(generated):
    trace, explained = generated.trace, generated.trace.explain()
    of_rowid, of_row = range_keys(generated), own_keys(trace)
    expected: Counter[Any] = Counter()
    for table in TABLES.values():
        query = (
            "SELECT (globalPid >> 24) & 0xFFFFFF, correlationId, start, end "
            f"FROM CUPTI_ACTIVITY_KIND_{table if table != 'graph' else 'graph_trace'} "
            "ORDER BY rowid"
        )
        if not len(generated.owners[f"{table}_owner"]):
            continue
        owner = generated.owners[f"{table}_owner"].tolist()
        phase = generated.owners[f"{table}_phase"].tolist()
        rows = generated.rows.execute(query).fetchall()
        for row, own, inferred in zip(rows, owner, phase, strict=True):
            expected[(table, *row, of_rowid[own], of_rowid[inferred])] += 1
    device = trace.device
    found: Counter[Any] = Counter()
    for row in range(device.rows):
        around = of_row[int(explained.device_range[row])]
        how = explained.device_how[row]
        start, end = (int(device[column][row]) + trace.shift_ns for column in ("start", "end"))
        found[
            TABLES[DeviceKind(device["kind"][row])],
            trace.processes[int(device["process"][row])].pid,
            int(device["correlation"][row]),
            start,
            end,
            around if how == Attribution.THREAD else None,
            around if how == Attribution.INFERRED else None,
        ] += 1
    assert found == expected


def test_totals(generated):
    totals = generated.trace.summary().totals
    assert {key: totals[key] for key in generated.truth["totals"]} == generated.truth["totals"]
    assert totals["steps"] == generated.truth["window"]["steps_of_all_processes"]
    assert totals["window_ns"] == generated.truth["window"]["union_ns"]


def test_devices_in_their_steps(generated):
    rows = generated.trace.summary("device")["device"].rows()
    assert [row["busy_ns"] for row in rows] == [
        device["busy_in_steps_ns"] for device in generated.truth["devices"]
    ]


def test_devices_over_the_whole_run(generated):
    report = generated.trace.summary(["device", "distributed"], rules=["^step$@nvtrace=user"])
    found: dict[str, dict[str, int]] = {}
    for row in report["distributed"].rows():
        if row["device"]:
            found.setdefault(row["device"], {})[row["name"]] = row["total_ns"]
    expected = {
        f"GPU{one['device']}": {
            "Communication": one["communication_ns"],
            "Computation": one["compute_ns"],
            "Overlap": one["overlap_ns"],
        }
        for one in generated.truth["devices"]
    }
    if generated.name == "edges":
        expected["GPU0"]["Communication"] += EDGE_COMMUNICATION_NS
        expected["GPU0"]["Computation"] -= EDGE_COMMUNICATION_NS
    assert found == expected
    assert [row["busy_ns"] for row in report["device"].rows()] == [
        device["busy_ns"] for device in generated.truth["devices"]
    ]


def test_kernels_and_copies(generated):
    report = generated.trace.summary(["kernel", "memory"])
    expected = {
        (k["name"], k["short_name"], k["calls"], k["total_ns"], k["min_ns"], k["max_ns"])
        for k in generated.truth["kernels"]
    }
    keys = ("name", "short_name", "calls", "gpu_total_ns", "gpu_min_ns", "gpu_max_ns")
    kernels = {tuple(row[key] for key in keys) for row in report["kernel"].rows()}
    graphs = {row for row in kernels if row[0].startswith("[CUDA graph")}
    assert kernels - graphs == expected
    runs = generated.truth["graph_runs"]
    assert sum(row[2] for row in graphs) == runs["calls"]
    assert sum(row[3] for row in graphs) == (runs["total_ns"] or 0)
    words = {
        "[CUDA memcpy Host-to-Device]": "HtoD",
        "[CUDA memcpy Device-to-Host]": "DtoH",
        "[CUDA memcpy Device-to-Device]": "DtoD",
        "[CUDA memset]": "memset",
    }
    assert {
        (words[row["name"]], row["bytes"], row["calls"], row["gpu_total_ns"])
        for row in report["memory"].rows()
    } == {(m["name"], m["bytes"], m["calls"], m["total_ns"]) for m in generated.truth["memory"]}


def test_figures_of_ranges(generated):
    """Counts, times, kernels and GPU time of every name in a process, and what is inferred."""
    styles = {"push/pop": 59, "start/end": 60}
    found: dict[Any, list[int]] = {}
    uncounted = set()
    for row in generated.trace.ranges_report()["ranges"].rows():
        key = (row["process"], row["domain"], row["category"], styles[row["style"]], row["name"])
        sums = found.setdefault(key, [0] * 5)
        figures = (1, row["duration_ns"], row["kernels"], row["gpu_ns"], row["inferred_gpu_ns"])
        for place, figure in enumerate(figures):
            sums[place] += figure or 0
        if row["kernels"] is None:
            uncounted.add(key)
    expected = {
        (r["process"], r["domain"], r["category"] or None, r["style"], r["name"]): [
            *(r["calls"], r["total_ns"], r["kernels"], r["gpu_total_ns"] or 0),
            r["inferred_gpu_ns"],
        ]
        for r in generated.truth["ranges"]
    }
    for key in found:
        assert (key in uncounted) == (generated.name != "plain" and key[-1] in AROUND_GRAPH_RUNS)
    for key, row in expected.items():
        if key in uncounted:
            row[2] = 0
        if key[-1] == "backward" and row[-1]:
            # what the autograd thread launches in a range that lies in no phase of that thread
            row[-1] += expected[(key[0], "NCCL", None, 59, "ncclAllReduce")][3]
    never = [key for key in expected if key[-1] == "never closed"]
    assert bool(never) == (generated.name == "edges")
    for key in never:  # its length is not the generator's to say
        assert found.pop(key)[2:] == expected.pop(key)[2:]
    assert found == expected


def test_captured_kernels_know_where_their_graph_was_made(generated):
    explained, device = generated.trace.explain(), generated.trace.device
    of_rowid, of_row = range_keys(generated), own_keys(generated.trace)
    nodes = "SELECT graphNodeId, originalGraphNodeId, globalTid & 0xFFFFFF000000 FROM {}"
    made: dict[tuple[int, int], Any] = {}
    if len(generated.owners["graph_node_owner"]):
        rows = generated.rows.execute(nodes.format("CUDA_GRAPH_EVENTS") + " ORDER BY rowid")
        owners = generated.owners["graph_node_owner"].tolist()
        origin: dict[tuple[int, int], int] = {}
        around = {}
        for (node, original, process), owner in zip(rows, owners, strict=True):
            origin[process >> 24, node] = original
            around[process >> 24, node] = of_rowid[owner]
        for pid, node in origin:
            root = node
            while origin.get((pid, root)):
                root = origin[pid, root]
            made[pid, node] = around[pid, root]
    assert bool(made) == (generated.name != "plain")
    seen = 0
    for row in np.flatnonzero(device["graph_node"]).tolist():
        pid = generated.trace.processes[int(device["process"][row])].pid
        captured = of_row[int(explained.device_capture[row])]
        assert captured == made[pid, int(device["graph_node"][row])]
        seen += captured is not None
    assert bool(seen) == bool(made)
