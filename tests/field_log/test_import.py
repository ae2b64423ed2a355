"""Troubles of users with reports and attribution, O-01 to O-18, each driven through a file."""

from __future__ import annotations

import sqlite3
import tracemalloc
from contextlib import closing

import numpy as np
import pytest
from builders import START_END, Capture, Node

import nvtrace
from nvtrace.errors import UsageError
from nvtrace.model.nsys_ddl import create_statement
from nvtrace.model.schema import DeviceKind

TABLES = {
    "NVTX_EVENTS": "user_defined",
    "CUPTI_ACTIVITY_KIND_RUNTIME": None,
    "CUPTI_ACTIVITY_KIND_KERNEL": "kernel",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "memory",
    "CUPTI_ACTIVITY_KIND_MEMSET": "memory",
    "StringIds": None,
}


def training() -> Capture:
    """Every table has rows."""
    capture = Capture()
    capture.range("outer", 0, 1_000, registered=True)
    capture.range("inner", 100, 300)
    capture.launch(120, 140, 50, name="gemm<float>")
    capture.copy(400, 410, 30, 4_096, 1)
    capture.launch(
        *(500, 510, 5),
        kind=DeviceKind.MEMSET,
        name="[CUDA memset]",
        bytes=64,
        api="cudaMemsetAsync",
    )
    return capture


def codes(report) -> set[str]:
    return {note["code"] for note in report.notes}


def message(report, code: str) -> str:
    (text,) = [note["message"] for note in report.notes if note["code"] == code]
    assert "\n" not in text
    return text


def user_defined(trace, *keys: str, **options) -> dict[str, tuple]:
    table = trace.summary("user_defined", **options)["user_defined"]
    return {row["name"]: tuple(row[key] for key in keys) for row in table}


@pytest.mark.parametrize("table", TABLES)
def test_o01_any_table_may_be_absent_or_empty(tmp_path, table):
    """O-01: absent is "not recorded", empty is "none"; what is there is complete."""
    whole = nvtrace.load(training().write(tmp_path / "whole.sqlite")).summary()
    absent = nvtrace.load(
        training().write(tmp_path / "absent.sqlite", then=f"DROP TABLE {table}")
    ).summary()
    emptied = nvtrace.load(
        training().write(tmp_path / "empty.sqlite", then=f"DELETE FROM {table}")
    ).summary()
    for report in (absent, emptied):
        assert set(report.tables) == set(whole.tables)
        assert str(report)
    if table == "CUPTI_ACTIVITY_KIND_KERNEL":
        assert "there was none" in emptied["kernel"].empty
        kernels = {row["event_type"]: row["time_ns"] for row in absent["overview"]}
        assert kernels["Kernel"] is None
    if table == "NVTX_EVENTS":
        assert "not recorded" in absent["user_defined"].empty or len(absent["user_defined"])
        assert absent["kernel"].rows() == emptied["kernel"].rows() == whole["kernel"].rows()


@pytest.mark.parametrize(
    ("table", "column", "lost"),
    [
        ("NVTX_EVENTS", "textId", "registered names"),
        ("NVTX_EVENTS", "domainId", "domains"),
        ("NVTX_EVENTS", "endGlobalTid", None),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid", "process"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "graphNodeId", None),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "mangledName", None),
    ],
)
def test_o02_a_missing_column_costs_one_answer(tmp_path, table, column, lost):
    """O-02: degrade, with one line that says which answer is lost."""
    path = training().write(tmp_path / "a.sqlite", then=f"ALTER TABLE {table} DROP COLUMN {column}")
    report = nvtrace.load(path).summary()
    assert sum(report["kernel"]["gpu_total_ns"]) == 50
    notes = [note["message"] for note in report.notes if note["code"] == "missing_column"]
    if lost is None:
        assert notes == []
    else:
        (note,) = notes
        assert note.startswith(f"{table} has no {column}: ")
        assert lost in note


def test_o02_an_unknown_newer_schema_warns_and_goes_on(tmp_path):
    """O-02: a rolled-out Nsight release must not stop the analysis."""
    then = (
        create_statement("META_DATA_EXPORT")
        + "; INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '99.1.0')"
    )
    report = nvtrace.load(training().write(tmp_path / "a.sqlite", then=then)).summary()
    assert "99.1" in message(report, "newer_schema")
    assert sum(report["kernel"]["gpu_total_ns"]) == 50


def test_o03_one_name_whether_registered_inline_or_missing(tmp_path):
    """O-03: text, textId, both, neither; never the word None."""
    capture = Capture()
    capture.range("registered", 0, 10, registered=True)
    capture.range("inline", 10, 20)
    capture.range("nameless", 20, 30)
    path = capture.write(
        tmp_path / "a.sqlite", then="UPDATE NVTX_EVENTS SET text = NULL WHERE text = 'nameless'"
    )
    names = set(user_defined(nvtrace.load(path)))
    assert names == {"registered", "inline", "(unnamed)"}


def test_o04_backward_on_another_thread(tmp_path):
    """O-04: autograd's launches stay visible, are folded into the phase, and count once."""
    capture = Capture()
    capture.step(0, 0, 1_000)
    capture.phase("forward", 0, 400)
    capture.phase("backward", 400, 900)
    capture.launch(100, 110, 70)
    capture.launch(500, 510, 300, tid=2, name="grad")
    trace = nvtrace.load(capture.write(tmp_path / "a.sqlite"))
    report = trace.summary(["model", "kernels_by_range"])
    rows = {row["name"]: row for row in report["model"]}
    assert (rows["Backward"]["gpu_total_ns"], rows["Backward"]["inferred_gpu_ns"]) == (300, 300)
    assert rows["ProfileStep"]["gpu_total_ns"] == 370
    inferred = [row for row in report["kernels_by_range"] if row["attribution"] == "inferred"]
    assert [(row["range"], row["kernel"]) for row in inferred] == [("step / backward", "grad")]
    assert report.totals["inferred_gpu_ns"] == 300
    assert report.totals["attributed_gpu_ns"] == 70
    assert report.totals["gpu_ns"] == 370
    # by containment on its own thread the range itself has none: the inferred work comes on top
    listed = {row["name"]: row for row in trace.ranges_report()["ranges"]}
    assert (listed["backward"]["gpu_ns"], listed["backward"]["inferred_gpu_ns"]) == (0, 300)


def test_o05_kernels_in_no_range(tmp_path):
    """O-05: one row with calls and time; attributed + unattributed = total."""
    capture = Capture()
    capture.range("small", 0, 10)
    capture.launch(2, 3, 100)
    for at in (100, 200, 300):
        capture.launch(at, at + 1, 1_000)
    report = nvtrace.load(capture.write(tmp_path / "a.sqlite")).summary("user_defined")
    last = report["user_defined"].rows()[-1]
    assert (last["name"], last["calls"], last["gpu_total_ns"]) == ("unattributed", 3, 3_000)
    totals = report.totals
    assert totals["attributed_gpu_ns"] + totals["unattributed_gpu_ns"] == totals["gpu_ns"] == 3_100


def test_o06_kernels_of_each_region_as_data(tmp_path):
    """O-06: (range path, kernel, calls, total, avg, min, max, share), and copies with bytes."""
    capture = training()
    capture.launch(150, 160, 70, name="gemm<float>")
    report = nvtrace.load(capture.write(tmp_path / "a.sqlite")).summary(
        ["kernels_by_range", "memory"]
    )
    row = report.to_dict()["views"]["kernels_by_range"][0]
    assert {key: row[key] for key in row if key not in ("process", "attribution")} == {
        "range": "outer / inner",
        "kernel": "gemm<float>",
        "calls": 2,
        "gpu_total_ns": 120,
        "gpu_avg_ns": 60,
        "gpu_max_ns": 70,
        "gpu_min_ns": 50,
        "gpu_ratio": 100.0,
    }
    copies = {row["name"]: (row["calls"], row["bytes"]) for row in report["memory"]}
    assert copies["[CUDA memcpy Host-to-Device]"] == (1, 4_096)
    assert report["kernels_by_range"].to_pandas()["gpu_total_ns"].tolist() == [120]


def test_o07_eight_ranks_in_one_file_are_eight_processes(tmp_path):
    """O-07: the third occurrence of a name is not rank 3."""
    capture = Capture()
    for pid in range(100, 108):
        for place in range(2):
            capture.range("sample_0", place * 50 + pid - 100, place * 50 + pid - 60, pid=pid)
    trace = nvtrace.load(capture.write(tmp_path / "a.sqlite"))
    rows = trace.summary("user_defined", sorted_by="name")["user_defined"].rows()
    assert sorted((row["process"], row["calls"]) for row in rows) == [
        (str(pid), 2) for pid in range(100, 108)
    ]
    assert {row["process"] for row in trace.ranges_report()["ranges"]} == set(range(100, 108))


def test_o08_workers_without_device_activity_are_named(tmp_path):
    """O-08: their GPU time is not known, which is not 0."""
    capture = Capture()
    for pid in (11, 12, 13):
        capture.range(f"of {pid}", 0, 100, pid=pid)
        capture.call(10, 20, pid=pid)
    capture.run(500, 600, 1, pid=11)
    report = nvtrace.load(capture.write(tmp_path / "a.sqlite")).summary("user_defined")
    gpu = {row["name"]: (row["gpu_total_ns"], row["kernels"]) for row in report["user_defined"]}
    assert gpu == {"of 11": (100, 1), "of 12": (None, None), "of 13": (None, None)}
    note = message(report, "process_without_gpu_activity")
    assert "12, 13" in note
    assert "spawn" in note
    assert "exit" in note


def graph() -> Capture:
    capture = Capture()
    capture.range("capture", 0, 100)
    capture.range("replay", 200, 300)
    capture.call(10, 20)
    capture.nodes += [Node(10, 20, 5, 0, 1, 1), Node(120, 121, 6, 5, 1, 1)]
    return capture


def test_o09_replayed_kernels_belong_to_the_range_around_the_graph_launch(tmp_path):
    """O-09: and the range that captured them is said to have done so."""
    capture = graph()
    launch = capture.call(210, 220, name="cudaGraphLaunch")
    for at in (400, 500):
        capture.run(at, at + 40, launch, node=6)
    trace = nvtrace.load(capture.write(tmp_path / "a.sqlite"))
    gpu = user_defined(trace, "gpu_total_ns", "kernels")
    assert gpu["replay"] == (80, 2)
    assert "kernels captured in capture ran when" in message(trace.summary(), "graph_capture")


def test_o09_a_graph_traced_as_a_whole_names_the_option(tmp_path):
    """O-09: how many kernels ran is not known, and not 0."""
    capture = graph()
    capture.launch(210, 220, 90, api="cudaGraphLaunch", kind=DeviceKind.GRAPH)
    trace = nvtrace.load(capture.write(tmp_path / "a.sqlite"))
    assert user_defined(trace, "gpu_total_ns", "kernels")["replay"] == (90, None)
    assert "--cuda-graph-trace=node" in message(trace.summary(), "graph_level_trace")


def test_o10_a_tenth_of_a_million_ranges(tmp_path):
    """O-10: a sweep, not a join; a tenth of 1 M ranges and 0.2 M kernels in 60 s and 1.5 GB."""
    path = Capture().write(tmp_path / "a.sqlite", lazy=False)
    ranges, kernels = 100_000, 20_000
    thread = (1 << 48) | (1 << 24)
    with closing(sqlite3.connect(path)) as connection, connection:
        # towers of ten
        connection.executemany(
            "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) VALUES (?,?,59,?,?)",
            (
                (row // 10 * 100 + row % 10, row // 10 * 100 + 90 - row % 10, f"r{row % 10}",
                 thread + row % 4)
                for row in range(ranges)
            ),
        )  # fmt: skip
        connection.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, 1, 0, NULL)",
            ((row * 50 + 20, row * 50 + 30, thread + row % 4, row + 1) for row in range(kernels)),
        )
        connection.execute("INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel')")
        connection.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, "
            "correlationId, globalPid, demangledName, shortName, registersPerThread, gridX, gridY, "
            "gridZ, blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory, "
            "localMemoryPerThread, localMemoryTotal, gridId) "
            "VALUES (?, ?, 0, 1, 7, ?, ?, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0)",
            ((row * 50, row * 50 + 7, row + 1, thread) for row in range(kernels)),
        )
    tracemalloc.start()
    trace = nvtrace.load(path)
    assert trace._explained == {}, "nothing derived until asked"
    totals = trace.summary().totals
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert totals["gpu_ns"] == 7 * kernels
    assert peak < 150e6


@pytest.mark.parametrize("start", [-500, 0])
def test_o11_kernels_outside_the_capture_are_counted_and_widen_nothing(tmp_path, start):
    """O-11: stamped before the session, or not at all."""
    capture = Capture()
    capture.range("work", 10_000, 11_000)
    capture.launch(10_100, 10_200, 50, at=10_300)
    capture.run(start, start + (100 if start else 0))
    trace = nvtrace.load(capture.write(tmp_path / "a.sqlite"))
    report = trace.summary(["kernel", "overview"])
    assert report["kernel"]["calls"].sum() == 2
    code = "outside_capture" if start else "no_timestamp"
    assert message(report, code).startswith("1 kernels or copies")
    assert report.totals["window_ns"] <= 11_000


def test_o12_diagnostics_and_overhead_are_shown(tmp_path):
    """O-12: absence of data is not trusted blindly."""
    then = """
        CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, severity INTEGER, text TEXT);
        INSERT INTO DIAGNOSTIC_EVENT VALUES
            (1, 3, 'CUPTI buffers were lost in /home/someone/run'), (2, 2, 'Slow clock'),
            (3, 1, 'Started');
        CREATE TABLE PROFILER_OVERHEAD (start INTEGER, end INTEGER);
        INSERT INTO PROFILER_OVERHEAD VALUES (0, 2000000), (5000000, 6000000);
        INSERT INTO PROFILER_OVERHEAD VALUES (7000000, NULL), (NULL, 9000000);
    """
    report = nvtrace.load(training().write(tmp_path / "a.sqlite", then=then)).summary()
    assert message(report, "nsys_error").startswith("Nsight Systems said: CUPTI buffers were lost")
    assert "someone" not in str(report.to_dict())
    assert "Slow clock" in message(report, "nsys_warning")
    assert "Started" not in str(report.notes)
    overhead = message(report, "profiler_overhead")
    assert "3.0 ms of its own overhead in 4 places" in overhead
    assert "do not compare" in overhead


def test_o13_long_template_names_stay_whole_and_apart(tmp_path):
    """O-13: two templates of one short name are two rows; the full names are in the data."""
    names = [f"gemm<{'float, ' * 1_000}{n}, {'int, ' * 300}>" for n in (1, 2)]
    capture = Capture()
    for place, name in enumerate(names):
        capture.launch(place, place + 1, 10 + place, name=name)
    report = nvtrace.load(capture.write(tmp_path / "a.sqlite")).summary("kernel")
    assert sorted(row["name"] for row in report["kernel"]) == sorted(names)
    assert {row["short_name"] for row in report["kernel"]} == {"gemm"}
    shown = [line for line in str(report).splitlines() if "gemm<" in line]
    assert len(set(shown)) == 2
    assert all(len(line) < 400 for line in shown)


def test_o14_library_ranges_and_pauses_are_no_steps(tmp_path):
    """O-14: no step ranges found; nothing is guessed from gaps."""
    capture = Capture()
    for place in range(325):
        capture.range("cub::DeviceReduce::Sum", place * 1_000, place * 1_000 + 10, domain="CCCL")
        capture.run(place * 1_000 + 5, place * 1_000 + 400)
    report = nvtrace.load(capture.write(tmp_path / "a.sqlite")).summary()
    assert report.totals["steps"] == 0
    assert "no step ranges found" in message(report, "no_steps")
    assert len(report["model"]) == 0


def test_o14_steps_by_name_are_labelled(tmp_path):
    """O-14: a guess says that it is one."""
    capture = Capture()
    capture.range("step 1", 0, 10)
    report = nvtrace.load(capture.write(tmp_path / "a.sqlite")).summary()
    assert "'step 1'" in message(report, "steps_by_name")


@pytest.mark.parametrize("time", [(0, 155_000), (400_000, None)])
def test_o15_a_window_outside_the_capture(tmp_path, time):
    """O-15: the clock does not start at 0; the error prints the real range."""
    capture = Capture()
    capture.range("work", 155_360, 155_500)
    trace = nvtrace.load(capture.write(tmp_path / "a.sqlite"))
    first, last = trace.span
    assert last - first == 140
    outside = tuple(None if bound is None else bound + last + 1 for bound in time)
    with pytest.raises(UsageError, match=f"runs from {first} to {last} ns"):
        trace.summary(time=outside)


def test_o16_payloads_are_attributes(tmp_path):
    """O-16: NCCL message sizes ride in payloads."""
    capture = Capture()
    capture.range("ncclAllReduce", 0, 10, domain="NCCL", payload=1_048_576)
    capture.range("loss", 20, 30, payload=0.25)
    trace = nvtrace.load(capture.write(tmp_path / "a.sqlite"))
    payloads = {row["name"]: row["payload"] for row in trace.ranges_report()["ranges"]}
    assert payloads == {"ncclAllReduce": "1048576", "loss": "0.25"}


def test_o17_troubleshooting_begins_with_the_exact_command(repository):
    """O-17: the emitting side, registered strings in a domain, is recorded by a real nsys."""
    guide = (repository / "docs" / "guides" / "nsys.md").read_text(encoding="utf-8")
    troubles = guide[guide.index("## Troubleshooting") :]
    first = troubles.split("### ")[1]
    assert first.startswith("`-c nvtx -p NAME` captures nothing")
    assert "-p NAME@nvtrace" in first
    assert "NSYS_NVTX_PROFILER_REGISTER_ONLY=0" in first
    assert "-c nvtx -p step@nvtrace" in guide


def test_o18_a_child_may_end_in_the_ns_of_its_parent(tmp_path):
    """O-18: integer ns, ends compared with <=, equal bounds nest; at times floats cannot tell."""
    far = 10**15 + 1
    capture = Capture()
    capture.range("parent", far, far + 1_001)
    capture.range("child", far + 1, far + 1_001)
    capture.range("twin", far + 1, far + 1_001)
    capture.range("late", far + 1_001, far + 1_003)
    capture.range("origin", 0, 1)
    trace = nvtrace.load(capture.write(tmp_path / "a.sqlite"))
    rows = {row["name"]: (row["depth"], row["self_ns"]) for row in trace.ranges_report()["ranges"]}
    assert rows == {
        "origin": (0, 1),
        "parent": (0, 1),
        "child": (1, 0),
        "twin": (2, 1_000),
        "late": (0, 2),
    }


def test_start_end_ranges_of_one_name_overlap_themselves(tmp_path):
    """Requests in flight: each keeps its own times, and they have no share of a thread."""
    capture = Capture()
    for begin in range(0, 500, 50):
        capture.range("request", begin, begin + 200, style=START_END)
    trace = nvtrace.load(capture.write(tmp_path / "a.sqlite"))
    assert user_defined(trace, "calls", "cpu_total_ns", "cpu_ratio") == {
        "request": (10, 2_000, None)
    }
    assert np.unique(trace.ranges["start"]).tolist() == list(range(0, 500, 50))
