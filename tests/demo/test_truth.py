"""The truth against the rows of the file, by plain search over all of them."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import pytest

PROCESS = 0xFF_FF_FF_FF_FF_00_00_00
TABLES = {
    "kernel": "CUPTI_ACTIVITY_KIND_KERNEL",
    "memcpy": "CUPTI_ACTIVITY_KIND_MEMCPY",
    "memset": "CUPTI_ACTIVITY_KIND_MEMSET",
    "graph": "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
}
PHASES = {"dataloader", "forward", "backward", "optimization"}
PUSH_POP, START_END = 59, 60


class Range(NamedTuple):
    rowid: int
    start: int
    end: float
    style: int
    thread: int
    end_thread: int | None
    name: str
    domain: str
    category: str


class Work(NamedTuple):
    kind: str
    duration: int
    inside: list[Range]
    owner: int
    phase: int


def read_ranges(rows) -> list[Range]:
    names = {(0, 0): ""}
    categories = {}
    for domain, thread, text in rows.execute(
        "SELECT domainId, globalTid, text FROM NVTX_EVENTS WHERE eventType = 75"
    ):
        names[thread & PROCESS, domain] = text
    for domain, thread, category, text in rows.execute(
        "SELECT domainId, globalTid, category, text FROM NVTX_EVENTS WHERE eventType = 33"
    ):
        categories[thread & PROCESS, domain, category] = text
    query = (
        "SELECT n.rowid, start, end, eventType, globalTid, endGlobalTid, coalesce(text, value), "
        "domainId, category FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId "
        "WHERE eventType IN (59, 60)"
    )
    return [
        Range(
            *(rowid, start, float("inf") if end is None else end, style, thread, end_thread, name),
            names.get((thread & PROCESS, domain), ""),
            categories.get((thread & PROCESS, domain, category), ""),
        )
        for rowid, start, end, style, thread, end_thread, name, domain, category in rows.execute(
            query
        )
    ]


def attribute(rows) -> list[Work]:
    """Every device row, in file order within its kind, with what a plain search finds for it."""
    ranges = read_ranges(rows)
    calls = {
        (thread & PROCESS, correlation): (start, end, thread)
        for start, end, thread, correlation in rows.execute(
            "SELECT start, end, globalTid, correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        )
        if correlation
    }
    found = {key: search(ranges, *call) for key, call in calls.items()}
    nothing = ([], 0, 0)
    return [
        Work(kind, duration, *found.get((process, correlation), nothing))
        for kind, table in TABLES.items()
        for duration, process, correlation in rows.execute(
            f"SELECT end - start, globalPid, correlationId FROM {table} ORDER BY rowid"
        )
    ]


def search(ranges, start, end, thread) -> tuple[list[Range], int, int]:
    around = [r for r in ranges if r.start <= start and end <= r.end]
    inside = [r for r in around if r.thread == thread]
    nest = [r for r in inside if r.style == PUSH_POP]
    if nest:
        return inside, max(nest, key=lambda r: (r.start, r.rowid)).rowid, 0
    phases = [
        r for r in around if r.category in PHASES and (r.thread & PROCESS) == (thread & PROCESS)
    ]
    if len({r.thread for r in phases}) != 1:
        return inside, 0, 0
    return inside, 0, max(phases, key=lambda r: (r.start, r.rowid)).rowid


@pytest.fixture(scope="module")
def works(report):
    return attribute(report.rows)


def test_owner_and_phase_of_every_row(report, works):
    for kind in TABLES:
        mine = [w for w in works if w.kind == kind]
        assert report.owners[f"{kind}_owner"].tolist() == [w.owner for w in mine]
        assert report.owners[f"{kind}_phase"].tolist() == [w.phase for w in mine]
    assert {bool(w.owner) for w in works} == {True, False}
    assert {bool(w.phase) for w in works} == {True, False}


def test_totals_of_ranges(report, works):
    ranges = read_ranges(report.rows)
    key_of = {
        r.rowid: ((r.thread >> 24) & 0xFFFFFF, r.name, r.domain, r.category, r.style)
        for r in ranges
    }
    cpu, gpu = defaultdict(list), defaultdict(dict)
    kernels, kernel_ns, own, inferred = (defaultdict(int) for _ in range(4))
    for r in ranges:
        gpu[key_of[r.rowid]][r.rowid] = 0
        if r.end != float("inf"):
            cpu[key_of[r.rowid]].append(r.end - r.start)
    for w in works:
        for r in w.inside:
            gpu[key_of[r.rowid]][r.rowid] += w.duration
            kernels[key_of[r.rowid]] += w.kind == "kernel"
            kernel_ns[key_of[r.rowid]] += w.duration * (w.kind == "kernel")
        if w.owner:
            own[key_of[w.owner]] += w.duration
        if w.phase:
            inferred[key_of[w.phase]] += w.duration
    listed = {}
    for row in report.truth["ranges"]:
        key = (*(row[k] for k in ("process", "name", "domain", "category", "style")),)
        listed[key] = row
    assert set(listed) == set(key_of.values())
    for key, row in listed.items():
        times, busy = cpu[key], list(gpu[key].values())
        assert row["calls"] == len(times)
        if times:
            assert (row["total_ns"], row["min_ns"], row["max_ns"]) == (
                *(sum(times), min(times), max(times)),
            )
        assert (row["gpu_total_ns"], row["gpu_min_ns"], row["gpu_max_ns"]) == (
            *(sum(busy), min(busy), max(busy)),
        ), key
        assert row["kernels"] == kernels[key]
        assert row["kernel_ns"] == kernel_ns[key]
        assert row["own_gpu_ns"] == own[key]
        assert row["inferred_gpu_ns"] == inferred[key]


def test_attributed_inferred_and_the_rest_make_the_total(report, works):
    totals = report.truth["totals"]
    attributed = sum(w.duration for w in works if w.owner)
    inferred = sum(w.duration for w in works if w.phase)
    total = sum(w.duration for w in works)
    assert totals["gpu_ns"] == total
    assert totals["attributed_gpu_ns"] == attributed
    assert totals["inferred_gpu_ns"] == inferred
    assert totals["unattributed_gpu_ns"] == total - attributed - inferred > 0


def grouped(rows, query) -> dict:
    return {row[0]: row[1:] for row in rows.execute(query)}


def test_kernels_calls_and_copies(report):
    figures = "count(*), sum(t.end - t.start), min(t.end - t.start), max(t.end - t.start)"
    expected = {
        "kernels": f"SELECT value, {figures} FROM CUPTI_ACTIVITY_KIND_KERNEL t "
        "JOIN StringIds s ON s.id = demangledName GROUP BY 1",
        "calls": f"SELECT value, {figures} FROM CUPTI_ACTIVITY_KIND_RUNTIME t "
        "JOIN StringIds s ON s.id = nameId GROUP BY 1",
    }
    for key, query in expected.items():
        listed = {
            row["name"]: tuple(row[k] for k in ("calls", "total_ns", "min_ns", "max_ns"))
            for row in report.truth[key]
        }
        assert listed == grouped(report.rows, query)
    memory = {
        row["name"]: (row["calls"], row["total_ns"], row["bytes"]) for row in report.truth["memory"]
    }
    copies = grouped(
        report.rows,
        "SELECT CASE copyKind WHEN 1 THEN 'HtoD' WHEN 2 THEN 'DtoH' WHEN 8 THEN 'DtoD' END, "
        "count(*), sum(end - start), sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY 1",
    )
    sets = "SELECT 'memset', count(*), sum(end - start), sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMSET"
    assert memory == {**copies, **grouped(report.rows, sets)}


def covered(intervals) -> int:
    """Time in which at least one interval is open, by counting openings and closings."""
    events = sorted([(s, 1) for s, _ in intervals] + [(e, -1) for _, e in intervals])
    total = open_count = last = 0
    for time, change in events:
        total += (time - last) * (open_count > 0)
        open_count, last = open_count + change, time
    return total


def test_devices(report):
    rows, steps = report.rows, report.truth["steps"]
    window = min(s["start_ns"] for s in steps), max(s["end_ns"] for s in steps)
    assert report.truth["window"] == {
        "steps": max(s["step"] for s in steps) + 1,
        "steps_of_all_processes": len(steps),
        "first_to_last_ns": window[1] - window[0],
        "union_ns": covered([(s["start_ns"], s["end_ns"]) for s in steps]),
    }
    for device in report.truth["devices"]:
        intervals = defaultdict(list)
        for kind, table in TABLES.items():
            name = "coalesce(value, '')" if kind == "kernel" else "''"
            join = "LEFT JOIN StringIds s ON s.id = shortName" if kind == "kernel" else ""
            for start, end, short in rows.execute(
                f"SELECT start, end, {name} FROM {table} {join} WHERE deviceId = ?",
                (device["device"],),
            ):
                intervals["nccl" if short.startswith("nccl") else kind].append((start, end))
        compute, nccl = intervals["kernel"], intervals["nccl"]
        everything = [interval for some in intervals.values() for interval in some]
        in_steps = [(s, e) for s, e in everything if window[0] <= s and e <= window[1]]
        assert device["busy_ns"] == covered(everything)
        assert device["busy_in_steps_ns"] == covered(in_steps)
        assert not [s for s, e in everything if s < window[0] < e or s < window[1] < e]
        assert device["compute_ns"] == covered(compute)
        assert device["communication_ns"] == covered(nccl)
        both = covered(compute) + covered(nccl) - covered(compute + nccl)
        assert device["overlap_ns"] == both > 0


def test_steps_and_memory(report):
    rows = report.rows.execute(
        "SELECT (globalTid >> 24) & 0xFFFFFF, int64Value, start, end FROM NVTX_EVENTS n "
        "JOIN StringIds s ON s.id = n.textId WHERE value = 'step' ORDER BY int64Value, 1"
    ).fetchall()
    assert [tuple(step.values()) for step in report.truth["steps"]] == rows
    for device in report.truth["devices"]:
        held = peak = 0
        for size, operation in report.rows.execute(
            "SELECT bytes, memoryOperationType FROM CUDA_GPU_MEMORY_USAGE_EVENTS "
            "WHERE deviceId = ? ORDER BY start",
            (device["device"],),
        ):
            held += size if operation == 0 else -size
            peak = max(peak, held)
        assert (held, peak) == (0, device["peak_memory_bytes"])


def test_graph_nodes_know_the_range_that_made_them(everything):
    ranges = read_ranges(everything.rows)
    rows = everything.rows.execute(
        "SELECT start, end, globalTid, graphNodeId, originalGraphNodeId FROM CUDA_GRAPH_EVENTS"
    ).fetchall()
    owners = [search(ranges, start, end, thread)[1] for start, end, thread, *_ in rows]
    assert everything.owners["graph_node_owner"].tolist() == owners
    names = {r.rowid: r.name for r in ranges}
    assert {names[o] for o in owners} == {"capture optimizer", "instantiate optimizer"}
    made = {node for *_, node, _ in rows}
    launched = everything.rows.execute(
        "SELECT DISTINCT graphNodeId FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE graphNodeId NOT NULL"
    )
    replayed = {node for (node,) in launched}
    assert replayed
    assert replayed <= made


# Worked by hand from the docstrings of nvtrace/demo/edges.py: owners in the order of the launches.
EDGE_OWNERS = [
    "edge equal inner",
    "edge touching left",
    "edge touching right",
    "edge instant right",
    "edge crossing second",
    "edge crossing second",
    "edge around empty",
    "edge straddled parent",
    "edge long call outer",
    None,
    None,
    None,
    None,
    None,
    None,
]
EDGE_PHASES = {10: "forward", 12: "backward"}


def test_edges_by_hand(everything):
    names = {r.rowid: r.name for r in read_ranges(everything.rows)}
    names[0] = None
    first = next(rowid for rowid, name in names.items() if name == "edge equal outer")
    (start,) = everything.rows.execute(
        "SELECT start FROM NVTX_EVENTS WHERE rowid = ?", (first,)
    ).fetchone()
    rowids = [
        rowid
        for (rowid,) in everything.rows.execute(
            "SELECT rowid FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start > ? ORDER BY start", (start,)
        )
    ][: len(EDGE_OWNERS)]
    owners = [names[everything.owners["kernel_owner"][rowid - 1]] for rowid in rowids]
    phases = [names[everything.owners["kernel_phase"][rowid - 1]] for rowid in rowids]
    assert owners == EDGE_OWNERS
    assert phases == [EDGE_PHASES.get(i) for i in range(len(EDGE_OWNERS))]
