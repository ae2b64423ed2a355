"""What paddle.profiler gets wrong, shown of it where that is cheap, and right here."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nvtrace

paddle = pytest.importorskip("paddle", reason="needs paddlepaddle")
F = paddle.nn.functional

OPTIONS: dict[str, Any] = {"adapters": "paddle", "targets": [nvtrace.ProfilerTarget.CPU]}


def work() -> Any:
    return paddle.ones([2]) + 1


def names(trace: nvtrace.Trace | None) -> list[str]:
    assert trace is not None
    return [row["name"] for row in trace.ranges_report()["ranges"].rows()]


def test_average_is_within_minimum_and_maximum(capsys: pytest.CaptureFixture[str]) -> None:
    anchor = paddle.profiler.Profiler(timer_only=True)
    ours = nvtrace.Profiler(timer_only=True, **OPTIONS)
    anchor.start()
    before, after = [time.perf_counter()], []
    ours.start()
    after.append(time.perf_counter())
    for number in range(12):
        time.sleep(0.004 + 0.001 * number)  # each slower than the last
        anchor.step()
        before.append(time.perf_counter())
        ours.step()
        after.append(time.perf_counter())
    anchor.stop()
    capsys.readouterr()
    ours.stop()
    found = ours.benchmark
    assert found is not None
    # a step lasts from somewhere in one call of ours to somewhere in the next
    shortest = [before[n + 1] - after[n] for n in (10, 11)]
    longest = [after[n + 1] - before[n] for n in (10, 11)]
    cost = found.batch_cost
    assert found.steps == 2
    assert np.mean(shortest) <= cost.average <= np.mean(longest)
    assert cost.minimum <= cost.average <= cost.maximum
    assert min(shortest) <= cost.minimum <= min(longest), "a first sample can be it"


def test_theirs_is_off_as_the_guide_says(capfd: pytest.CaptureFixture[str]) -> None:
    anchor = paddle.profiler.Profiler(timer_only=True)
    anchor.start()
    before, after, steps = [], [], 12
    for _ in range(steps):
        time.sleep(0.01)
        before.append(time.perf_counter())
        anchor.step()
        after.append(time.perf_counter())
    anchor.stop()
    printed = capfd.readouterr()
    found = re.search(r"batch_cost +\| +([\d.]+)", printed.out + printed.err)
    assert found is not None, printed
    # their records start at step 9, and are divided by as many as if they started at 10
    shortest = sum(before[n] - after[n - 1] for n in (9, 10, 11))
    longest, rounding = after[11] - before[8], 1e-5
    assert shortest / (steps - 10) - rounding <= float(found[1])
    assert float(found[1]) <= longest / (steps - 10) + rounding


def test_quotes_in_names_leave_the_timeline_readable(tmp_path: Path) -> None:
    with nvtrace.Profiler(**OPTIONS) as profiler:
        with nvtrace.RecordEvent('say "hi" \\ \n'):
            work()
        profiler.step()
    profiler.export(tmp_path / "run.json")
    events = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["traceEvents"]
    assert 'say "hi" \\ \n' in {event["name"] for event in events}


def test_what_is_exported_can_be_loaded(tmp_path: Path) -> None:
    with nvtrace.Profiler(**OPTIONS) as profiler:
        work()
        profiler.step()
    profiler.export(tmp_path / "run.sqlite", "sqlite")
    loaded = nvtrace.load_profiler_result(tmp_path / "run.sqlite")
    assert profiler.trace is not None
    views = ["operator", "model"]
    before, after = profiler.trace.summary(views), loaded.summary(views)
    assert [after[view].rows() for view in views] == [before[view].rows() for view in views]
    with pytest.raises(nvtrace.UsageError, match="export format 'xml'"):
        profiler.export(tmp_path / "run.xml", "xml")


def test_ranges_may_overlap_and_cross_steps() -> None:
    first, second = nvtrace.RecordEvent("first"), nvtrace.RecordEvent("second")
    with nvtrace.Profiler(**OPTIONS) as profiler:
        first.begin()
        second.begin()
        first.end()
        profiler.step()
        second.end()
        profiler.step()
    rows = profiler.trace.summary(["user_defined"])["user_defined"].rows()  # type: ignore[union-attr]
    assert {row["name"]: row["calls"] for row in rows} == {"first": 1, "second": 1}


def test_one_profiler_after_another_while_the_first_lives() -> None:
    traces = []
    profilers = [nvtrace.Profiler(**OPTIONS), nvtrace.Profiler(**OPTIONS)]
    for profiler in profilers:
        with profiler:
            work()
            profiler.step()
        traces.append(profiler.trace)
    assert names(traces[0]) == names(traces[1])


def test_gradients_show_their_kernels(record: Any) -> None:
    x = paddle.ones([2, 2])
    x.stop_gradient = False
    trace = record(lambda: F.relu(x).sum().backward())
    rows = trace.summary(["operator"], op_detail=True)["operator"].rows()
    place = next(place for place, row in enumerate(rows) if row["name"] == "relu_grad")
    inside = []
    for row in rows[place + 1 :]:
        if not row["depth"]:
            break
        inside.append(row["name"])
    assert sorted(inside) == ["relu_grad infer_meta", "relu_grad kernel launch"]


def test_an_operator_is_no_communication_for_its_name(record: Any) -> None:
    x, y = paddle.ones([2, 1]), paddle.ones([1, 3])
    trace = record(lambda: paddle.broadcast_tensors([x, y]))
    assert "broadcast_tensors" in names(trace)
    kinds = {row["kind"] for row in trace.ranges_report()["ranges"].rows()}
    assert "communication" not in kinds


def test_an_allocation_counts_once(record: Any) -> None:
    x = paddle.ones([1000, 1000])
    trace = record(lambda: paddle.add(x, x), profile_memory=True, modules=True)
    rows = {row["name"]: row for row in trace.summary()["allocations"].rows()}
    assert (rows["add"]["allocations"], rows["add"]["allocated_bytes"]) == (3, 3 * x.numpy().nbytes)
    total = rows["cpu"]
    others = [row for row in rows.values() if row is not total]
    for key in ("allocations", "allocated_bytes", "frees", "freed_bytes", "net_bytes"):
        assert total[key] == sum(row[key] for row in others)
    assert total["freed_bytes"] == 3 * x.numpy().nbytes
    assert total["peak_bytes"] >= 2 * x.numpy().nbytes
    assert total["peak_reserved_bytes"] is None, "of the host Paddle keeps no such account"


def test_nothing_recorded_is_said(caplog: pytest.LogCaptureFixture, capsys: Any) -> None:
    with nvtrace.Profiler(scheduler=(5, 9), **OPTIONS) as profiler:
        profiler.step()
    assert "nothing was recorded" in caplog.text
    profiler.summary()
    assert "no window has been recorded" in capsys.readouterr().out


def test_an_unknown_unit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with nvtrace.Profiler(**OPTIONS) as profiler:
        profiler.step()
    with pytest.raises(nvtrace.UsageError, match="min"):
        profiler.summary(time_unit="min")
    capsys.readouterr()


def test_an_overview_needs_no_step(capsys: pytest.CaptureFixture[str]) -> None:
    with nvtrace.Profiler(**OPTIONS) as profiler:
        work()
    profiler.summary(views=nvtrace.SummaryView.OverView)
    assert "Overview Summary" in capsys.readouterr().out


def test_a_gpu_sort_key_sorts_without_a_gpu(record: Any) -> None:
    rows = record(work).summary(["operator"], sorted_by="gpu_total")["operator"].rows()
    totals = [row["cpu_total_ns"] for row in rows]
    assert len(totals) > 1
    assert totals == sorted(totals, reverse=True)


def test_ten_steps_are_ten_steps(record: Any) -> None:
    rows = record(work, steps=10).summary(["model"])["model"].rows()
    assert rows[0]["name"] == "ProfileStep"
    assert rows[0]["calls"] == 10


def test_tables_and_figures_of_one_window_name_their_steps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with nvtrace.Profiler(scheduler=(1, 3), **OPTIONS) as profiler:
        for _ in range(4):
            profiler.step()
    profiler.summary(views=["model"])
    printed = capsys.readouterr().out
    assert "Steps 0..3 (4)" in printed, "the benchmark is of the run"
    assert "2 step ranges" in printed, "the tables are of the window"
