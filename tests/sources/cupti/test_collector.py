"""A whole capture, against a stand-in for CUPTI that cupti-python itself drives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Double = Callable[..., Any]

# launches on each of three threads; per launch a call and a kernel, every 10th a copy, every 100th
# a memset: so the stand-in makes them
LAUNCHES = 20_000
CAPTURE = f"""
collector = Collector(buffer_bytes=1 << 16)
collector.start()
work = collector._control.library.handle.double_work
work(3, ctypes.c_long({LAUNCHES}))
collector.flush()
activity = collector.stop()
"""
REFUSED = """
try:
    Collector({arguments}).start()
except CollectorUnavailable as error:
    print(json.dumps([error.verdict, str(error)]))
"""


def refused(double: Double, arguments: str = "", **environment: str) -> tuple[str, str]:
    verdict, reason = double(REFUSED.format(arguments=arguments), **environment)
    assert "\n" not in reason
    return verdict, reason


def log(tmp_path: Path) -> list[str]:
    return (tmp_path / "log").read_text().splitlines()


def test_every_launch_arrives_with_its_fields(double: Double) -> None:
    got = double(
        CAPTURE
        + """
from nvtrace.model.schema import DeviceKind
calls, device, details = activity.calls, activity.device, activity.details
kernels = device["kind"] == DeviceKind.KERNEL
copies = device["kind"] == DeviceKind.MEMCPY
by_call = np.argsort(calls["correlation"])
start = np.zeros(len(by_call) + 1, np.int64)
start[calls["correlation"][by_call]] = calls["start"][by_call]
after = (device["start"] - start[device["correlation"]])
shape = {name: details[name][np.argsort(details["row"])] for name in details}
text = activity.strings
print(json.dumps({
    "calls": len(calls["start"]),
    "ids": bool((np.sort(calls["correlation"]) == np.arange(1, len(by_call) + 1)).all()),
    "call names": [text[n] for n in np.unique(calls["name"])],
    "threads": np.unique(calls["thread_id"], return_counts=True)[1].tolist(),
    "thread ids": np.unique(calls["thread_id"]).tolist(),
    "took": np.unique(calls["end"] - calls["start"]).tolist(),
    "kinds": np.bincount(device["kind"]).tolist(),
    "after": [sorted(set(after[device["kind"] == k].tolist())) for k in range(3)],
    "kernel took": np.unique((device["end"] - device["start"])[kernels]).tolist(),
    "names": sorted({text[n] for n in device["name"][kernels]}),
    "short": sorted({text[n] for n in device["short_name"][kernels]}),
    "others": sorted({text[n] for n in device["name"][~kernels]}),
    "streams": np.unique(device["stream"]).tolist(),
    "bytes": [int(device["bytes"][copies].min()), int(device["bytes"][copies].max())],
    "no bytes": np.unique(device["bytes"][kernels]).tolist(),
    "copy kinds": np.unique(device["copy_kind"][copies]).tolist(),
    "nodes": np.unique(device["graph_node"][kernels]).tolist(),
    "rows": bool((np.sort(details["row"]) == np.flatnonzero(kernels)).all()),
    "grid x": [int(details["grid_x"].min()), int(details["grid_x"].max())],
    "shape": {n: np.unique(v).tolist() for n, v in shape.items() if n not in ("row", "grid_x")},
    "sorted": bool((np.diff(device["start"]) >= 0).all() and (np.diff(calls["start"]) >= 0).all()),
    "devices": [[d.name, d.uuid, d.bus_id, d.memory_bytes, d.sm_count] for d in activity.devices],
    "lost": [activity.lost_buffers, activity.lost_records, activity.dropped_records],
    "untimed": activity.untimed,
    "notes": [n.code for n in activity.notes],
    "recorded": sorted(activity.kinds),
}))
"""
    )
    total = 3 * LAUNCHES
    assert got["calls"] == total
    assert got["ids"]
    assert got["call names"] == ["cudaLaunchKernel"]
    assert got["threads"] == [LAUNCHES] * 3
    assert got["thread ids"] == [1000, 1001, 1002]
    assert got["took"] == [5]
    assert got["kinds"] == [total, total // 10, total // 100]
    assert got["after"] == [[10], [40], [60]]
    assert got["kernel took"] == list(range(20, 27))
    assert got["names"] == ["plain_kernel", "void app::step<float>(float*, int)"]
    assert got["short"] == ["plain_kernel", "step"]
    assert got["others"] == ["[CUDA memcpy Host-to-Device]", "[CUDA memset]"]
    assert got["streams"] == [7, 8, 9]
    assert got["bytes"] == [4096, 4096 + LAUNCHES - 10]
    assert got["no bytes"] == [-1]
    assert got["copy kinds"] == [1]
    assert got["nodes"] == [0, 900, 901, 902]
    assert got["rows"]
    assert got["grid x"] == [1, 1000]
    assert got["shape"] == {
        "grid_y": [2],
        "grid_z": [3],
        "block_x": [128],
        "block_y": [4],
        "block_z": [5],
        "registers": [32],
        "static_shared": [48],
        "dynamic_shared": [1024],
    }
    assert got["sorted"]
    uuid = "GPU-00102030-4050-6070-8090-a0b0c0d0e0f0"
    assert got["devices"] == [["Double 0", uuid, "0000:01:00.0", 1 << 30, 132]]
    assert got["lost"] == [0, 0, 0]
    assert got["untimed"] == 0
    assert got["notes"] == []
    assert got["recorded"] == ["driver", "kernel", "memcpy", "memset", "overhead", "runtime"]


def test_cupti_is_switched_in_order(double: Double, tmp_path: Path) -> None:
    double(CAPTURE)
    # subscribed before all else, under its name; memory before kinds; silent queries; driver calls
    # that launch, and no driver kind (4); at the end a gentle flush before, a forced one after
    assert log(tmp_path) == [
        *("subscribe 0", "nvtrace 32", "register 0"),
        *("enable 5", "runtime-off 16", "runtime-off 17"),
        *("driver 307", "driver 514"),
        *("enable 10", "enable 1", "enable 22", "enable 2", "enable 17"),
        *("flush 0", "flush 0"),
        *("driver-off 307", "driver-off 514"),
        *("disable 5", "disable 10", "disable 1", "disable 22", "disable 2", "disable 17"),
        *("flush 1", "unsubscribe 0"),
    ]


def test_graph_level_is_enabled_before_kernels(double: Double, tmp_path: Path) -> None:
    got = double(
        """
collector = Collector(kinds=("kernel",), graphs="graph")
collector.start()
start = time.time_ns()
bytes_ = np.array([51, 9, 0, 0, 0, 0, 0, 4, 1, 7, 0, 0, 0, 0], "<u4")
bytes_[2:6].view("<u8")[:] = [start, start + 70]
collector._control.library.handle.double_record(bytes_.ctypes.data_as(ctypes.c_void_p))
activity = collector.stop()
row = {name: column.tolist() for name, column in activity.device.items()}
row["name"] = activity.strings[row["name"][0]]
row["start"] = row["start"][0] - start
row["end"] = row["end"][0] - start
print(json.dumps([activity.graph_level, row, len(activity.calls["start"])]))
"""
    )
    assert got[0] is True
    row = got[1]
    assert (row["start"], row["end"], row["name"]) == (0, 70, "[CUDA graph 4]")
    assert (row["kind"], row["correlation"], row["stream"], row["context"]) == ([3], [9], [7], [1])
    assert got[2] == 0
    enabled = [line for line in log(tmp_path) if line.startswith("enable")]
    assert enabled == ["enable 51", "enable 10"]


def test_the_holder_is_named(double: Double) -> None:
    verdict, reason = refused(double, DOUBLE_HELD="Nsight Compute")
    assert verdict == "busy"
    assert "CUPTI is held by Nsight Compute" in reason
    verdict, reason = refused(double, DOUBLE_HELD="")
    assert verdict == "busy"
    assert "another profiler in this process" in reason


def test_a_second_collector_is_told_of_the_first(double: Double) -> None:
    verdict, reason = double(
        """
first = Collector()
first.start()
try:
    Collector().start()
except CollectorUnavailable as error:
    print(json.dumps([error.verdict, str(error)]))
first.stop()
second = Collector()
second.start()
second.stop()
"""
    )
    assert verdict == "busy"
    assert "held" in reason


@pytest.mark.parametrize(
    ("code", "verdict", "words"),
    [
        ("35", "denied", "may not trace"),
        ("43", "denied", "MIG"),
        ("39", "busy", "held by another profiler"),
        ("999", "failed", "cannot be initialised"),
        ("8", "failed", "cuptiActivityEnable returned 8"),
    ],
)
def test_refusal_says_why_and_leaves_nothing_on(
    double: Double, tmp_path: Path, code: str, verdict: str, words: str
) -> None:
    got = refused(double, DOUBLE_REFUSE_KIND="1", DOUBLE_REFUSE_CODE=code)
    assert got[0] == verdict
    assert words in got[1]
    lines = log(tmp_path)
    on = {line.split()[1] for line in lines if line.startswith("enable ")} - {"1"}
    off = {line.split()[1] for line in lines if line.startswith("disable ")}
    assert on == off == {"5", "10"}
    assert lines[-1] == "unsubscribe 0"


def test_a_kind_that_is_not_supported_is_noted(double: Double) -> None:
    got = double(
        CAPTURE + "print(json.dumps([[n.code, n.message] for n in activity.notes]"
        " + [sorted(activity.kinds)]))",
        DOUBLE_REFUSE_KIND="17",
        DOUBLE_REFUSE_CODE="14",
    )
    assert got[0][0] == "kind_not_recorded"
    assert "overhead" in got[0][1]
    assert "overhead" not in got[1]


def test_nothing_that_can_be_recorded_is_an_error(double: Double) -> None:
    got = refused(double, 'kinds=("kernel",)', DOUBLE_REFUSE_KIND="10", DOUBLE_REFUSE_CODE="14")
    assert got[0] == "failed"


def test_beyond_the_budget_everything_is_counted(double: Double) -> None:
    got = double(
        """
collector = Collector(kinds=("kernel",), buffer_bytes=1 << 16, budget_bytes=1 << 20)
collector.start()
begin = time.time_ns()
collector._control.library.handle.double_work(2, ctypes.c_long(30000))
end = time.time_ns()
activity = collector.stop()
ids = np.sort(activity.device["correlation"])
print(json.dumps({
    "kept": len(ids), "lost": activity.lost_records, "buffers": activity.lost_buffers,
    "bytes": activity.lost_bytes, "notes": [n.code for n in activity.notes],
    "newest": int(ids[-1]), "median": int(np.median(ids)),
    "span": bool(begin <= activity.lost_span[0] < activity.lost_span[1] <= end),
}))
"""
    )
    assert got["kept"] + got["lost"] == 60_000
    assert got["bytes"] == got["lost"] * 216
    # 303 records of 216 bytes to a buffer of 64 KiB; 16 buffers in 1 MiB
    assert got["buffers"] == got["lost"] / 303
    assert 12 * 303 <= got["kept"] <= 16 * 303
    assert got["newest"] == 60_000
    assert got["median"] > 50_000, "the oldest give way"
    assert got["notes"] == ["records_lost"]
    assert got["span"]


def test_a_long_capture_stays_within_its_budget(double: Double) -> None:
    got = double(
        """
collector = Collector(kinds=("kernel",), buffer_bytes=1 << 16, budget_bytes=1 << 21)
collector.start()
work = collector._control.library.handle.double_work
most = 0
for _ in range(20):
    work(1, ctypes.c_long(5000))
    collector.flush()
    counts = collector._shim.counts()
    most = max(most, collector._decoder.bytes + counts.buffers * (1 << 16))
activity = collector.stop()
print(json.dumps([most, len(activity.device["start"]), activity.lost_records]))
"""
    )
    most, kept, lost = got
    assert kept + lost == 100_000
    assert lost > 0
    # four buffers stay however full the budget is, and each step rounds up to a whole one
    assert most < (1 << 21) + 8 * (1 << 16)


def test_what_cupti_dropped_is_reported(double: Double) -> None:
    got = double(
        CAPTURE
        + "print(json.dumps([activity.dropped_records] + [n.code for n in activity.notes]))",
        DOUBLE_DROPPED="12",
    )
    assert got == [12, "records_dropped"]


def test_untimed_and_unknown_records_are_counted(double: Double) -> None:
    got = double(
        """
collector = Collector(kinds=("kernel",))
collector.start()
handle = collector._control.library.handle
def plant(kind, start, end):
    words = np.zeros(54, "<u4")
    words[0] = kind
    words[4:8].view("<u8")[:] = [start, end]
    handle.double_record(words.ctypes.data_as(ctypes.c_void_p))
now = time.time_ns()
plant(10, now, now + 5)
plant(10, 0, 0)
plant(10, now, 0)
sizes = collector._decoder._sizes
plant(39, 0, 0)      # another client's kind: stepped over
plant(10, now + 1, now + 6)
sizes[39] = 0        # the same, in a library that does not tell its size
activity = collector.stop()
print(json.dumps([len(activity.device["start"]), activity.untimed, activity.unread_bytes,
                  [n.code for n in activity.notes]]))
"""
    )
    # behind the record of unknown size: itself, 24 bytes, and one kernel of 216
    assert got == [1, 2, 240, ["records_unread", "untimed"]]


def test_another_clients_clock_is_fitted(double: Double) -> None:
    got = double(
        """
begin = time.time_ns()
collector = Collector()
collector.start()
for _ in range(5):
    collector._control.library.handle.double_work(1, ctypes.c_long(1000))
    time.sleep(0.02)
    collector.flush()
activity = collector.stop()
end = time.time_ns()
starts = activity.calls["start"]
took = activity.device["end"] - activity.device["start"]
print(json.dumps([bool(begin <= starts.min()), bool(starts.max() <= end),
                  int(starts.max() - starts.min()), int(took.max()),
                  [n.code for n in activity.notes]]))
""",
        DOUBLE_TICKS="1",
    )
    assert got[:2] == [True, True]
    assert got[2] > 80_000_000
    assert 9 <= got[3] <= 12  # the longest kernel: 26 ticks at 2.5 a ns
    assert got[4] == ["foreign_clock"]


@pytest.mark.parametrize(("version", "later"), [("130001", ["graph_correlation"]), ("26", [])])
def test_graphs_of_later_captures_are_warned_of(
    double: Double, version: str, later: list[str]
) -> None:
    got = double(
        "said = []\n"
        + 2 * (CAPTURE + "said.append([n.code for n in activity.notes])\n")
        + "print(json.dumps(said))",
        DOUBLE_VERSION=version,
    )
    assert got == [[], later]


def test_names_without_a_demangler_stay_and_are_noted(double: Double) -> None:
    got = double(
        "sys.modules['pydemumble'] = None\n"
        + CAPTURE
        + "print(json.dumps([sorted(activity.strings), [n.code for n in activity.notes]]))"
    )
    assert "_ZN3app4stepIfEEvPT_i" in got[0]
    assert got[1] == ["names_mangled"]


def test_a_fork_leaves_the_parents_capture_alone(double: Double, tmp_path: Path) -> None:
    got = double(
        """
import warnings
warnings.simplefilter("ignore")  # of forking with threads
collector = Collector()
collector.start()
collector._control.library.handle.double_work(1, ctypes.c_long(1000))
read, write = os.pipe()
child = os.fork()
if not child:
    collector.flush()
    try:
        collector.stop()
    except CollectorUnavailable as error:
        os.write(write, error.verdict.encode())
    sys.exit(0)
os.waitpid(child, 0)
activity = collector.stop()
print(json.dumps([os.read(read, 99).decode(), len(activity.calls["start"])]))
"""
    )
    assert got == ["forked", 1000]
    assert log(tmp_path).count("flush 1") == 1


def test_exit_without_stop_is_clean(double: Double, tmp_path: Path) -> None:
    double("collector = Collector()\ncollector.start()\n")
    assert log(tmp_path)[-2:] == ["flush 1", "unsubscribe 0"]


def test_two_loaded_libraries_are_named(double: Double, cupti: Path) -> None:
    other = (cupti / "12.8/nvidia/cuda_cupti/lib/libcupti.so.12").resolve()
    script = f"ctypes.CDLL({str(other)!r})\n" + REFUSED.format(arguments="")
    verdict, reason = double(script)
    assert verdict == "mismatch"
    assert str(other) in reason
    verdict, reason = double("diagnosis._pair = lambda facts: None\n" + script)
    assert verdict == "two_libraries"
    assert str(other) in reason
    assert "libcupti.so.13" in reason


def test_misuse() -> None:
    from nvtrace.errors import CollectorUnavailable
    from nvtrace.sources.cupti import Collector

    with pytest.raises(ValueError, match="unknown kinds"):
        Collector(kinds=("kernels",))
    with pytest.raises(ValueError, match="choose from node, graph"):
        Collector(graphs="all")
    with pytest.raises(ValueError, match="within the budget"):
        Collector(buffer_bytes=1 << 20, budget_bytes=1 << 19)
    with pytest.raises(CollectorUnavailable, match="not started"):
        Collector().stop()
    Collector().flush()
