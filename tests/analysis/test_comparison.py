"""Runs beside one another: small ones worked by hand, real pairs against their summaries."""

from __future__ import annotations

import gc
import sqlite3
import weakref
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from builders import Capture
from hypothesis import given
from hypothesis import strategies as st

import nvtrace
from nvtrace import comparing
from nvtrace.analysis.comparison import verdict
from nvtrace.analysis.shift import Shift
from nvtrace.demo import write_report
from nvtrace.errors import UsageError
from nvtrace.model.trace import Recorded

Kernels = dict[str, tuple[int, int]]


def run(
    steps: list[int], kernels: Kernels, *, early: int = 0, pids: tuple[int, ...] = (1,)
) -> Capture:
    """Steps of so many ns, in each a range ``work`` and kernels by name: how often, ns each.

    ``early`` ns of a kernel come before the first step.
    """
    capture, at = Capture(), 10_000
    if early:
        capture.launch(100, 200, early, name="setup", at=1_000_000)
    for number, length in enumerate(steps):
        for pid in pids:
            capture.step(number, at, at + length, pid=pid, tid=pid)
            capture.range("work", at + 10, at + length - 10, pid=pid, tid=pid)
            place = at + 20
            for name, (times, ns) in kernels.items():
                for _ in range(times):
                    capture.launch(place, place + 1, ns, name=name, pid=pid, tid=pid)
                    place += 2
        at += length
    return capture


BEFORE = run([1000] * 5, {"a": (2, 10), "old": (1, 5)}, early=400)
AFTER = run([1100] * 4, {"a": (3, 6), "new": (1, 7)})


def rows(report: nvtrace.Report, view: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in report[view]}


def codes(report: nvtrace.Report) -> list[str]:
    return [note["code"] for note in report.notes]


def test_steps_by_hand() -> None:
    before, after = nvtrace.compare(BEFORE.trace(), AFTER.trace())["steps"].rows()
    assert before == {
        "run": "before",
        "steps": 5,
        "median_ns": 1000,
        "p95_ns": 1000,
        "mean_ns": 1000,
        **dict.fromkeys(("change", "change_low", "change_high", "throughput_change", "verdict")),
    }
    assert (after["run"], after["steps"], after["median_ns"]) == ("after", 4, 1100)
    for key in ("change", "change_low", "change_high"):
        assert after[key] == pytest.approx(10)
    assert after["throughput_change"] == pytest.approx(100 * (1000 / 1100 - 1))
    assert after["verdict"] == "slower"


def test_kernels_by_hand_are_per_step_and_of_steps_alone() -> None:
    table = nvtrace.compare(BEFORE.trace(), AFTER.trace())["kernel"]
    assert [row["name"] for row in table] == ["new", "old", "a"]  # by size of change
    found = rows(nvtrace.compare(BEFORE.trace(), AFTER.trace()), "kernel")
    keys = ("status", "calls_before", "calls_after", "gpu_before_ns", "gpu_after_ns")
    more = ("gpu_change_ns", "gpu_change")
    assert {name: tuple(row[key] for key in (*keys, *more)) for name, row in found.items()} == {
        "a": ("both", 2, 3, 20, 18, -2, pytest.approx(-10)),
        "old": ("gone", 1, 0, 5, 0, -5, -100),
        "new": ("new", 0, 1, 0, 7, 7, None),
    }


def test_ranges_and_phases_by_hand() -> None:
    report = nvtrace.compare(BEFORE.trace(), AFTER.trace())
    work = rows(report, "user_defined")["work"]
    assert (work["calls_before"], work["calls_after"]) == (1, 1)
    assert (work["cpu_before_ns"], work["cpu_after_ns"], work["cpu_change_ns"]) == (980, 1080, 100)
    assert (work["gpu_before_ns"], work["gpu_after_ns"]) == (25, 25)
    step = rows(report, "phases")["ProfileStep"]
    assert (step["cpu_before_ns"], step["cpu_after_ns"]) == (1000, 1100)
    assert step["cpu_change"] == pytest.approx(10)


def test_whole_runs_are_sums() -> None:
    report = nvtrace.compare(BEFORE.trace(), AFTER.trace(), whole=True)
    found = rows(report, "kernel")
    assert (found["a"]["gpu_before_ns"], found["a"]["gpu_after_ns"]) == (5 * 20, 4 * 18)
    assert (found["setup"]["calls_before"], found["setup"]["gpu_before_ns"]) == (1, 400)
    assert codes(report)[0] == "compared_totals"
    assert report.totals == {"per_step": False}
    assert report["steps"].rows()[1]["verdict"] == "slower"


def test_one_run_without_steps_makes_both_whole() -> None:
    without = Capture()
    without.launch(10, 20, 30, name="a")
    report = nvtrace.compare(BEFORE.trace(), without.trace())
    found = rows(report, "kernel")
    assert (found["a"]["gpu_before_ns"], found["a"]["gpu_after_ns"]) == (100, 30)
    assert found["setup"]["status"] == "gone"
    note = report.notes[0]
    assert (note["code"], "no steps in after" in note["message"]) == ("compared_totals", True)
    assert [row["run"] for row in report["steps"]] == ["before"]
    assert report["steps"].rows()[0]["verdict"] is None


def test_steps_of_several_processes_count_once_with_the_longest() -> None:
    capture = run([1000] * 4, {"a": (1, 10)}, pids=(1, 2))
    for number in range(4):  # a third process, slower
        capture.step(number, 10_000 + 1000 * number, 11_500 + 1000 * number, pid=3, tid=3)
    report = nvtrace.compare(BEFORE.trace(), capture.trace())
    after = report["steps"].rows()[1]
    assert (after["steps"], after["median_ns"]) == (4, 1500)
    assert rows(report, "kernel")["a"]["gpu_after_ns"] == 20


def test_numbers_that_begin_anew_are_further_steps() -> None:
    capture = Capture()
    for place in range(6):
        capture.step(place % 3, 1000 * place, 1000 * place + 900)
    after = nvtrace.compare(BEFORE.trace(), capture.trace())["steps"].rows()[1]
    assert after["steps"] == 6


def test_throughput_is_a_ratio_less_one() -> None:
    """137.3 steps a second after 70.99 are 93 % more, not 193 %."""
    slow, fast = (run([round(1e9 / ips)] * 6, {}) for ips in (70.99, 137.3))
    report = nvtrace.compare(slow.trace(), fast.trace())
    after = report["steps"].rows()[1]
    assert after["throughput_change"] == pytest.approx(93.4, abs=0.05)
    assert after["change"] == pytest.approx(-48.3, abs=0.05)
    assert report.headline[-1] == (
        "after: step time -48.3 % (-48.3 to -48.3 %), throughput +93.4 %: faster"
    )


def test_several_runs_and_the_largest_change_of_any_first() -> None:
    runs = [run([1000] * 4, {"a": (1, a), "b": (1, b)}) for a, b in ((10, 10), (12, 10), (9, 30))]
    report = nvtrace.compare(*(one.trace() for one in runs))
    found = [(r["run"], r["name"], r["gpu_change_ns"]) for r in report["kernel"]]
    assert found == [
        ("after 1", "b", 0),
        ("after 2", "b", 20),
        ("after 1", "a", 2),
        ("after 2", "a", -1),
    ]
    assert report["kernel"].column("run").shown
    assert [row["run"] for row in report["steps"]] == ["before", "after 1", "after 2"]


def test_what_was_not_recorded_is_neither_zero_nor_new() -> None:
    cpu = run([1000] * 5, {})
    cpu.recorded = Recorded(ranges=True)
    report = nvtrace.compare(cpu.trace(), AFTER.trace())
    row = rows(report, "kernel")["a"]
    assert (row["status"], row["calls_before"], row["gpu_before_ns"]) == (None, None, None)
    assert (row["gpu_after_ns"], row["gpu_change_ns"], row["gpu_change"]) == (18, None, None)
    work = rows(report, "user_defined")["work"]
    assert (work["cpu_change_ns"], work["gpu_before_ns"]) == (100, None)
    assert [row["run"] for row in report["device"]] == ["after"]


def test_gpus_by_hand() -> None:
    """Busy for 25 ns of each step where the kernels run in it."""
    capture = Capture()
    for number in range(4):
        at = 1000 * number
        capture.step(number, at, at + 1000)
        capture.launch(at, at + 1, 250, at=at + 100, device=0)
        capture.launch(at + 2, at + 3, 750, at=at + 100, device=1, stream=8)
    (before, after) = nvtrace.compare(capture.trace(), capture.trace())["device"].rows()
    assert before == {"run": "before", "gpus": 2, "busy_ns": 500, "utilization": 50.0}
    assert after == {**before, "run": "after"}


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (1.02, 1.05, "slower"),
        (1.002, 1.02, "slower"),
        (0.9, 0.98, "faster"),
        (0.995, 1.005, "same"),
        (1.001, 1.009, "same"),
        (0.97, 1.02, "inconclusive"),
        (None, None, "inconclusive"),
    ],
)
def test_verdicts(low: float | None, high: float | None, said: str) -> None:
    assert verdict(Shift(1.0, low, high)) == said


def test_two_percent_apart_in_noise_and_out_of_it() -> None:
    """O-46."""
    calm = [1_000_000 + 1000 * n for n in range(-5, 6)]
    noisy = [1_000_000 + 50_000 * n for n in range(-5, 6)]
    for lengths, said in ((calm, "slower"), (noisy, "inconclusive")):
        after = [round(1.02 * one) for one in lengths]
        report = nvtrace.compare(run(lengths, {}).trace(), run(after, {}).trace())
        row = report["steps"].rows()[1]
        assert row["change"] == pytest.approx(2, abs=0.05)
        assert row["verdict"] == said


@given(st.lists(st.integers(100, 10**6), min_size=1, max_size=6))
def test_a_run_and_itself_do_not_differ(steps: list[int]) -> None:
    trace = run(steps, {"a": (1, 10)}).trace()
    report = nvtrace.compare(trace, trace)
    assert report["steps"].rows()[1]["change"] == 0
    for view in ("phases", "kernel", "operator", "user_defined"):
        for row in report[view]:
            assert row["gpu_change_ns"] in (0, None)
            assert row["status"] == "both"


def test_selections_reach_every_run() -> None:
    report = nvtrace.compare(BEFORE.trace(), AFTER.trace(), steps=(1, 3))
    assert [row["steps"] for row in report["steps"]] == [2, 2]
    with pytest.raises(UsageError, match=r"made.sqlite: no step in 4:"):
        nvtrace.compare(BEFORE.trace(), AFTER.trace(), steps=(4, None))
    with pytest.raises(UsageError, match="unknown view 'kernels': choose from steps, phases"):
        nvtrace.compare(BEFORE.trace(), AFTER.trace(), views="kernels")
    with pytest.raises(UsageError, match="one run alone"):
        nvtrace.compare(BEFORE.trace())


def test_notes_and_sources_say_whose_they_are() -> None:
    without = Capture(source="other.sqlite")
    without.range("a", 0, 10)
    report = nvtrace.compare(without.trace(), BEFORE.trace())
    assert any(n["message"].startswith("before: no step ranges") for n in report.notes)
    assert [(s["run"], s["name"]) for s in report.sources] == [
        ("before", "other.sqlite"),
        ("after", "made.sqlite"),
    ]


def test_a_generated_report_and_one_with_a_known_change(tmp_path: Path) -> None:
    """Every kernel of one name takes twice as long: so it says, and of no other."""
    paths = [write_report(tmp_path / name, truth=False) for name in ("one.sqlite", "two.sqlite")]
    name = nvtrace.load(paths[0]).summary("kernel")["kernel"]["short_name"][0]
    with closing(sqlite3.connect(paths[1])) as rows_, rows_:
        rows_.execute(
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 2 * end - start "
            "WHERE shortName = (SELECT id FROM StringIds WHERE value = ?)",
            (name,),
        )
    table = nvtrace.compare(*paths)["kernel"]
    changed = [row for row in table if row["gpu_change_ns"]]
    assert changed
    assert all(row["gpu_change"] == pytest.approx(100) for row in changed)
    assert all(row["status"] == "both" for row in table)


def test_a_real_pair_is_as_its_summaries_say(shared_data: Path) -> None:
    (before,) = (shared_data / "nsys").glob("a06_*.sqlite")
    (after,) = (shared_data / "nsys").glob("a07_*.sqlite")
    report = nvtrace.compare(before, after)
    sides = [rows(nvtrace.load(path).summary("kernel"), "kernel") for path in (before, after)]
    for name, row in rows(report, "kernel").items():
        one, other = (side.get(name, {"calls": 0, "gpu_total_ns": 0}) for side in sides)
        assert (row["calls_before"], row["calls_after"]) == (one["calls"], other["calls"])
        assert row["gpu_change_ns"] == other["gpu_total_ns"] - one["gpu_total_ns"]
    assert len(report["kernel"]) == len(sides[0].keys() | sides[1].keys())
    sizes = [abs(row["gpu_change_ns"]) for row in report["kernel"]]
    assert sizes == sorted(sizes, reverse=True)
    assert report["steps"].rows() == []


def test_each_run_is_let_go_before_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the collector's help: comparing eight takes the memory of one."""
    read: list[weakref.ref[nvtrace.Trace]] = []
    load = comparing.load

    def watched(*arguments: Any, **options: Any) -> nvtrace.Trace:
        assert [one() for one in read] == [None] * len(read)
        trace = load(*arguments, **options)
        read.append(weakref.ref(trace))
        return trace

    monkeypatch.setattr(comparing, "load", watched)
    path = BEFORE.write(tmp_path / "a.sqlite")
    gc.disable()
    try:
        nvtrace.compare(path, path, path)
    finally:
        gc.enable()
    assert [one() for one in read] == [None] * 3


def test_a_step_range_that_is_in_one_run_alone(tmp_path: Path) -> None:
    paths = [BEFORE.write(tmp_path / "a.sqlite"), Capture().write(tmp_path / "b.sqlite")]
    with pytest.raises(UsageError, match=r"b\.sqlite: no .*work"):
        nvtrace.compare(*paths, step_range=["work"])
