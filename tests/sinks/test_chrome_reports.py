"""The timeline of real reports: Perfetto finds every row of them, to the nanosecond."""

from __future__ import annotations

import dataclasses
from collections import Counter as Multiset

import pytest

import nvtrace
from nvtrace.sinks import chrome

REPORTS = (
    *(f"nsys/a{number:02}_*.sqlite" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 30)),
    *(f"nsys-made-here/{name}.sqlite" for name in ("kitchen", "multi_spawn", "multi_fork")),
    "nsys-made-here/multi_fork_traced.sqlite",
)
LOST = "select name from stats where severity in ('error', 'data_loss') and value > 0"
TOTALS = "select count(*) as n, coalesce(sum(dur), 0) as ns, min(dur) as shortest from slice"
ARROWS = (
    "select count(*) as n from flow"
    " join slice a on slice_out = a.id join slice b on slice_in = b.id"
    " where a.category = 'cuda' and b.category in ('kernel', 'memcpy', 'memset', 'graph')"
    " and extract_arg(a.arg_set_id, 'args.correlation')"
    " = extract_arg(b.arg_set_id, 'args.correlation')"
)
LANES = "select count(distinct track_id) as n from slice"


SLICES = (
    "select s.name, s.ts, s.dur, s.category, s.depth, t.name as lane, t.tid, p.name as process, pid"
    " from slice s join thread_track k on s.track_id = k.id join thread t using (utid)"
    " left join process p using (upid)"
)
JOINED = (
    "select a.name as a, a.ts as a_ts, a.dur as a_dur, b.name as b, b.ts as b_ts, b.dur as b_dur"
    " from flow join slice a on slice_out = a.id join slice b on slice_in = b.id"
)
ARGS = (
    "select s.name, s.ts, s.dur, replace(replace(a.key, 'debug.', ''), 'args.', '') as key,"
    " string_value, int_value, round(real_value, 6) as real"
    " from slice s join args a using (arg_set_id)"
    " where a.key like 'debug.%' or a.key like 'args.%'"
)
COUNTERS = (
    "select c.ts, round(c.value, 9) as value, p.name from counter c"
    " join process_counter_track t on c.track_id = t.id join process p using (upid)"
)


@pytest.mark.parametrize("report", REPORTS)
def test_perfetto_finds_all_of_a_report(report, shared_data, perfetto, tmp_path):
    (source,) = shared_data.glob(report)
    trace = nvtrace.load(source)
    explained = trace.explain()
    path = tmp_path / "out.json.gz"
    written = chrome.write(explained, path)
    lost, totals, arrows, lanes = perfetto.query(path, LOST, TOTALS, ARROWS, LANES)
    tables = (trace.ranges, trace.calls, trace.device)
    launched = int((explained.device_call >= 0).sum())
    assert lost == []
    assert totals[0]["n"] == written.slices == sum(table.rows for table in tables) > 0
    assert totals[0]["ns"] == sum(int((t["end"] - t["start"]).sum()) for t in tables)
    assert totals[0]["shortest"] >= 0
    assert arrows[0]["n"] == written.flows == launched
    assert lanes[0]["n"] >= len(set(trace.ranges["thread"]) | set(trace.calls["thread"]))
    assert written.omitted == 0


# The largest ones hold nothing that the others do not.
SMALLER = [report for report in REPORTS if report[5:8] not in ("a02", "a03", "a06", "a07")]


@pytest.mark.parametrize("report", SMALLER)
def test_both_formats_hold_the_same(report, shared_data, perfetto, tmp_path):
    """Each slice with lane, depth and args, each arrow, each counter value."""
    (source,) = shared_data.glob(report)
    trace = nvtrace.load(source)
    queries = LOST, SLICES, JOINED, ARGS, COUNTERS
    plain, packed = tmp_path / "out.json", tmp_path / "out.pftrace"
    counts = [trace.export(path) for path in (plain, packed)]
    assert dataclasses.replace(counts[0], bytes=0) == dataclasses.replace(counts[1], bytes=0)
    assert counts[1].bytes == packed.stat().st_size
    (lost, *expected), (lost_too, *found) = (perfetto.query(p, *queries) for p in (plain, packed))
    assert lost == lost_too == []
    for theirs, own in zip(expected, found, strict=True):
        assert Multiset(map(as_json_has_it, own)) == Multiset(tuple(row.values()) for row in theirs)


def as_json_has_it(row):
    """A row; Perfetto leaves escapes in the names of JSON as they are, and names what has none."""
    escapes = str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\x01": "\\u0001"})
    return tuple(
        (value.translate(escapes) or "[No name]") if key in ("name", "a", "b") else value
        for key, value in row.items()
    )
