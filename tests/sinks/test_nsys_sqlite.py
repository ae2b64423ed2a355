"""A saved trace comes back whole, and the real nsys reads the same figures from it."""

from __future__ import annotations

import csv
import io
import re
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from builders import START_END, Capture
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nvtrace
from nvtrace.demo import write_report
from nvtrace.model import schema
from nvtrace.model.merging import merge
from nvtrace.model.schema import DeviceKind, PayloadType, RangeStyle
from nvtrace.model.strings import Strings
from nvtrace.model.table import Table
from nvtrace.model.trace import (
    Counter,
    CpuUsage,
    Device,
    Domain,
    Note,
    Process,
    Recorded,
    Source,
    TraceData,
)

CAPTURES = (
    "nsys/a01_cs336_win_rtx5000_s3.25.0.sqlite",
    "nsys/a02_cs336_fwdbwd_rtx3070ti_s3.17.2.sqlite",
    "nsys/a03_cs336_2.7B_a100_s3.16.1.sqlite",
    "nsys/a04_graph_replay_a100_s3.16.1.sqlite",
    "nsys/a05_h100_2gpu_emit_nvtx_s3.25.0.sqlite",
    "nsys/a06_mfu_2gpu_nccl_before_s3.25.0.sqlite",
    "nsys/a07_mfu_2gpu_nccl_after_s3.25.0.sqlite",
    "nsys/a08_mock_rtx3080_s3.24.14.sqlite",
    "nsys/a09_cupy_cccl_t4_s3.20.2.sqlite",
    "nsys/a10_flameox_graphtrace_s3.24.0.sqlite",
    "nsys/a30_tensorrt_3domains_startend_s3.7.2.sqlite",
    "nsys-made-here/kitchen.sqlite",
    "nsys-made-here/multi_fork.sqlite",
    "nsys-made-here/multi_fork_traced.sqlite",
    "nsys-made-here/multi_spawn.sqlite",
)


def assert_same(found: TraceData, expected: TraceData) -> None:
    """Every table, to the bit and in order, and every record."""
    for field in fields(TraceData):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(other, Table):
            assert {name: column.tobytes() for name, column in one.items()} == {
                name: column.tobytes() for name, column in other.items()
            }, field.name
        elif isinstance(other, Strings):
            assert list(one) == list(other)
        else:
            assert one == other, field.name


def saved(trace: TraceData, path: Path) -> nvtrace.Trace:
    nvtrace.Trace.of(trace).save(path, overwrite=True)
    return nvtrace.load(path)


def rows(path: Path, sql: str) -> list[tuple]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


@pytest.fixture
def demo(tmp_path):
    report = write_report(
        tmp_path / "demo.sqlite",
        kernels=600, ranks=3, graph=True, graph_trace=True, edge=True, unfinished=True,
        truth=False,
    )  # fmt: skip
    return nvtrace.load(report)


class TestComesBack:
    @pytest.mark.parametrize("name", CAPTURES)
    def test_real_capture(self, shared_data, name, tmp_path):
        trace = nvtrace.load(shared_data / name)
        back = saved(trace, tmp_path / "saved.sqlite")
        assert_same(back, trace)

    def test_the_same_tables_from_it(self, shared_data, tmp_path):
        trace = nvtrace.load(shared_data / CAPTURES[4])
        back = saved(trace, tmp_path / "saved.sqlite")
        from nvtrace import sinks

        assert sinks.render(back.summary(), "json") == sinks.render(trace.summary(), "json")

    def test_demo(self, demo, tmp_path):
        assert demo.graph_nodes.rows > 0
        assert demo.samples.rows > 0
        assert {0, 1, 2, 3} == set(demo.device["kind"].tolist())
        assert_same(saved(demo, tmp_path / "saved.sqlite"), demo)

    def test_merged_with_itself(self, demo, tmp_path):
        """Twice the same pids, threads, devices, correlation ids."""
        pair = merge([demo, demo])
        assert len(pair.processes) == 2 * len(demo.processes)
        assert_same(saved(pair, tmp_path / "saved.sqlite"), pair)

    def test_merged_file_by_file(self, demo, tmp_path):
        apart = merge([demo, demo], by_time=False)
        assert apart.ranges["start"].tolist() != sorted(apart.ranges["start"].tolist())
        assert_same(saved(apart, tmp_path / "saved.sqlite"), merge([demo, demo]))

    def test_merged_captures(self, shared_data, tmp_path):
        pair = nvtrace.load([shared_data / CAPTURES[5], shared_data / CAPTURES[6]])
        assert_same(saved(pair, tmp_path / "saved.sqlite"), pair)

    def test_saved_twice(self, demo, tmp_path):
        once = saved(demo, tmp_path / "once.sqlite")
        assert_same(saved(once, tmp_path / "twice.sqlite"), demo)

    def test_nothing(self, tmp_path):
        assert_same(saved(TraceData(), tmp_path / "saved.sqlite"), TraceData())

    @pytest.mark.parametrize("kind", Recorded._fields)
    def test_recorded_and_empty_differs_from_not_recorded(self, kind, tmp_path):
        trace = TraceData(recorded=Recorded(**{kind: True}))
        assert saved(trace, tmp_path / "saved.sqlite").recorded == trace.recorded

    def test_kernel_details_that_were_not_read(self, demo, tmp_path):
        without = replace(demo, kernel_details=Table.empty(schema.KERNEL_DETAILS))
        assert_same(saved(without, tmp_path / "saved.sqlite"), without)

    def test_details_can_be_left_out(self, demo, tmp_path):
        demo.save(tmp_path / "saved.sqlite")
        back = nvtrace.load(tmp_path / "saved.sqlite", details=False)
        assert back.kernel_details.rows == 0
        assert back.device.rows == demo.device.rows


TEXT = st.text(max_size=8)
I64 = st.integers(-(2**62), 2**62)
BITS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([0.0, -0.0, float("nan"), float("inf"), 1.5, -3.0]).map(
        lambda value: int(np.float64(value).view(np.int64))
    ),
)


@st.composite
def traces(draw) -> TraceData:
    """Any trace at all: every column takes any value that the catalogue allows."""
    count = st.integers(0, 5)
    strings = Strings(draw(st.lists(TEXT, min_size=1, max_size=6, unique=True)))
    name = st.integers(0, len(strings) - 1)
    processes = draw(st.lists(st.builds(
        Process, st.integers(0, 2**31), st.none() | TEXT, st.none() | st.integers(0, 99),
        st.none() | TEXT, TEXT, st.booleans(),
    ), min_size=1, max_size=3))  # fmt: skip
    process = st.integers(0, len(processes) - 1)
    domains = draw(st.lists(st.builds(Domain, process, TEXT), min_size=1, max_size=4, unique=True))
    categories = draw(st.lists(TEXT, max_size=3, unique=True))
    threads = draw(st.lists(st.tuples(process, st.integers(0, 2**40)), min_size=1, max_size=4,
                            unique=True))  # fmt: skip
    optional = st.none() | st.integers(1, 2**40)
    devices = draw(st.lists(st.builds(
        Device, st.integers(0, 9), st.none() | TEXT, st.none() | TEXT, st.none() | TEXT,
        optional, optional, st.integers(-1, len(processes) - 1),
    ), min_size=1, max_size=3))  # fmt: skip
    streams = draw(st.lists(
        st.tuples(st.integers(0, len(devices) - 1), st.integers(0, 9), st.integers(0, 9), process),
        min_size=1, max_size=4, unique=True,
    ))  # fmt: skip

    def table(spec, rows, *order):
        columns = {
            one: np.array([row[place] for row in rows], column.dtype)
            for place, (one, column) in enumerate(spec.items())
        }
        made = Table(spec, columns)
        return made.take(np.lexsort([made[key] * sign for key, sign in reversed(order)]))

    def times(latest=2**62):
        start = draw(st.integers(-(2**62), latest))
        return start, draw(st.integers(start, latest))

    def a_range():
        start, end = times()
        style = draw(st.sampled_from(RangeStyle))
        scope = draw(st.integers(0, len(domains) - 1))
        owned = [row for row, (owner, _) in enumerate(threads) if owner == domains[scope].process]
        if not owned:
            return None
        kind = draw(st.sampled_from(PayloadType))
        return (
            start, start if style is RangeStyle.MARK else end, draw(name), scope,
            draw(st.integers(-1, len(categories) - 1)), draw(st.sampled_from(owned)),
            draw(st.integers(0, len(threads) - 1)), style, draw(st.integers(0, 7)),
            draw(st.integers(0, 2**32 - 1)), kind, draw(BITS),
            draw(st.integers(-1, len(strings) - 1)),
        )  # fmt: skip

    def a_call():
        thread = draw(st.integers(0, len(threads) - 1))
        return *times(), draw(name), thread, threads[thread][0], draw(I64)

    def work():
        kind = draw(st.sampled_from(DeviceKind))
        stream = draw(st.integers(0, len(streams) - 1))
        memory = kind in (DeviceKind.MEMCPY, DeviceKind.MEMSET)
        return (
            *times(), draw(name), draw(name), kind, stream, streams[stream][3], draw(I64),
            draw(st.integers(-1, 2**40)) if memory else -1,
            draw(st.integers(0, 255)) if kind is DeviceKind.MEMCPY else 0,
            0 if kind is DeviceKind.GRAPH else draw(st.integers(0, 2**64 - 1)),
        )  # fmt: skip

    def a_node():
        thread = draw(st.integers(0, len(threads) - 1))
        node = st.integers(0, 2**64 - 1)
        return *times(), thread, threads[thread][0], draw(node), draw(node)

    device = table(
        schema.DEVICE, [work() for _ in range(draw(count))], ("start", 1), ("end", -1), ("kind", 1)
    )
    kernels = np.flatnonzero(device["kind"] == DeviceKind.KERNEL).tolist()
    size = st.integers(0, 2**31 - 1)
    counters = draw(st.lists(st.builds(Counter, TEXT, TEXT, st.integers(-1, len(devices) - 1),
                                       process), max_size=2))  # fmt: skip
    samples = draw(count) if counters else 0
    ranges = [row for row in (a_range() for _ in range(draw(count))) if row]
    calls = [a_call() for _ in range(draw(count))]
    kinds = set(device["kind"].tolist())
    return TraceData(
        ranges=table(schema.RANGES, ranges, ("start", 1), ("end", -1)),
        calls=table(schema.CALLS, calls, ("start", 1), ("end", -1)),
        device=device,
        kernel_details=table(
            schema.KERNEL_DETAILS,
            [(row, *(draw(size) for _ in range(9))) for row in kernels if draw(st.booleans())],
            ("row", 1),
        ),
        graph_nodes=table(
            schema.GRAPH_NODES, [a_node() for _ in range(draw(count))], ("start", 1)
        ),
        samples=table(
            schema.SAMPLES,
            [
                (draw(I64), draw(st.integers(0, len(counters) - 1)), draw(st.floats()) + 0.0)
                for _ in range(samples)
            ],
            ("time", 1),
        ),
        streams=table(schema.STREAMS, streams, ("process", 0)),
        threads=table(
            schema.THREADS,
            [(*thread, draw(st.integers(-1, len(strings) - 1))) for thread in threads],
            ("process", 0),
        ),
        strings=strings,
        domains=tuple(domains),
        categories=tuple(categories),
        processes=tuple(processes),
        devices=tuple(devices),
        counters=tuple(counters),
        cpu=tuple(draw(st.lists(st.builds(CpuUsage, TEXT, I64, I64), max_size=2))),
        sources=tuple(draw(st.lists(
            st.builds(Source, TEXT, st.none() | TEXT, st.none() | TEXT, I64), max_size=2,
        ))),
        notes=tuple(draw(st.lists(st.builds(Note, TEXT, TEXT), max_size=2))),
        recorded=Recorded(
            ranges=bool(ranges) or draw(st.booleans()),
            calls=bool(calls) or draw(st.booleans()),
            kernels=DeviceKind.KERNEL in kinds or draw(st.booleans()),
            memcpy=DeviceKind.MEMCPY in kinds or draw(st.booleans()),
            memset=DeviceKind.MEMSET in kinds or draw(st.booleans()),
            graphs=DeviceKind.GRAPH in kinds or draw(st.booleans()),
        ),
        origin_unix_ns=draw(st.none() | I64),
        shift_ns=draw(I64),
        capture_start=draw(I64),
    )  # fmt: skip


class TestAnyTrace:
    @settings(max_examples=150, suppress_health_check=list(HealthCheck))
    @given(trace=traces())
    def test_comes_back(self, trace, tmp_path_factory):
        assert_same(saved(trace, tmp_path_factory.getbasetemp() / "any.sqlite"), trace)


def test_payloads_that_a_column_of_sqlite_cannot_hold(tmp_path):
    """A REAL is never NaN and has no negative zero; an INTEGER of -2**63 is kept for NULL."""
    capture = Capture()
    payloads = (float("nan"), -0.0, 0.0, float("-inf"), 1e-320, -(2**63), 2**63 - 1, 0, None)
    for place, payload in enumerate(payloads):
        capture.range("r", place, place + 1, payload=payload)
    trace = capture.trace()
    back = saved(trace, tmp_path / "saved.sqlite")
    assert_same(back, trace)
    kinds = [PayloadType(kind).name for kind in back.ranges["payload_type"].tolist()]
    assert kinds == ["FLOAT"] * 5 + ["INT"] * 3 + ["NONE"]


def test_sample_that_is_no_number(tmp_path):
    samples = {"time": [0, 1, 2], "counter": [0, 0, 0], "value": [1.5, np.nan, np.inf]}
    trace = TraceData(samples=Table(schema.SAMPLES, samples), counters=(Counter("c", "W"),))
    assert_same(saved(trace, tmp_path / "saved.sqlite"), trace)


def test_name_of_a_call_is_kept_as_it_is(tmp_path):
    """Only names that nsys wrote end in an ABI version."""
    capture = Capture()
    capture.call(0, 1, name="cudaLaunchKernel_v7000")
    trace = capture.trace()
    assert_same(saved(trace, tmp_path / "saved.sqlite"), trace)


def test_merged_work_of_two_kinds_at_one_moment(tmp_path):
    copy, kernel = Capture(source="a"), Capture(source="b")
    copy.run(0, 10, kind=DeviceKind.MEMCPY, bytes=1, copy_kind=1)
    kernel.run(0, 10)
    pair = merge([copy.trace(), kernel.trace()])
    assert_same(saved(pair, tmp_path / "saved.sqlite"), pair)


def test_nothing_in_a_trace_is_unknown_to_the_file():
    """A table added to the model must be saved: then add it here."""
    assert {field.name for field in fields(TraceData)} == {
        *("ranges", "calls", "device", "kernel_details", "graph_nodes", "samples"),
        *("streams", "threads", "strings", "domains", "categories", "processes", "devices"),
        *("counters", "cpu", "sources", "notes", "recorded"),
        *("origin_unix_ns", "shift_ns", "capture_start"),
        "files",  # where rows stand; read back they are in the order of time
    }


class TestIds:
    def test_equal_pids_stay_apart(self, tmp_path):
        """Two hosts, one pid, one tid, one device number, one correlation id."""
        captures = []
        for host in ("a", "b"):
            capture = Capture(source=host)
            capture.range(f"on {host}", 0, 100, pid=7, tid=7, domain="d")
            capture.launch(10, 20, 30, pid=7, tid=7, name=f"kernel of {host}")
            captures.append(capture.trace())
        pair = merge(captures)
        path = tmp_path / "saved.sqlite"
        back = saved(pair, path)
        assert_same(back, pair)
        assert [process.pid for process in back.processes] == [7, 7]
        explained = back.explain()
        names = [
            (back.strings[back.device["name"][row]], back.strings[back.ranges["name"][owner]])
            for row, owner in enumerate(explained.device_range.tolist())
        ]
        assert sorted(names) == [("kernel of a", "on a"), ("kernel of b", "on b")]
        ids = {row[0] for row in rows(path, "SELECT DISTINCT globalTid FROM NVTX_EVENTS")}
        assert {key >> 24 & 0xFFFFFF for key in ids} == {7}

    def test_ids_of_more_than_24_bits(self, tmp_path):
        capture = Capture()
        for tid in (5, 5 + (1 << 24), 5 + (1 << 40), 6):
            capture.range(f"by {tid}", tid % 1000, 2000, pid=(1 << 30) + 3, tid=tid)
        trace = capture.trace()
        back = saved(trace, tmp_path / "saved.sqlite")
        assert_same(back, trace)
        assert sorted(back.threads["tid"].tolist()) == [5, 6, 5 + (1 << 24), 5 + (1 << 40)]
        assert back.processes[0].pid == (1 << 30) + 3

    def test_two_devices_that_one_process_numbers_alike(self, tmp_path):
        """After a merge a device bears one number, and its second process may have used another."""
        first = Capture(uuids={(1, 0): "A"})
        first.launch(0, 1, 5, pid=1, device=0)
        second = Capture(uuids={(2, 0): "B", (2, 1): "A"})
        second.launch(0, 1, 5, pid=2, device=0)
        second.launch(2, 3, 6, pid=2, device=1)
        pair = merge([first.trace(), second.trace()])
        assert [device.uuid for device in pair.devices] == ["A", "B"]
        assert_same(saved(pair, tmp_path / "saved.sqlite"), pair)


class TestFile:
    def test_is_there_only_when_whole(self, demo, tmp_path, monkeypatch):
        from nvtrace.sinks import nsys_sqlite

        def fail(*_):
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr(nsys_sqlite, "write_events", fail)
        with pytest.raises(nvtrace.OutputError, match=r"x\.sqlite: database or disk is full"):
            demo.save(tmp_path / "x.sqlite")
        assert {path.name for path in tmp_path.iterdir()} == {"demo.sqlite"}

    def test_is_not_replaced_unasked(self, tmp_path):
        path = tmp_path / "x.sqlite"
        path.write_text("mine")
        with pytest.raises(nvtrace.OutputError, match="exists"):
            nvtrace.Trace().save(path)
        assert path.read_text() == "mine"
        nvtrace.Trace().save(path, overwrite=True)
        assert nvtrace.load(path).ranges.rows == 0

    def test_folder_that_is_missing(self, tmp_path):
        with pytest.raises(nvtrace.OutputError, match="create the folder first"):
            nvtrace.Trace().save(tmp_path / "no" / "x.sqlite")

    def test_standard_output(self):
        with pytest.raises(nvtrace.OutputError, match="standard output"):
            nvtrace.Trace().save("-")

    def test_of_a_newer_version(self, tmp_path):
        path = tmp_path / "x.sqlite"
        nvtrace.Trace().save(path)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE NVTRACE_TRACE SET value = 99 WHERE name = 'format'")
        with pytest.raises(nvtrace.SourceError, match="another version of nvtrace"):
            nvtrace.load(path)

    @pytest.mark.parametrize(
        "damage",
        [
            "DELETE FROM NVTRACE_TRACE WHERE name = 'strings'",
            "DELETE FROM NVTRACE_THREADS WHERE rowid = 1",
            "DROP TABLE NVTRACE_STREAMS",
            "INSERT INTO NVTRACE_RANGES VALUES (99999, 1, 0, 0)",
            "UPDATE NVTX_EVENTS SET domainId = 99",
        ],
    )
    def test_damaged(self, demo, tmp_path, damage):
        path = tmp_path / "x.sqlite"
        demo.save(path)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(damage)
        with pytest.raises(nvtrace.CorruptReport, match="damaged"):
            nvtrace.load(path)

    def test_without_its_own_tables_is_still_an_export(self, demo, tmp_path):
        """What nsys has a place for is in its own tables: any reader of exports finds it."""
        path = tmp_path / "x.sqlite"
        demo.save(path)
        with closing(sqlite3.connect(path)) as connection, connection:
            own = rows(path, "SELECT name FROM sqlite_master WHERE name LIKE 'NVTRACE%'")
            for (table,) in own:
                connection.execute(f"DROP TABLE {table}")
        plain = nvtrace.load(path)
        for table in ("ranges", "calls", "device"):
            for column in ("start", "end"):
                assert (getattr(plain, table)[column] == getattr(demo, table)[column]).all()
        assert plain.origin_unix_ns == demo.origin_unix_ns
        assert [p.pid for p in plain.processes] == [p.pid for p in demo.processes]
        assert {d.uuid for d in plain.devices} == {d.uuid for d in demo.devices}


REPORTS = {
    "cuda_gpu_kern_sum": ("Name", "Instances"),
    "cuda_gpu_mem_time_sum": ("Operation", "Count"),
    "cuda_gpu_mem_size_sum": ("Operation", "Count"),
    "cuda_api_sum": ("Name", "Num Calls"),
    "nvtx_sum": ("Range", "Instances"),
}


def nsys_figures(nsys: Path, path: Path, report: str) -> dict[str, tuple[float, ...]]:
    """(count, total, min, max) by name as nsys prints them."""
    command = [nsys, "stats", "--report", report, "--format", "csv", "--output", "-", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines(keepends=True)
    header = next((place for place, line in enumerate(lines) if ",Total" in f",{line}"), None)
    if header is None:
        assert "SKIPPED" in done.stderr + done.stdout
        return {}
    name, count = REPORTS[report]
    unit = "Time (ns)" if "size" not in report else "(MB)"
    found: dict[str, tuple[float, ...]] = {}
    for row in csv.DictReader(io.StringIO("".join(lines[header:]))):
        total = row[f"Total {unit}"]
        low, high = (row[f"{which} {unit.removeprefix('Time ')}"] for which in ("Min", "Max"))
        found[row[name]] = tuple(float(value) for value in (row[count], total, low, high))
    return found


class TestNsysStats:
    """What the real nsys says of a saved file is what its rows add up to."""

    @pytest.fixture
    def pair(self, tmp_path):
        """Two captures of equal pids, so that nsys sees what a merge gives."""
        captures = []
        for number in (1, 2):
            capture = Capture(source=str(number))
            for step in range(4):
                at = step * 1000
                capture.step(step, at, at + 900, pid=7, tid=8)
                capture.range("plain", at + 10, at + 200 + number, pid=7, tid=8)
                capture.range("across", at, at + 50, pid=7, tid=8, end_tid=9, style=START_END)
                capture.launch(at + 20, at + 30, 100 + step, pid=7, tid=8, name="void k<int>(T)")
                capture.copy(at + 40, at + 55, 70 + step, 10_000_000 * (step + 1), 1, pid=7, tid=8)
            captures.append(capture.trace())
        path = tmp_path / "saved.sqlite"
        trace = saved(merge(captures), path)
        return path, trace

    def test_nvtx_sum(self, nsys, pair):
        path, _ = pair
        assert nsys_figures(nsys, path, "nvtx_sum") == {
            "nvtrace:step": (8, 8 * 900, 900, 900),
            "plain": (8, 4 * 191 + 4 * 192, 191, 192),
            "across": (8, 8 * 50, 50, 50),
        }

    def test_cuda_gpu_kern_sum(self, nsys, pair):
        path, _ = pair
        # steps 0 to 3, twice: 100 + 101 + 102 + 103
        assert nsys_figures(nsys, path, "cuda_gpu_kern_sum") == {
            "void k<int>(T)": (8, 2 * 406, 100, 103)
        }

    def test_cuda_gpu_mem_time_sum(self, nsys, pair):
        path, _ = pair
        assert nsys_figures(nsys, path, "cuda_gpu_mem_time_sum") == {
            "[CUDA memcpy Host-to-Device]": (8, 2 * (70 + 71 + 72 + 73), 70, 73)
        }

    def test_cuda_gpu_mem_size_sum(self, nsys, pair):
        path, _ = pair
        assert nsys_figures(nsys, path, "cuda_gpu_mem_size_sum") == {
            "[CUDA memcpy Host-to-Device]": (8, 2 * (10 + 20 + 30 + 40), 10, 40)
        }

    def test_cuda_api_sum(self, nsys, pair):
        path, _ = pair
        assert nsys_figures(nsys, path, "cuda_api_sum") == {
            "cudaLaunchKernel": (8, 80, 10, 10),
            "cudaMemcpyAsync": (8, 120, 15, 15),
        }

    @pytest.mark.parametrize("report", REPORTS)
    @pytest.mark.parametrize("name", [CAPTURES[2], CAPTURES[8], CAPTURES[10]])
    def test_as_of_the_capture_itself(self, nsys, shared_data, name, report, tmp_path):
        """The oracle is NVIDIA's report of the rows that the capture itself holds."""
        original, path = tmp_path / "original.sqlite", tmp_path / "saved.sqlite"
        original.symlink_to(shared_data / name)
        nvtrace.load(original).save(path)
        # the names of calls lose their ABI version, and two may become one
        expected: dict[str, tuple[float, ...]] = {}
        for spoken, (count, total, low, high) in nsys_figures(nsys, original, report).items():
            one = re.sub(r"_v\d{4,}$", "", spoken) if report == "cuda_api_sum" else spoken
            before = expected.get(one, (0, 0, low, high))
            expected[one] = (
                before[0] + count, before[1] + total, min(before[2], low), max(before[3], high)
            )  # fmt: skip
        assert nsys_figures(nsys, path, report) == expected
