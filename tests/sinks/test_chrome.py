"""The timeline: what is in the file, and what Perfetto itself finds in it."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import os
import re
from collections import Counter as Multiset
from decimal import Decimal

import numpy as np
import pytest

from nvtrace.errors import OutputError, UsageError
from nvtrace.model import schema
from nvtrace.model.explained import Explained
from nvtrace.model.schema import DeviceKind, PayloadType, RangeFlag, RangeKind, RangeStyle
from nvtrace.model.strings import Strings
from nvtrace.model.table import Table
from nvtrace.model.trace import Counter, Device, Domain, Note, Process, Source, TraceData
from nvtrace.sinks import chrome, chrome_layout, chrome_order

STRING_COLUMNS = {"name", "short_name", "text"}
ABSENT = {"category", "text", "bytes"}


# what Explained derives when it is asked for
LATER = ("range_depth", "range_step", "call_step", "device_step")


class Capture:
    """Builds an Explained row by row; a derived column is given as ``derived={...}``."""

    def __init__(self):
        self.strings = Strings([""])
        self.rows = {"ranges": [], "calls": [], "device": []}
        self.details, self.samples = [], []
        self.threads, self.streams = [], []
        self.parts = {"domains": (Domain(0, ""),), "processes": (), "devices": ()}

    def process(self, pid, **facts):
        self.parts["processes"] += (Process(pid, **facts),)
        return len(self.parts["processes"]) - 1

    def thread(self, process, tid, name=None):
        row = -1 if name is None else self.strings.intern(name)
        self.threads.append({"process": process, "tid": tid, "name": row})
        return len(self.threads) - 1

    def stream(self, process, number, device=0, context=1):
        row = {"device": device, "context": context, "stream": number, "process": process}
        self.streams.append(row)
        return len(self.streams) - 1

    def range(self, name, start, end, thread=0, **columns):
        row = {"name": name, "start": start, "end": end, "thread": thread, "end_thread": thread}
        return self._add("ranges", row | columns)

    def mark(self, name, time, **columns):
        return self.range(name, time, time, style=RangeStyle.MARK, **columns)

    def call(self, name, start, end, thread=0, **columns):
        process = self.threads[thread]["process"]
        row = {"name": name, "start": start, "end": end, "thread": thread, "process": process}
        return self._add("calls", row | columns)

    def kernel(self, name, start, end, stream=0, call=-1, **columns):
        derived = {"device_call": call} | columns.pop("derived", {})
        row = {"name": name, "short_name": name, "start": start, "end": end, "stream": stream}
        row["process"] = self.streams[stream]["process"]
        return self._add("device", row | columns | {"derived": derived})

    def _add(self, table, row):
        self.rows[table].append(row)
        return len(self.rows[table]) - 1

    def _column(self, rows, name):
        default = -1 if name in ABSENT else 0
        values = [row.get(name, default) for row in rows]
        if name in STRING_COLUMNS:
            return [self.strings.intern(v) if isinstance(v, str) else v for v in values]
        return values

    def explained(self, **parts) -> Explained:
        specs = {"ranges": schema.RANGES, "calls": schema.CALLS, "device": schema.DEVICE}
        tables = {
            name: Table(spec, {column: self._column(self.rows[name], column) for column in spec})
            for name, spec in specs.items()
        }
        small = {
            "threads": (schema.THREADS, self.threads),
            "streams": (schema.STREAMS, self.streams),
            "kernel_details": (schema.KERNEL_DETAILS, self.details),
            "samples": (schema.SAMPLES, self.samples),
        }
        for name, (spec, rows) in small.items():
            tables[name] = Table(spec, {column: [row[column] for row in rows] for column in spec})
        trace = TraceData(**tables, strings=self.strings, **(self.parts | parts))
        derived = self._derived(trace)
        later = {name: derived.pop(name) for name in LATER}
        explained = Explained(trace, **derived, step_open=None, range_levels=())
        explained.__dict__.update(later)
        return explained

    def _derived(self, trace):
        owners = {"range": "ranges", "call": "calls", "device": "device", "step": None}
        names = [field.name for field in dataclasses.fields(Explained)[1:-2]]
        plain = {
            "range_name": trace.ranges["name"],
            "range_flags": trace.ranges["flags"],
            "range_depth": np.zeros(trace.ranges.rows, np.int32),
            "range_kind": np.zeros(trace.ranges.rows, np.uint8),
            "range_guessed": np.zeros(trace.ranges.rows, np.bool_),
            "device_how": np.zeros(trace.device.rows, np.uint8),
        }
        columns = {}
        for name in [*names, *LATER]:
            rows = self.rows.get(owners[name.split("_")[0]], [])
            column = plain.get(name, np.full(len(rows), -1, np.int32)).copy()
            for place, row in enumerate(rows):
                if name in row.get("derived", {}):
                    column[place] = row["derived"][name]
            columns[name] = column
        return columns


@pytest.fixture
def capture() -> Capture:
    made = Capture()
    made.thread(made.process(100, name="python", rank=0), 100, "main")
    made.parts["devices"] = (Device(0, "NVIDIA A100"),)
    made.stream(0, 7)
    return made


def read(path):
    """The file as strict JSON, decimals kept exact."""

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return json.loads(data.decode("utf-8"), parse_constant=refuse, parse_float=Decimal)


def events(path, phases="X"):
    return [event for event in read(path)["traceEvents"] if event["ph"] in phases]


def lane_names(path):
    """Name of the process and of the thread of each (pid, tid)."""
    metadata = events(path, "M")
    names = {e["pid"]: e["args"]["name"] for e in metadata if e["name"] == "process_name"}
    return {
        (e["pid"], e["tid"]): (names[e["pid"]], e["args"]["name"])
        for e in metadata
        if e["name"] == "thread_name"
    }


def lanes_by_slice(path):
    names = lane_names(path)
    return {event["name"]: names[event["pid"], event["tid"]][1] for event in events(path, "Xi")}


LOST = "select name from stats where severity in ('error', 'data_loss') and value > 0"
SLICES = "select name, ts, dur from slice"
ARROWS = (
    "select a.name as call, b.name as kernel from flow"
    " join slice a on slice_out = a.id join slice b on slice_in = b.id order by b.name"
)
COUNTERS = (
    "select p.name as process, t.name as name, ts, value from counter c"
    " join process_counter_track t on c.track_id = t.id join process p using (upid)"
    " order by ts, value desc"
)


def survivors(perfetto, path, written):
    """What Perfetto has of slices, names that arrows join, and counters, once nothing is lost."""
    lost, slices, arrows, counters = perfetto.query(path, LOST, SLICES, ARROWS, COUNTERS)
    assert lost == []
    assert len(slices) == written.slices
    assert len(arrows) == written.flows
    assert len(counters) == written.counters
    return (
        Multiset(tuple(row.values()) for row in slices),
        [tuple(row.values()) for row in arrows],
        [tuple(row.values()) for row in counters],
    )


def given_slices(capture):
    return Multiset(
        (row["name"], row["start"], row["end"] - row["start"])
        for rows in capture.rows.values()
        for row in rows
    )


def test_every_slice_survives_in_perfetto(capture, perfetto, tmp_path):
    for name, start, end in [
        ("crossed", 0, 100),
        ("crossing", 50, 150),
        ("twin", 200, 300),
        ("twin", 200, 300),
        ("touching", 300, 310),
        ("instantaneous", 200, 200),
        ("instantaneous", 250, 250),
        ("instantaneous", 250, 250),
        ("at the end", 310, 310),
    ]:
        capture.range(name, start, end)
    for start in range(3):
        capture.range("request", 10 * start, 10 * start + 25, style=RangeStyle.START_END)
    capture.mark("epoch", 50)
    capture.call("cudaMalloc", 60, 120)
    for start, end in [(400, 500), (450, 460), (450, 600), (600, 600), (600, 600), (600, 650)]:
        capture.kernel("gemm", start, end)
    path = tmp_path / "out.json"
    written = chrome.write(capture.explained(), path)
    slices, *_ = survivors(perfetto, path, written)
    assert slices == given_slices(capture)
    assert written.slices == 9 + 3 + 1 + 1 + 6


def test_arrows_join_each_kernel_with_its_own_call(capture, perfetto, tmp_path):
    # Names of calls and kernels say which belong together, whatever else starts with them.
    capture.range("step", 10, 900)
    plain = capture.call("A", 10, 40)
    graph = capture.call("B", 50, 80)
    outer = capture.call("C", 100, 140)
    inner = capture.call("D", 100, 120)
    empty = capture.call("E", 150, 150)
    capture.call("after E", 150, 160)
    capture.range("within F", 200, 210)
    long = capture.call("F", 200, 220)
    capture.mark("during F", 200)
    late = capture.call("G", 300, 310)
    around = capture.call("H", 350, 360)
    twins = [capture.call(name, 350, 350) for name in "IJ"]
    second = capture.stream(0, 13)
    capture.kernel("A", 20, 30, call=plain)
    for start in (60, 70, 80):
        capture.kernel("B", start, start + 10, call=graph)
    capture.kernel("B", 62, 70, second, call=graph)
    capture.kernel("C", 130, 140, call=outer)
    capture.kernel("D", 140, 150, call=inner)
    capture.kernel("E", 150, 150, call=empty)
    capture.kernel("F", 205, 210, call=long)
    capture.kernel("G", 290, 330, call=late)  # began before its call did, by the two clocks
    capture.kernel("H", 360, 370, call=around)
    for name, call in zip("IJ", twins, strict=True):
        capture.kernel(name, 380, 380, call=call)
    capture.kernel("no call", 400, 410)
    path = tmp_path / "out.json"
    written = chrome.write(capture.explained(), path)
    slices, arrows, _ = survivors(perfetto, path, written)
    assert slices == given_slices(capture)
    assert arrows == [(name, name) for name in "ABBBBCDEFGHIJ"]
    starts, ends = events(path, "s"), events(path, "f")
    assert {e["id"]: e["ts"] for e in starts}.keys() == {e["id"] for e in ends}
    assert len({e["id"] for e in starts}) == len(starts) == 13
    assert all(e["bp"] == "e" for e in ends)


def test_arrows_between_ranges_join_just_those(capture, perfetto, tmp_path):
    # what lies inside starts with them, to the nanosecond
    outer, inner = capture.range("A", 0, 50), capture.range("B", 0, 40)
    capture.call("launch", 0, 30)
    other = capture.thread(0, 200)
    around, function = capture.range("a", 100, 200, other), capture.range("b", 100, 150, other)
    empty, again = capture.range("e", 210, 210, other), capture.range("f", 210, 230, other)
    capture.kernel("launch", 60, 70, call=0)
    forward = np.array([outer, inner, inner, inner])
    backward = np.array([around, function, empty, again])
    path = tmp_path / "out.json"
    written = chrome.write(capture.explained(), path, links=(forward, backward))
    slices, arrows, _ = survivors(perfetto, path, written)
    assert slices == given_slices(capture)
    assert arrows == [("A", "a"), ("B", "b"), ("B", "e"), ("B", "f"), ("launch", "launch")]
    assert {e["cat"] for e in events(path, "sf")} == {"fwdbwd", "launch"}
    without = chrome.write(
        capture.explained(), path, links=(forward, backward), rows={"ranges": np.arange(6) != 3}
    )
    assert (without.flows, without.omitted) == (4, 2)
    assert chrome.write(capture.explained(), path, layers=["ranges"]).flows == 0


def test_an_arrow_that_would_go_back_in_time_is_counted_not_drawn(capture, tmp_path):
    call = capture.call("cudaLaunchKernel", 100, 110)
    capture.kernel("over", 50, 60, call=call)
    capture.kernel("fine", 120, 130, call=call)
    path = tmp_path / "out.json"
    written = chrome.write(capture.explained(), path)
    assert (written.flows, written.omitted, written.slices) == (1, 1, 3)
    assert read(path)["otherData"]["omitted_by_layer"] == {"flows": 1}


def test_a_nest_of_a_thousand_keeps_slices_and_arrows(capture, perfetto, tmp_path):
    depth = 1007
    for level in range(depth):
        call = capture.call(f"{level:04}", level, 3 * depth - level)
        capture.kernel(f"{level:04}", 4000 + level, 4001 + level, call=call)
    path = tmp_path / "out.json"
    written = chrome.write(capture.explained(), path)
    slices, arrows, _ = survivors(perfetto, path, written)
    assert slices == given_slices(capture)
    assert arrows == [(f"{level:04}", f"{level:04}") for level in range(depth)]


def test_the_file_is_strict_and_in_microseconds(capture, tmp_path):
    day = 86_400_000_000_000
    capture.range("long", 1, day + 123)
    capture.range("short", day, day + 1)
    capture.kernel("k", 5_000, 5_999)
    path = tmp_path / "out.json"
    chrome.write(capture.explained(), path)
    content = read(path)
    assert set(content) == {"displayTimeUnit", "otherData", "traceEvents"}
    assert content["displayTimeUnit"] == "ns"
    assert {e["name"]: (e["ts"] * 1000, e["dur"] * 1000) for e in events(path)} == {
        "long": (1, day + 122),
        "short": (day, 1),
        "k": (5_000, 999),
    }
    text = path.read_text()
    numbers = re.findall(r'"(?:ts|dur)": *([^,}]*)', text)
    assert len(numbers) == 6
    assert all(re.fullmatch(r"(0|[1-9]\d*)\.\d{3}", number) for number in numbers)
    assert all(isinstance(e["args"], dict) for e in content["traceEvents"])


def test_times_before_the_zero_move_the_zero(capture, perfetto, tmp_path):
    capture.range("early", -700, -500)
    capture.range("late", 300, 400)
    path = tmp_path / "out.json"
    written = chrome.write(capture.explained(origin_unix_ns=10_000), path)
    slices, *_ = survivors(perfetto, path, written)
    assert slices == Multiset([("early", 0, 200), ("late", 1000, 100)])
    assert read(path)["otherData"]["time_zero_unix_ns"] == 9_300


def test_a_range_that_ends_before_it_starts_is_an_instant(capture, tmp_path):
    capture.range("reversed", 50, 40, flags=RangeFlag.REVERSED)
    path = tmp_path / "out.json"
    assert chrome.write(capture.explained(), path).slices == 1
    (event,) = events(path)
    assert (event["dur"], event["args"]["reversed"]) == (0, True)


def test_lanes_are_numbered_named_and_sorted(capture, perfetto, tmp_path):
    again = capture.process(100, name="python", rank=1)  # the same pid on another host
    strange = capture.process(2**32)
    capture.parts["devices"] += (Device(1, None),)
    capture.thread(again, 100)
    capture.thread(strange, 0)
    capture.thread(0, 105, "loader")
    capture.thread(0, 99)
    streams = [0, capture.stream(0, 13), capture.stream(0, 0, context=0)]
    streams += [capture.stream(again, 7), capture.stream(again, 7, device=1)]
    for thread in range(5):
        capture.range(f"range {thread}", 0, 10, thread)
    capture.range("crossing", 5, 15)
    capture.range("request", 0, 9, style=RangeStyle.START_END)
    for stream in streams:
        capture.kernel(f"kernel {stream}", 0, 10, stream)
    capture.kernel("overlapping", 5, 15)
    path = tmp_path / "out.json"
    written = chrome.write(capture.explained(), path)
    survivors(perfetto, path, written)
    names = lane_names(path)
    processes = {pid for pid, _ in names}
    assert len({tid for _, tid in names}) == len(names)
    assert {(e["pid"], e["tid"]) for e in events(path)} == set(names)
    assert all(0 < number < 2**32 for lane in names for number in lane)
    assert list(names.values()) == [
        ("python (pid 100, rank 0)", "thread 100: main"),
        ("python (pid 100, rank 0)", "thread 100: main #2"),
        ("python (pid 100, rank 0)", "thread 100: main start/end"),
        ("python (pid 100, rank 0)", "thread 99"),
        ("python (pid 100, rank 0)", "thread 105: loader"),
        ("python (pid 100, rank 1)", "thread 100"),
        ("process (pid 4294967296)", "thread 0"),
        ("GPU 0: NVIDIA A100 (pid 100, rank 0)", "stream 0 (unified memory)"),
        ("GPU 0: NVIDIA A100 (pid 100, rank 0)", "stream  7"),
        ("GPU 0: NVIDIA A100 (pid 100, rank 0)", "stream  7 #2"),
        ("GPU 0: NVIDIA A100 (pid 100, rank 0)", "stream 13"),
        ("GPU 0: NVIDIA A100 (pid 100, rank 1)", "stream 7"),
        ("GPU 1 (pid 100, rank 1)", "stream 7"),
    ]
    assert (100, 100) in names
    assert (100, 105) in names
    order = [e for e in events(path, "M") if e["name"] == "process_sort_index"]
    assert [e["args"]["sort_index"] for e in order] == list(range(len(processes)))
    assert sorted(processes) == [e["pid"] for e in order]


def test_what_nests_shares_its_threads_lane(capture, tmp_path):
    capture.range("range", 0, 100)
    capture.call("inside", 10, 20)
    capture.call("across the end", 90, 110)
    capture.range("after", 110, 120)
    capture.range("paired", 10, 115, style=RangeStyle.START_END)
    capture.mark("mark", 95)
    capture.kernel("kernel", 0, 100)
    capture.kernel("within it", 10, 20)
    capture.kernel("touching it", 100, 120)
    path = tmp_path / "out.json"
    chrome.write(capture.explained(), path)
    assert lanes_by_slice(path) == {
        "range": "thread 100: main",
        "inside": "thread 100: main",
        "across the end": "thread 100: main #2",
        "after": "thread 100: main",
        "paired": "thread 100: main start/end",
        "mark": "thread 100: main",
        "kernel": "stream 7",
        "within it": "stream 7 #2",
        "touching it": "stream 7",
    }


def test_args_of_ranges(capture, tmp_path):
    capture.parts |= {"domains": (Domain(0, ""), Domain(0, "NCCL")), "categories": ("io",)}
    other = capture.thread(0, 200)
    capture.range("plain", 0, 9)
    capture.range(
        "aten::mm, seq = 5",
        0,
        8,
        domain=1,
        category=0,
        color=0xFF00FF7F,
        flags=RangeFlag.UNFINISHED | RangeFlag.CROSSING,
        text='{"bytes": 4}',
        payload_type=PayloadType.UINT,
        payload=-1,
        derived={
            "range_kind": RangeKind.OPERATOR,
            "range_guessed": True,
            "range_depth": 1,
            "range_step": 12,
            "range_attributes": capture.strings.intern("seq = 5"),
        },
    )
    half = int(np.array([0.5]).view(np.int64)[0])
    nan = int(np.array([np.nan]).view(np.int64)[0])
    capture.range("there", 0, 3, style=RangeStyle.START_END, end_thread=other)
    capture.range("integer", 0, 2, payload_type=PayloadType.INT, payload=-7)
    capture.mark("float", 1, payload_type=PayloadType.FLOAT, payload=half)
    capture.mark("nan", 1, payload_type=PayloadType.FLOAT, payload=nan)
    path = tmp_path / "out.json"
    chrome.write(capture.explained(), path)
    args = {event["name"]: event["args"] for event in events(path, "Xi")}
    plain = {"kind": "user", "depth": 0}
    assert args == {
        "plain": plain,
        "aten::mm, seq = 5": {
            "kind": "operator",
            "guessed": True,
            "domain": "NCCL",
            "category": "io",
            "color": "#00ff7f",
            "unfinished": True,
            "crossing": True,
            "depth": 1,
            "step": 12,
            "payload": 2**64 - 1,
            "attributes": "seq = 5",
            "text": '{"bytes": 4}',
        },
        "there": plain | {"end_thread": 200},
        "integer": plain | {"payload": -7},
        "float": plain | {"payload": Decimal("0.5")},
        "nan": plain | {"payload": "nan"},
    }


def test_args_of_calls_and_device_rows(capture, tmp_path):
    outer = capture.range("step 3", 0, 90)
    inner = capture.range("mm", 10, 80, derived={"range_parent": outer, "range_depth": 1})
    capture.call("cudaLaunchKernel", 20, 30, correlation=41, derived={"call_step": 3})
    capture.call("cudaFree", 40, 50)
    capture.kernel(
        "void gemm<float>(float*)",
        30,
        70,
        short_name="gemm",
        correlation=41,
        graph_node=2**33,
        derived={
            "device_range": inner,
            "device_how": schema.Attribution.THREAD,
            "device_step": 3,
            "device_capture": outer,
        },
    )
    grid = {"grid_x": 10, "grid_y": 2, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1}
    sizes = {"registers": 40, "static_shared": 0, "dynamic_shared": 49152}
    capture.details.append({"row": 0} | grid | sizes)
    copy = {"kind": DeviceKind.MEMCPY, "copy_kind": 1}
    capture.kernel("Memcpy HtoD", 70, 74, bytes=1_000_000, **copy)
    capture.kernel("instant copy", 80, 80, bytes=8, **copy)
    capture.kernel("Memset", 90, 99, kind=DeviceKind.MEMSET)
    path = tmp_path / "out.json"
    chrome.write(capture.explained(), path)
    shown = {event["name"]: event for event in events(path)}
    assert shown["cudaLaunchKernel"]["args"] == {"thread": 100, "correlation": 41, "step": 3}
    assert shown["cudaFree"]["args"] == {"thread": 100}
    on_stream = {"stream": 7, "context": 1, "device": 0}
    assert shown["gemm"]["cat"] == "kernel"
    assert shown["gemm"]["args"] == on_stream | {
        "full_name": "void gemm<float>(float*)",
        "correlation": 41,
        "step": 3,
        "graph_node": 2**33,
        "grid": [10, 2, 1],
        "block": [256, 1, 1],
        "registers_per_thread": 40,
        "static_shared_bytes": 0,
        "dynamic_shared_bytes": 49152,
        "attribution": "thread",
        "range": "step 3 / mm",
        "captured_in": "step 3",
    }
    # 1,000,000 bytes in 4 ns are 250,000 GB/s.
    unattributed = on_stream | {"attribution": "none"}
    assert shown["Memcpy HtoD"]["cat"] == "memcpy"
    assert shown["Memcpy HtoD"]["args"] == unattributed | {
        "copy_kind": schema.COPY_KINDS[1],
        "bytes": 1_000_000,
        "bandwidth_gb_per_s": 250_000,
    }
    assert shown["instant copy"]["args"] == unattributed | {
        "copy_kind": schema.COPY_KINDS[1],
        "bytes": 8,
    }
    assert shown["Memset"]["args"] == unattributed


def test_a_long_path_keeps_both_ends(capture, tmp_path):
    for depth in range(40):
        capture.range(
            f"r{depth}", 0, 100, derived={"range_parent": depth - 1, "range_depth": depth}
        )
    capture.kernel("k12", 0, 1, derived={"device_range": 11})
    capture.kernel("k40", 1, 2, derived={"device_range": 39})
    path = tmp_path / "out.json"
    chrome.write(capture.explained(), path)
    paths = {e["name"]: e["args"]["range"] for e in events(path) if e["cat"] == "kernel"}
    assert paths == {
        "k12": " / ".join(f"r{depth}" for depth in range(12)),
        "k40": "r0 / r1 / r2 / r3 / r4 / r5 / ... / r34 / r35 / r36 / r37 / r38 / r39",
    }


def test_names_of_all_kinds(capture, perfetto, tmp_path):
    names = [
        '"quoted" \\ and /',
        "two\nlines\tand a tab",
        "Größe 学習 🚀",
        "bell\x07",
        "n" * 70_000,
    ]
    for place, name in enumerate(names):
        outer = capture.range(name, 10 * place, 10 * place + 9)
        capture.kernel(name, 10 * place, 10 * place + 5, derived={"device_range": outer})
    capture.range("byte \udcff", 90, 99)
    path = tmp_path / "out.json.gz"
    written = chrome.write(capture.explained(), path)
    shown = {event["ts"]: event["name"] for event in events(path) if event["cat"] == "range"}
    assert [shown[ts] for ts in sorted(shown)] == [*names, "byte \\xff"]
    slices, *_ = survivors(perfetto, path, written)
    assert sum(slices.values()) == 11
    assert slices["n" * 70_000, 40, 9] == slices["Größe 学習 🚀", 20, 5] == 1


def test_counters_have_one_value_each(capture, perfetto, tmp_path):
    counters = (Counter("memory used", "B", device=0), Counter("load", "", process=0))
    for time, counter, value in [(0, 0, 1e9), (5, 0, 0.1), (5, 1, -2.5), (9, 0, np.nan)]:
        capture.samples.append({"time": time, "counter": counter, "value": value})
    path = tmp_path / "out.json"
    written = chrome.write(capture.explained(counters=counters), path)
    assert (written.counters, written.omitted) == (3, 1)
    *_, values = survivors(perfetto, path, written)
    gpu, host = "GPU 0: NVIDIA A100 (pid 100, rank 0)", "python (pid 100, rank 0)"
    assert values == [
        (gpu, "memory used (B) value", 0, 1e9),
        (gpu, "memory used (B) value", 5, 0.1),
        (host, "load value", 5, -2.5),
    ]


@pytest.fixture
def small(capture) -> Explained:
    """A range, a mark, two calls, two kernels with arrows: 100 ns each but for the mark."""
    capture.range("range", 0, 100)
    capture.mark("mark", 50)
    for start in (0, 1000):
        call = capture.call("launch", start, start + 100)
        capture.kernel(f"kernel {start}", start + 200, start + 300, call=call)
    return capture.explained()


@pytest.mark.parametrize(
    ("selection", "slices", "flows", "omitted"),
    [
        ({}, 6, 2, 0),
        ({"layers": ["ranges"]}, 1, 0, 0),
        ({"layers": ["marks", "device", "flows"]}, 3, 0, 0),
        ({"layers": ["calls", "device", "flows"]}, 4, 2, 0),
        ({"minimum_ns": 100}, 6, 2, 0),
        ({"minimum_ns": 101}, 1, 0, 5),
        # What touches the window is whole: the kernel at 200 to 300 is, the calls are not.
        ({"window": (299, 1000)}, 1, 0, 6),
        ({"window": (300, 1000)}, 0, 0, 6),
        ({"window": (50, 51)}, 3, 0, 3),
        ({"rows": {"calls": np.array([True, False])}}, 5, 1, 2),
        ({"rows": {"ranges": np.array([False, True]), "device": np.zeros(2, bool)}}, 3, 0, 3),
    ],
)
def test_what_is_left_out_is_counted(small, tmp_path, selection, slices, flows, omitted):
    path = tmp_path / "out.json"
    written = chrome.write(small, path, **selection)
    assert (written.slices, written.flows, written.omitted) == (slices, flows, omitted)
    assert len(events(path, "Xi")) == slices
    assert len(events(path, "s")) == len(events(path, "f")) == flows
    assert len(read(path)["traceEvents"]) == written.events
    assert read(path)["otherData"]["omitted_events"] == omitted
    assert written.bytes == path.stat().st_size


def test_the_file_says_where_its_times_come_from(capture, tmp_path):
    source = Source("rank0.sqlite", "Nsight Systems 2025.1", "3.17", offset_ns=1500)
    explained = capture.explained(sources=(source,), notes=(Note("clock", "aligned by hand"),))
    path = tmp_path / "out.json"
    chrome.write(explained, path, window=(5, 9), minimum_ns=2)
    assert read(path)["otherData"] == {
        "writer": "nvtrace",
        "omitted_events": 0,
        "omitted_by_layer": {},
        "window_ns": [5, 9],
        "minimum_ns": 2,
        "time_zero_unix_ns": None,
        "sources": [
            {"name": "rank0.sqlite", "product": "Nsight Systems 2025.1", "offset_ns": 1500}
        ],
        "notes": [{"code": "clock", "message": "aligned by hand"}],
    }


def test_nothing_to_show_is_a_valid_file(perfetto, tmp_path):
    path = tmp_path / "out.json"
    written = chrome.write(Capture().explained(), path)
    assert written.events == 0
    assert read(path)["traceEvents"] == []
    survivors(perfetto, path, written)


def test_gzip_by_suffix_and_open_files_hold_the_same(small, tmp_path):
    plain, zipped, stream = tmp_path / "out.json", tmp_path / "out.json.gz", io.BytesIO()
    written = chrome.write(small, plain)
    assert chrome.write(small, zipped).bytes == zipped.stat().st_size
    assert chrome.write(small, stream).bytes == written.bytes
    assert gzip.decompress(zipped.read_bytes()) == plain.read_bytes() == stream.getvalue()


def test_progress_is_told(small, tmp_path):
    told = []
    chrome.write(small, tmp_path / "out.json", progress=told.append)
    assert told == ["timeline: 50 %", "timeline: 66 %", "timeline: 100 %"]


def test_an_unknown_layer_is_refused(small, tmp_path):
    with pytest.raises(UsageError, match=r"unknown layer kernels; there are ranges, calls"):
        chrome.write(small, tmp_path / "out.json", layers=["kernels", "calls"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["out.json", "out.json.gz"])
def test_what_fails_leaves_the_old_file_alone(small, tmp_path, monkeypatch, name):
    path = tmp_path / name
    path.write_bytes(b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OutputError, match=r"^cannot write [^\n]*No space left on device[^\n]*$"):
        chrome.write(small, path)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [(name, b"old")]


@pytest.mark.parametrize("name", ["out.json", "out.json.gz"])
def test_a_full_disk_is_one_line(small, tmp_path, name):
    path = tmp_path / name
    path.symlink_to("/dev/full")
    with pytest.raises(OutputError, match=r"^cannot write [^\n]*No space left on device[^\n]*$"):
        chrome.write(small, path)


def test_a_folder_that_is_missing_is_one_line(small, tmp_path):
    with pytest.raises(OutputError, match=r"^cannot write [^\n]*create the folder first$"):
        chrome.write(small, tmp_path / "missing" / "out.json.gz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["out.pftrace", "out.pftrace.gz"])
def test_perfettos_own_format_survives_what_is_simultaneous(capture, perfetto, tmp_path, name):
    for title, start, end in [
        ("outer", 0, 100),
        ("twin", 0, 100),
        ("crossing", 50, 150),
        ("before", 200, 210),
        ("touching", 210, 220),
        ("empty between", 210, 210),
        ("empty inside", 215, 215),
        ("empty twin", 215, 215),
        ("empty at the end", 220, 220),
        ("day", 300, 300 + 86_400_000_000_000),
    ]:
        capture.range(title, start, end)
    capture.mark("mark", 210)
    graph = capture.call("graph", 400, 450)
    late = capture.call("late", 500, 510)
    for start, end in [(450, 460), (460, 470), (460, 460), (470, 480)]:
        capture.kernel("graph", start, end, call=graph)
    capture.kernel("late", 490, 530, call=late)  # began before its call did, by the two clocks
    capture.kernel("alone", 530, 540)
    large = {"payload_type": PayloadType.UINT, "payload": -1}
    capture.range("A", 600, 610, **large, derived={"range_step": 2**27})
    capture.range("a", 700, 710, text='Größe " 🚀', payload_type=PayloadType.INT, payload=2**50)
    capture.samples.append({"time": 5, "counter": 0, "value": -2.5})
    counters = (Counter("load", "%", process=0),)
    links = np.array([11]), np.array([12])
    path = tmp_path / name
    written = chrome.write(capture.explained(counters=counters), path, links=links)
    slices, arrows, values = survivors(perfetto, path, written)
    assert slices == given_slices(capture)
    assert arrows == [("A", "a"), *[("graph", "graph")] * 4, ("late", "late")]
    assert values == [("python (pid 100, rank 0)", "load (%)", 5, -2.5)]
    (args,) = perfetto.query(
        path,
        "select s.name, a.key, a.string_value as text, a.int_value as number from slice s"
        " join args a using (arg_set_id) where key in"
        " ('debug.payload', 'debug.text', 'debug.step')",
    )
    assert {(row["name"], row["key"]): row["text"] or row["number"] for row in args} == {
        ("A", "debug.payload"): -1,  # all 64 bits set, which SQL takes for that
        ("A", "debug.step"): 2**27,
        ("a", "debug.payload"): 2**50,
        ("a", "debug.text"): 'Größe " 🚀',
    }


@pytest.mark.parametrize("rows", [3, 7])
def test_stretches_of_time_of_any_size_hold_the_same(capture, tmp_path, monkeypatch, rows):
    generator = np.random.default_rng(5)
    for start, length, kind in generator.integers(0, (200, 30, 3), (120, 3)).tolist():
        if kind == 0:
            capture.range(f"r{length}", start, start + length)
        elif kind == 1:
            capture.call(f"c{length}", start, start + length)
        else:
            capture.kernel(f"k{length}", start, start + length)
    whole, parts = tmp_path / "whole.json", tmp_path / "parts.json"
    chrome.write(capture.explained(), whole)
    for module in (chrome_order, chrome_layout):
        monkeypatch.setattr(module, "STRETCH_ROWS", rows)
    chrome.write(capture.explained(), parts)

    def content(path):
        return Multiset(str(sorted(event.items())) for event in events(path, "XM"))

    assert content(parts) == content(whole)
