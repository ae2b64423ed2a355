"""The timeline of real reports: Perfetto finds every row of them, to the nanosecond."""

from __future__ import annotations

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
