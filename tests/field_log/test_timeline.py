"""Troubles of users with timelines, O-19 to O-26, each driven from a file to a file.

What Perfetto itself makes of them is tested with the writer. O-24 is about files that a profiler
names, O-27 about projections of ranges: the timeline shows none.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from builders import Capture

import nvtrace
from nvtrace.errors import NvtraceError, OutputError


def exported(capture: Capture, folder: Path, **options) -> dict:
    trace = nvtrace.load(capture.write(folder / "a.sqlite"))
    trace.export(folder / "out.json", **options)
    return json.loads((folder / "out.json").read_text(encoding="utf-8"))


def slices(content: dict) -> dict[str, dict]:
    return {event["name"]: event for event in content["traceEvents"] if event["ph"] == "X"}


def test_o19_times_are_microseconds_in_plain_decimals(tmp_path):
    """O-19: whatever displayTimeUnit says."""
    capture = Capture()
    capture.range("first", 0, 1)
    capture.range("far", 86_400 * 10**9 + 7, 86_400 * 10**9 + 1_000_012)
    found = slices(exported(capture, tmp_path))
    assert (found["first"]["ts"], found["first"]["dur"]) == (0, 0.001)
    assert (found["far"]["ts"], found["far"]["dur"]) == (86_400 * 10**6 + 0.007, 1_000.005)
    text = (tmp_path / "out.json").read_text(encoding="utf-8")
    assert not re.search(r'"(?:ts|dur)": *[^,}]*[eE]', text)


def test_o20_every_lane_is_named_and_sorted(tmp_path):
    """O-20: numeric ids, names and sort indices for each lane used."""
    capture = Capture()
    for tid in (1, 2):
        capture.range("work", 0, 10, tid=tid)
        capture.launch(2, 3, 5, tid=tid, stream=tid * 7)
    events = exported(capture, tmp_path)["traceEvents"]
    used = {(e["pid"], e["tid"]) for e in events if e["ph"] in "Xisf"}
    named = {
        kind: {(e["pid"], e.get("tid")) for e in events if e["name"] == kind}
        for kind in ("process_name", "process_sort_index", "thread_name", "thread_sort_index")
    }
    assert len(used) == 4
    assert named["thread_name"] == named["thread_sort_index"] == used
    processes = {pid for pid, _ in used}
    assert {pid for pid, _ in named["process_name"]} >= processes
    assert named["process_name"] == named["process_sort_index"]
    assert all(type(e["pid"]) is int and type(e.get("tid", 1)) is int for e in events)


def test_o21_args_are_objects_and_keys_are_known(tmp_path):
    """O-21: no array for args, nothing exotic at the top."""
    capture = Capture()
    capture.range("work", 0, 10)
    capture.mark("mark", 5)
    capture.launch(2, 3, 5)
    content = exported(capture, tmp_path)
    assert set(content) <= {"traceEvents", "displayTimeUnit", "otherData"}
    assert all(isinstance(event.get("args", {}), dict) for event in content["traceEvents"])


def test_o22_a_range_still_open_ends_with_the_capture_and_says_so(tmp_path):
    """O-22: complete events only, so no end can close another's begin."""
    capture = Capture()
    capture.range("outer", 0, 1_000)
    capture.range("never closed", 100, None)
    content = exported(capture, tmp_path)
    assert not {"B", "E"} & {event["ph"] for event in content["traceEvents"]}
    found = slices(content)
    assert (found["never closed"]["dur"], found["never closed"]["args"]["unfinished"]) == (
        0.9,
        True,
    )
    assert found["outer"]["dur"] == 1
    assert "unfinished" not in found["outer"]["args"]


def test_o23_what_is_left_out_is_counted_never_cut(tmp_path):
    """O-23: gzip by suffix, a window, a minimum duration, and the count in the file."""
    capture = Capture()
    for place in range(100):
        capture.range(
            "long" if place % 10 == 0 else "short",
            place * 100,
            place * 100 + 1 + 50 * (place % 10 == 0),
        )
    whole = exported(capture, tmp_path)
    assert len([e for e in whole["traceEvents"] if e["ph"] == "X"]) == 100
    assert whole["otherData"]["omitted_events"] == 0
    trace = nvtrace.load(tmp_path / "a.sqlite")
    for options, kept in (({"minimum_ns": 10}, 10), ({"time": (0, 1_000)}, 10)):
        path = tmp_path / "part.json.gz"
        written = trace.export(path, **options)
        content = json.loads(gzip.decompress(path.read_bytes()))
        names = Counter(e["name"] for e in content["traceEvents"] if e["ph"] == "X")
        assert sum(names.values()) == kept
        assert content["otherData"]["omitted_events"] == written.omitted == 100 - kept


def test_o25_a_bad_file_among_good_ones_is_named_and_nothing_half_written(tmp_path, monkeypatch):
    """O-25: a killed worker's file; a writer that dies."""
    good = Capture()
    good.range("work", 0, 10)
    path = good.write(tmp_path / "rank0.sqlite")
    (tmp_path / "rank1.sqlite").write_bytes(path.read_bytes()[:5_000])
    with pytest.raises(NvtraceError, match=r"rank1\.sqlite: truncated") as caught:
        nvtrace.load(tmp_path)
    assert "again" in str(caught.value)
    trace = nvtrace.load(path)
    with pytest.raises(OutputError):
        trace.export(tmp_path / "missing" / "out.json")
    out = tmp_path / "out"
    out.mkdir()
    (out / "old.json").write_text("old")
    monkeypatch.setattr(
        "nvtrace.sinks.chrome_json.ChromeJson.pieces",
        lambda *_: (_ for _ in ()).throw(OSError(28, "full")),
    )
    with pytest.raises(OutputError):
        trace.export(out / "old.json")
    assert [(p.name, p.read_text()) for p in out.iterdir()] == [("old.json", "old")]


@pytest.mark.parametrize("known", [True, False])
def test_o26_ranks_on_one_timeline(tmp_path, known):
    """O-26: ids by rank, clocks by recorded time or said not to be, arrows within their rank."""
    paths = []
    for rank in (0, 1):
        capture = Capture(origin=10**18 + rank * 1_600_000 if known else None)
        capture.range(f"rank {rank}", 0, 100)
        capture.launch(10, 20, 50, at=40, name=f"kernel {rank}")
        paths.append(capture.write(tmp_path / f"run.rank{rank}.sqlite"))
    nvtrace.load(paths).export(tmp_path / "out.json")
    content = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    found = slices(content)
    offset = found["rank 1"]["ts"] - found["rank 0"]["ts"]
    assert offset == (1_600 if known else 0)
    code = "clocks_aligned" if known else "clocks_not_aligned"
    assert code in {note["code"] for note in content["otherData"]["notes"]}
    lanes = {(found[name]["pid"], found[name]["tid"]) for name in ("rank 0", "rank 1")}
    assert len(lanes) == 2
    flows = [event for event in content["traceEvents"] if event["ph"] in "sf"]
    assert len({event["id"] for event in flows}) == 2
    for event in flows:
        if event["ph"] == "f":
            rank = next(r for r in (0, 1) if found[f"kernel {r}"]["pid"] == event["pid"])
            (start,) = [e for e in flows if e["ph"] == "s" and e["id"] == event["id"]]
            assert start["pid"] == found[f"rank {rank}"]["pid"]
