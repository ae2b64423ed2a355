"""Exports of nsys written by hand, a few rows each; expected values are worked out by hand."""

from __future__ import annotations

import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nvtrace
from nvtrace.analysis.views import VIEWS
from nvtrace.model.schema import DeviceKind, PayloadType, RangeFlag, RangeStyle

NVTX = "NVTX_EVENTS"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
DEFAULTS: dict[str, dict[str, Any]] = {
    NVTX: {"eventType": 59, "domainId": 0, "text": None, "textId": None, "end": None},
    CALLS: {"eventClass": 0, "nameId": 1},
    KERNELS: {"deviceId": 0, "contextId": 1, "streamId": 7, "demangledName": 2, "shortName": 3},
    COPIES: {"deviceId": 0, "contextId": 1, "streamId": 7, "copyKind": 1, "bytes": 64},
    GRAPHS: {"deviceId": 0, "contextId": 1, "streamId": 7, "graphId": 5, "graphExecId": 6},
}
STRINGS = [
    {"id": 1, "value": "cudaLaunchKernel_v7000"},
    {"id": 2, "value": "void fill<float>(float *)"},
    {"id": 3, "value": "fill"},
    {"id": 4, "value": "registered"},
    {"id": 5, "value": ""},
]


def process(pid: int, machine: int = 1) -> int:
    """A globalPid as SQLite keeps it, signed: [hardware:8][VM:8][pid:24][tid:24]."""
    key = machine << 48 | pid << 24
    return key - (1 << 64) if key >> 63 else key


P = process(100)
T = P + 100


@pytest.fixture
def export(tmp_path):
    """Write tables of rows: the columns are those that some row has; then read it."""

    def write(name: str = "run.sqlite", **tables: list[dict[str, Any]]) -> nvtrace.Trace:
        path = tmp_path / name
        with closing(sqlite3.connect(path)) as db:
            for table, given in {"StringIds": STRINGS, **tables}.items():
                rows = [{**DEFAULTS.get(table, {}), **row} for row in given]
                columns = list(dict.fromkeys(key for row in rows for key in row))
                columns = columns or ["start", "end", *DEFAULTS.get(table, {})]
                db.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
                slots = ", ".join("?" * len(columns))
                values = [[row.get(column) for column in columns] for row in rows]
                db.executemany(f"INSERT INTO {table} VALUES ({slots})", values)
            db.commit()
        return nvtrace.load(path)

    return write


def rng(start: int, end: int | None, text: str | None = None, **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "globalTid": T, "text": text, **more}


def call(start: int, end: int, correlation: int, **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "globalTid": T, "correlationId": correlation, **more}


def work(start: int, end: int, correlation: int, **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "globalPid": P, "correlationId": correlation, **more}


def names(trace: nvtrace.Trace, table: str = "ranges") -> list[str]:
    return trace.strings.take(getattr(trace, table)["name"])


def listed(trace: nvtrace.Trace, *keys: str, marks: bool = False) -> list[tuple[Any, ...]]:
    rows = trace.ranges_report(marks=marks)["ranges"].rows()
    return [tuple(row[key] for key in keys) for row in rows]


def codes(trace: nvtrace.Trace) -> set[str]:
    return {note.code for note in trace.notes}


# versions of the schema


def test_export_of_2020_without_metadata(export):
    trace = export(
        NVTX_EVENTS=[rng(10, 50, "forward")],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(20, 30, 1)],
        CUPTI_ACTIVITY_KIND_KERNEL=[work(40, 90, 1)],
    )
    (source,) = trace.sources
    assert (source.product, source.schema) == (None, None)
    assert listed(trace, "name", "gpu_ns", "kernels") == [("forward", 50, 1)]
    assert trace.origin_unix_ns is None


@pytest.mark.parametrize(
    ("table", "product", "schema"),
    [("EXPORT_META_DATA", "2022.1.3", "2.9.1"), ("META_DATA_EXPORT", "2024.5.1", "3.13.2")],
)
def test_version_of_the_exporter(export, table, product, schema):
    stated = {"EXPORT_PRODUCT_VERSION": product, "EXPORT_SCHEMA_VERSION": schema}
    rows = [{"name": name, "value": value} for name, value in stated.items()]
    twice = [{"name": "CAPTURE_EVENT_TYPE", "value": one} for one in ("CUDA", "NVTX")]
    trace = export(**{table: rows, "META_DATA_CAPTURE": twice, NVTX: [rng(1, 2, "a")]})
    (source,) = trace.sources
    assert (source.product, source.schema) == (f"Nsight Systems {product}", schema)
    assert "newer_schema" not in codes(trace)


def test_schema_newer_than_known_is_said(export):
    rows = [{"name": "EXPORT_SCHEMA_VERSION", "value": "4.0.1"}]
    assert "newer_schema" in codes(export(META_DATA_EXPORT=rows, NVTX_EVENTS=[rng(1, 2, "a")]))


def test_epoch_of_the_capture(export):
    trace = export(
        TARGET_INFO_SESSION_START_TIME=[{"utcEpochNs": 1_700_000_000_000_000_000}],
        NVTX_EVENTS=[rng(155_000, 156_000, "a")],
    )
    assert trace.shift_ns == 155_000
    assert trace.origin_unix_ns == 1_700_000_000_000_155_000


@pytest.mark.parametrize("added", [1_000_000, 1_700_000_000_000_000_000])
def test_times_that_the_export_shifted(export, added):
    """nsys export --ts-shift and --ts-normalize, which adds the Unix time of the start."""
    trace = export(
        TARGET_INFO_SESSION_START_TIME=[{"utcEpochNs": 1_700_000_000_000_000_000}],
        META_DATA_EXPORT=[{"name": "EXPORT_CONFIG_TIME_SHIFT", "value": str(added)}],
        ANALYSIS_DETAILS=[{"duration": 900}],
        NVTX_EVENTS=[rng(added + 100, added + 200, "a"), rng(added + 300, added + 900, "open")],
        CUPTI_ACTIVITY_KIND_KERNEL=[work(added - 50, added + 10, 1)],
    )
    assert trace.origin_unix_ns == 1_700_000_000_000_000_000 - 50
    assert trace.shift_ns == added - 50
    assert trace.capture_start == 50
    assert listed(trace, "start_ns", "unfinished") == [(150, False), (350, True)]


# names


def test_names_of_ranges(export):
    trace = export(
        NVTX_EVENTS=[
            rng(1, 9, "inline"),
            rng(2, 9, textId=4),
            rng(3, 9, "inline wins", textId=4),
            rng(4, 9),
            rng(5, 9, textId=99),
            rng(6, 9, ""),
            rng(7, 9, textId=5),
        ]
    )
    assert names(trace) == [
        *("inline", "registered", "inline wins", "(unnamed)", "(string 99 missing)", "", ""),
    ]


def test_names_of_calls_lose_their_abi_version_only(export):
    spoken = ["cudaMalloc_v3020", "cuGetProcAddress_v2", "cudaGetDeviceProperties_v2_v12000"]
    strings = [{"id": 10 + place, "value": name} for place, name in enumerate(spoken)]
    calls = [call(place, place + 1, place + 1, nameId=10 + place) for place in range(3)]
    trace = export(StringIds=strings, CUPTI_ACTIVITY_KIND_RUNTIME=calls)
    assert names(trace, "calls") == [
        *("cudaMalloc", "cuGetProcAddress_v2", "cudaGetDeviceProperties_v2"),
    ]


def test_kernels_have_the_best_name_there_is(export, tmp_path):
    trace = export(CUPTI_ACTIVITY_KIND_KERNEL=[work(1, 2, 1)])
    assert names(trace, "device") == ["void fill<float>(float *)"]
    assert trace.strings.take(trace.device["short_name"]) == ["fill"]
    with closing(sqlite3.connect(tmp_path / "run.sqlite")) as db:
        db.execute(f"ALTER TABLE {KERNELS} DROP COLUMN demangledName")
    trace = nvtrace.load(tmp_path / "run.sqlite")
    assert names(trace, "device") == ["fill"]


def test_text_that_is_not_utf8_stays_apart(export, tmp_path):
    export(NVTX_EVENTS=[rng(1, 2, "a"), rng(3, 4, "b")])
    with closing(sqlite3.connect(tmp_path / "run.sqlite")) as db:
        for name, data in (("a", "x'c3ff'"), ("b", "x'c3fe'")):
            db.execute(f"UPDATE {NVTX} SET text = CAST({data} AS TEXT) WHERE text = '{name}'")
        db.commit()
    assert names(nvtrace.load(tmp_path / "run.sqlite")) == [r"\xc3\xff", r"\xc3\xfe"]


# domains and categories


def test_domains_and_categories_belong_to_a_process_and_a_domain(export):
    other = process(200)
    trace = export(
        NVTX_EVENTS=[
            {"start": 0, "eventType": 75, "domainId": 1, "text": "A", "globalTid": T},
            {"start": 0, "eventType": 75, "domainId": 1, "text": "B", "globalTid": other + 7},
            {"start": 0, "eventType": 33, "domainId": 1, "category": 3, "text": "load",
             "globalTid": T},
            {"start": 0, "eventType": 33, "domainId": 0, "category": 3, "text": "save",
             "globalTid": T + 5},
            rng(1, 2, "one", domainId=1, category=3),
            rng(3, 4, "two", domainId=0, category=3),
            rng(5, 6, "three", domainId=1, category=3, globalTid=other + 7),
            rng(7, 8, "four", domainId=2, category=0),
        ]
    )  # fmt: skip
    assert listed(trace, "name", "domain", "category", "process") == [
        ("one", "A", "load", 100),
        ("two", "", "save", 100),
        ("three", "B", "category 3", 200),
        ("four", "domain 2", None, 100),
    ]


def test_domain_registered_by_id_and_created_twice(export):
    trace = export(
        NVTX_EVENTS=[
            {"start": 0, "eventType": 75, "domainId": 1, "textId": 4, "globalTid": T},
            {"start": 1, "eventType": 75, "domainId": 1, "textId": 4, "globalTid": T + 1},
            rng(2, 3, "one", domainId=1),
        ]
    )
    assert listed(trace, "name", "domain") == [("one", "registered")]


# payloads


def test_payloads(export):
    trace = export(
        StringIds=[*STRINGS, {"id": 6, "value": '{"layer": 1}'}],
        NVTX_EVENTS=[
            rng(1, 2, "u64", uint64Value=-1),
            rng(2, 3, "i64", int64Value=-5),
            rng(3, 4, "f64", doubleValue=0.25),
            rng(4, 5, "u32", uint32Value=4_000_000_000),
            rng(5, 6, "i32", int32Value=-7),
            rng(6, 7, "f32", floatValue=-1.5),
            rng(7, 8, "zero", int64Value=0),
            rng(8, 9, "none"),
            rng(9, 10, "json", jsonTextId=6),
            rng(10, 11, "inline json", jsonText="[1]"),
        ],
    )
    assert listed(trace, "name", "payload", "text") == [
        ("u64", str(2**64 - 1), None),
        ("i64", "-5", None),
        ("f64", "0.25", None),
        ("u32", "4000000000", None),
        ("i32", "-7", None),
        ("f32", "-1.5", None),
        ("zero", "0", None),
        ("none", None, None),
        ("json", None, '{"layer": 1}'),
        ("inline json", None, "[1]"),
    ]
    assert trace.ranges["payload_type"].tolist() == [
        *(PayloadType.UINT, PayloadType.INT, PayloadType.FLOAT),
        *(PayloadType.UINT, PayloadType.INT, PayloadType.FLOAT, PayloadType.INT),
        *(PayloadType.NONE, PayloadType.NONE, PayloadType.NONE),
    ]


# odd ranges


def test_styles_and_threads(export):
    trace = export(
        NVTX_EVENTS=[
            rng(1, 9, "nest"),
            rng(2, 8, "hand over", eventType=60, endGlobalTid=T + 1),
            rng(3, 7, "same thread", eventType=60),
            rng(4, None, "instant", eventType=34),
            rng(5, 6, "imported", eventType=70),
            rng(6, 7, "imported too", eventType=71),
            rng(7, None, "imported mark", eventType=72),
        ]
    )
    push_pop, start_end, mark = "push/pop", "start/end", "mark"
    assert listed(trace, "name", "style", "thread", "end_thread", "duration_ns", marks=True) == [
        ("nest", push_pop, 100, 100, 8),
        ("hand over", start_end, 100, 101, 6),
        ("same thread", start_end, 100, 100, 4),
        ("instant", mark, 100, 100, 0),
        ("imported", push_pop, 100, 100, 1),
        ("imported too", start_end, 100, 100, 1),
        ("imported mark", mark, 100, 100, 0),
    ]
    assert "unfinished_ranges" not in codes(trace)
    assert trace.threads["tid"].tolist() == [100, 101]


@pytest.mark.parametrize(
    ("details", "ends"),
    [
        # what the file states; what an older exporter writes, a newer one, and one that went on
        ([], {None: True, 60: False}),
        ([{"duration": 100}], {None: True, 100: True, 60: False}),
        ([{"duration": 70}], {None: True, 60: False}),
        ([{"duration": 70}], {90: True, 60: False}),
    ],
)
def test_ranges_that_never_closed(export, details, ends):
    rows = [rng(10 + place, end, f"r{end}") for place, end in enumerate(ends)]
    trace = export(NVTX_EVENTS=rows, ANALYSIS_DETAILS=details)
    flags = trace.ranges["flags"] & np.uint8(RangeFlag.UNFINISHED)
    assert dict(zip(names(trace), (flags != 0).tolist(), strict=True)) == {
        f"r{end}": unfinished for end, unfinished in ends.items()
    }
    last = max([60, *(row["duration"] for row in details), *(end for end in ends if end)])
    open_ends = (trace.ranges["end"] + trace.shift_ns)[flags != 0]
    assert set(open_ends.tolist()) == {last}
    assert "unfinished_ranges" in codes(trace)


def test_range_that_ends_before_it_starts(export):
    trace = export(NVTX_EVENTS=[rng(10, 50, "a"), rng(30, 20, "b")])
    assert listed(trace, "name", "start_ns", "duration_ns") == [("a", 0, 40), ("b", 20, 0)]
    assert trace.ranges["flags"].tolist() == [0, RangeFlag.REVERSED]
    assert "reversed_times" in codes(trace)


def test_rows_in_any_order(export):
    rows = [rng(30, 40, "c"), rng(10, 20, "b"), rng(10, 50, "a")]
    calls = [call(35, 36, 2), call(12, 13, 1)]
    kernels = [work(70, 80, 2), work(60, 65, 1)]
    trace = export(
        NVTX_EVENTS=rows, CUPTI_ACTIVITY_KIND_RUNTIME=calls, CUPTI_ACTIVITY_KIND_KERNEL=kernels
    )
    assert listed(trace, "name", "depth", "gpu_ns") == [("a", 0, 15), ("b", 1, 5), ("c", 1, 10)]
    assert trace.device["start"].tolist() == [50, 60]
    assert trace.calls["start"].tolist() == [2, 25]


def test_one_row_months_away_does_not_stretch_the_trace(export):
    far = 10**18
    trace = export(
        NVTX_EVENTS=[rng(10, 20, "a"), rng(far, far + 5, "lost"), rng(15, far, "lost too")],
        CUPTI_ACTIVITY_KIND_KERNEL=[work(30, 40, 1), work(50, 2**63 - 1, 2)],
    )
    assert names(trace) == ["a"]
    assert sorted((trace.device["end"] - trace.device["start"]).tolist()) == [0, 10]
    assert trace.span == (0, 30)
    (note,) = [note for note in trace.notes if note.code == "impossible_times"]
    assert note.message.startswith("3 rows ")


# calls and device work


def test_calls_repeated_for_their_backtrace_are_dropped(export):
    calls = [call(10, 20, 1), call(10, 20, 1, eventClass=67), call(30, 40, 2, eventClass=1)]
    assert export(CUPTI_ACTIVITY_KIND_RUNTIME=calls).calls["correlation"].tolist() == [1, 2]


def test_unified_memory_migrations_belong_to_no_call(export):
    trace = export(
        NVTX_EVENTS=[rng(0, 100, "around")],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(10, 20, 0)],
        CUPTI_ACTIVITY_KIND_MEMCPY=[
            work(30, 40, 0, copyKind=kind, streamId=0, contextId=0, bytes=4096)
            for kind in (11, 12, 13)
        ],
    )
    assert sorted(names(trace, "device")) == [
        "[CUDA memcpy Unified Device-to-Device]",
        "[CUDA memcpy Unified Device-to-Host]",
        "[CUDA memcpy Unified Host-to-Device]",
    ]
    assert listed(trace, "name", "gpu_ns") == [("around", 0)]
    assert trace.summary().totals["unattributed_gpu_ns"] == 30


def test_correlation_ids_count_within_a_process(export):
    other = process(200)
    trace = export(
        NVTX_EVENTS=[rng(0, 50, "mine"), rng(0, 50, "theirs", globalTid=other + 1)],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(10, 20, 7), call(10, 20, 7, globalTid=other + 1)],
        CUPTI_ACTIVITY_KIND_KERNEL=[work(20, 30, 7), work(20, 120, 7, globalPid=other)],
    )
    assert sorted(listed(trace, "name", "gpu_ns")) == [("mine", 10), ("theirs", 100)]
    assert len(trace.devices) == 2  # device 0 of two processes may be two GPUs
    assert trace.streams.rows == 2


def test_runs_of_whole_graphs(export):
    trace = export(
        NVTX_EVENTS=[rng(0, 50, "replay")],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(10, 20, 1)],
        CUPTI_ACTIVITY_KIND_GRAPH_TRACE=[work(30, 1030, 1)],
    )
    assert trace.device["kind"].tolist() == [DeviceKind.GRAPH]
    assert names(trace, "device") == ["[CUDA graph 5]"]
    assert listed(trace, "name", "gpu_ns") == [("replay", 1000)]


@pytest.mark.parametrize("table", ["CUDA_GRAPH_EVENTS", "CUDA_GRAPH_NODE_EVENTS"])
def test_kernels_of_graphs_know_who_captured_them(export, table):
    """Schema 3.7.2 keeps nodes in CUDA_GRAPH_EVENTS; later ones keep graphs there."""
    nodes = [
        {"start": 11, "end": 12, "globalTid": T, "graphNodeId": 50, "originalGraphNodeId": None},
        {"start": 31, "end": 32, "globalTid": T, "graphNodeId": 90, "originalGraphNodeId": 50},
    ]
    tables: dict[str, Any] = {table: nodes}
    if table == "CUDA_GRAPH_NODE_EVENTS":
        graph = {"start": 30, "end": 33, "globalTid": T, "graphId": 5, "graphExecId": 6}
        tables["CUDA_GRAPH_EVENTS"] = [graph]
    trace = export(
        NVTX_EVENTS=[rng(10, 20, "capture"), rng(30, 35, "make"), rng(40, 60, "replay")],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(45, 50, 1)],
        CUPTI_ACTIVITY_KIND_KERNEL=[work(70, 80, 1, graphNodeId=90)],
        **tables,
    )
    explained = trace.explain()
    ranges = names(trace)
    assert ranges[int(explained.device_capture[0])] == "capture"
    assert ranges[int(explained.device_range[0])] == "replay"


def test_any_number_may_be_a_node_and_null_is_none(export):
    node = {"start": 11, "end": 12, "globalTid": T, "originalGraphNodeId": None}
    found = [0, 1, -1, -(2**63), 2**63 - 1]  # unsigned in the report
    rows = [{**node, "graphNodeId": number} for number in [None, *found, None]]
    trace = export(NVTX_EVENTS=[rng(10, 20, "capture")], CUDA_GRAPH_EVENTS=rows)
    assert trace.graph_nodes["node"].tolist() == [number % 2**64 for number in found]


def test_kernels_stamped_before_the_capture_widen_no_window(export):
    trace = export(
        NVTX_EVENTS=[rng(100, 300, "a")],
        CUPTI_ACTIVITY_KIND_KERNEL=[work(-20_000, -19_000, 1), work(200, 260, 2)],
    )
    assert trace.capture_start == 20_000
    assert trace.span == (20_000, 20_300)
    assert trace.summary().totals["gpu_ns"] == 1_060
    assert "outside_capture" in codes(trace)


def test_kernels_without_a_timestamp_are_counted(export):
    trace = export(
        NVTX_EVENTS=[rng(5_000, 6_000, "a")],
        CUPTI_ACTIVITY_KIND_KERNEL=[work(0, 0, 1), work(5_500, 5_600, 2)],
    )
    assert trace.span == (0, 1_000)
    (row,) = trace.summary("kernel")["kernel"].rows()
    assert (row["calls"], row["gpu_total_ns"]) == (2, 100)
    assert "no_timestamp" in codes(trace)


def test_tables_that_are_missing_are_not_zero(export):
    trace = export(NVTX_EVENTS=[rng(1, 2, "a")])
    assert listed(trace, "gpu_ns", "kernels") == [(None, None)]
    assert trace.summary().totals["gpu_ns"] is None


def test_empty_tables_are_zero(export):
    trace = export(
        NVTX_EVENTS=[rng(1, 2, "a")], CUPTI_ACTIVITY_KIND_KERNEL=[], CUPTI_ACTIVITY_KIND_RUNTIME=[]
    )
    assert listed(trace, "gpu_ns", "kernels") == [(0, 0)]
    assert trace.summary().totals["gpu_ns"] == 0


# devices


def gpu(number: int, name: str, **more: Any) -> dict[str, Any]:
    return {"vmId": process(0), "name": name, "busLocation": f"0000:0{number}:00.0", **more}


@pytest.mark.parametrize(
    ("gpus", "found"), [(["Tesla V100"], "Tesla V100"), (["Tesla V100", "GeForce"], None)]
)
def test_gpu_of_the_old_table(export, gpus, found):
    """It gives no CUDA number: of several GPUs nobody can tell which one it was."""
    trace = export(
        TARGET_INFO_GPU=[gpu(place, name, deviceId=place) for place, name in enumerate(gpus)],
        CUPTI_ACTIVITY_KIND_KERNEL=[work(1, 2, 1)],
    )
    assert [(device.ordinal, device.name) for device in trace.devices] == [(0, found)]


def test_gpu_of_the_new_table(export):
    facts = {"uuid": "abc", "totalMemory": 80 * 2**30, "smCount": 132}
    trace = export(
        TARGET_INFO_GPU=[
            gpu(1, "H100", id=0, cuDevice=0, **facts),
            gpu(2, "Intel Iris", id=1, cuDevice=None),
        ],
        CUPTI_ACTIVITY_KIND_KERNEL=[work(1, 2, 1)],
    )
    (device,) = trace.devices
    assert (device.name, device.uuid, device.bus_id) == ("H100", "abc", "0000:01:00.0")
    assert (device.memory_bytes, device.sm_count) == (80 * 2**30, 132)


def test_cuda_device_0_may_be_gpu_1(export):
    trace = export(
        TARGET_INFO_GPU=[gpu(1, "slow", id=0, cuDevice=0), gpu(2, "fast", id=1, cuDevice=1)],
        TARGET_INFO_CUDA_DEVICE=[
            {"gpuId": 1, "cudaId": 0, "pid": 100},
            {"gpuId": 0, "cudaId": 1, "pid": 100},
            {"gpuId": 0, "cudaId": 0, "pid": 200},
        ],
        CUPTI_ACTIVITY_KIND_KERNEL=[
            work(1, 2, 1),
            work(3, 4, 2, globalPid=process(200)),
            work(5, 6, 3, deviceId=1),
        ],
    )
    stream_devices = [trace.devices[row].name for row in trace.streams["device"].tolist()]
    assert [stream_devices[row] for row in trace.device["stream"].tolist()] == [
        *("fast", "slow", "slow"),
    ]
    assert len(trace.devices) == 2


def test_processes_of_two_machines_may_share_a_pid(export):
    far = process(100, machine=0xFE01)
    trace = export(NVTX_EVENTS=[rng(1, 2, "here"), rng(1, 2, "there", globalTid=far + 100)])
    assert [one.pid for one in trace.processes] == [100, 100]
    assert trace.threads["process"].tolist() in ([0, 1], [1, 0])
    assert listed(trace, "process", "thread") == [(100, 100), (100, 100)]


# what is nobody's business


SECRETS = {
    "META_DATA_CAPTURE": [
        {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": "TOKEN=SECRET1"},
        {"name": "PROCESS_0:COMMAND_LINE", "value": "train --key SECRET2"},
        {"name": "HOST", "value": "SECRET3"},
    ],
    "ProcessStreams": [{"globalPid": P, "filenameId": 20, "contentId": 21}],
    "TARGET_INFO_SYSTEM_ENV": [
        {"globalVid": P, "name": "UserName", "nameEnum": 1, "value": "SECRET4"},
    ],
    "ANALYSIS_FILE": [{"id": 1, "filename": "/home/SECRET5/a", "content": "SECRET6"}],
    "OSRT_FILE_ACCESS_DESCRIPTORS": [{"id": 1, "path": "/home/SECRET5/data"}],
    "PROCESSES": [
        {"globalPid": P, "pid": 100, "name": "/home/SECRET5/bin/python"},
        {"globalPid": process(7), "pid": 7, "name": "SECRET7"},
    ],
    "DIAGNOSTIC_EVENT": [
        {"timestamp": 1, "severity": 2, "text": "cannot read /home/SECRET5/file.bin (errno 13)"},
    ],
}


def test_personal_data_reach_no_output(export):
    strings = [
        *STRINGS,
        {"id": 20, "value": "/home/SECRET5/stdout"},
        {"id": 21, "value": "SECRET8 was printed"},
    ]
    trace = export(
        StringIds=strings,
        NVTX_EVENTS=[rng(0, 50, "step 1")],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(10, 20, 1)],
        CUPTI_ACTIVITY_KIND_KERNEL=[work(30, 40, 1)],
        **SECRETS,
    )
    timeline = io.BytesIO()
    trace.export(timeline)
    outputs = [timeline.getvalue().decode(), repr(trace), repr(trace.notes)]
    for report in (trace.summary(VIEWS), trace.ranges_report(marks=True), trace.info()):
        outputs += [str(report), json.dumps(report.to_dict()), report._repr_html_()]
    assert all("SECRET" not in output for output in outputs)
    assert "python" in outputs[0]  # a process's name without its folder is not personal
    assert any("cannot read" in output for output in outputs)


def test_tables_are_read_only(export):
    trace = export(NVTX_EVENTS=[rng(1, 2, "a")])
    with pytest.raises(ValueError, match="read-only"):
        trace.ranges["start"][0] = 5
    assert trace.ranges["style"].tolist() == [RangeStyle.PUSH_POP]


def test_reading_leaves_the_file_alone(export, tmp_path):
    export(NVTX_EVENTS=[rng(1, 2, "a")])
    path = Path(tmp_path, "run.sqlite")
    before = path.read_bytes()
    nvtrace.load(path).summary()
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["run.sqlite"]
