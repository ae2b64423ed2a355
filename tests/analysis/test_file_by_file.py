"""Summaries of several files, one after the other: as by loops, and as of all of them at once."""

from __future__ import annotations

import weakref
from collections import defaultdict
from dataclasses import replace
from random import Random

import pytest
from builders import Capture
from oracle import Oracle, ns, random_capture

from nvtrace.analysis.digest import digest, digest_in_turn
from nvtrace.analysis.explanation import explain
from nvtrace.analysis.file_by_file import NeedsAllRows, tabulated_in_turn
from nvtrace.analysis.views import APART, DEFAULT_VIEWS, Plan
from nvtrace.errors import UsageError
from nvtrace.model.merging import merge
from nvtrace.model.schema import DeviceKind
from nvtrace.model.trace import Recorded, TraceData
from nvtrace.report import Report
from nvtrace.trace import Trace

SECOND = 10**9
EVERYTHING = tuple(sorted(APART))


def in_turn(captures: list[Capture], views=EVERYTHING, **options) -> Report:
    shown = {"sorted_by": "gpu_total", "op_detail": False, "thread_sep": False}
    asked = {name: options.pop(name, default) for name, default in shown.items()}
    return tabulated_in_turn((one.trace() for one in captures), Plan(views, **asked), **options)[1]


def at_once(captures: list[Capture], views=EVERYTHING, **options) -> Report:
    trace = Trace.of(merge([one.trace() for one in captures], by_time=False))
    return trace.summary(views, **options)


def random_files(seed: int) -> list[Capture]:
    """Return captures of several ranks, some of them without steps, GPU work or a clock."""
    choose = Random(seed)
    captures = [random_capture(seed * 4 + number) for number in range(choose.randint(2, 4))]
    stepless = choose.choice(["all", "some", "none"])
    clockless, launched = choose.random() < 0.2, choose.random() < 0.8
    for number, capture in enumerate(captures):
        capture.source, capture.rank = f"r{number}.sqlite", number
        capture.origin = SECOND + choose.randint(0, 60)
        if stepless == "all" or (stepless == "some" and choose.random() < 0.5):
            capture.ranges = [one for one in capture.ranges if one.category != "step"]
        if launched:
            known = {(call.pid, call.correlation) for call in capture.calls}
            capture.work = [one for one in capture.work if (one.pid, one.correlation) in known]
        if choose.random() < 0.15:
            capture.work, capture.recorded = [], Recorded(ranges=True, calls=True)
    if clockless:
        captures[-1].origin = None
    return captures


def said(summarize, captures: list[Capture], options: dict) -> tuple[dict, str] | str:
    try:
        report = summarize(captures, **options)
    except UsageError as error:
        return str(error)
    return report.to_dict(), str(report)


@pytest.mark.parametrize("block", range(4))
def test_in_turn_files_say_what_they_say_at_once(block):
    needing_all = 0
    for seed in range(block, 200, 4):
        captures, choose = random_files(seed), Random(seed)
        for options in (
            {"op_detail": True},
            {"thread_sep": True, "sorted_by": "cpu_total"},
            {"rank": choose.choice([0, 1, 1, 9]), "sorted_by": "gpu_min"},
            {"steps": choose.choice([(0, 1), (1, 3), (None, 2), (7, 9)]), "op_detail": True},
            {"steps": (1, None), "rank": choose.choice([0, 1])},
        ):
            try:
                found = said(in_turn, captures, options)
            except NeedsAllRows:
                needing_all += 1
                continue
            assert found == said(at_once, captures, options), (seed, options)
    assert needing_all < 50  # of 250


@pytest.mark.parametrize("seed", range(100))
def test_in_turn_files_say_what_loops_over_them_say(seed):
    captures = [one for one in random_files(seed) if one.work or one.recorded.device]
    captures = captures or [random_capture(seed)]
    truths = [Oracle(capture) for capture in captures]
    known = all(capture.origin is not None for capture in captures)
    later = [capture.origin - SECOND if known else 0 for capture in captures]
    window, everything = set(), set()
    rows = defaultdict(list)
    kernels = defaultdict(lambda: [0, 0])
    for truth, by in zip(truths, later, strict=True):
        mine = [*truth.ranges, *truth.calls, *truth.work]

        def moved(events, by=by):
            return [(one.start + by, one.end + by) for one in events]

        everything.update(moment for pair in moved(mine) for moment in pair)
        window |= {moment + by for moment in ns(truth.ranges[row] for row in truth.steps)}
        rows["CudaRuntime"] += moved(truth.calls)
        for kind in (DeviceKind.KERNEL, DeviceKind.MEMCPY):
            work = [one for one in truth.work if one.kind == kind]
            rows[kind.name.capitalize()] += moved(work)
        for work in truth.work:
            if work.kind in (DeviceKind.KERNEL, DeviceKind.GRAPH):
                kernels[work.name][0] += 1
                kernels[work.name][1] += work.end - work.start
    if everything and not any(truth.steps for truth in truths):
        window = set(range(min(everything), max(everything)))
    report = in_turn(captures)
    assert report.totals["window_ns"] == len(window)
    assert report.totals["steps"] == sum(len(truth.steps) for truth in truths)
    found = {row["event_type"]: row["time_ns"] for row in report["overview"]}
    for name, intervals in rows.items():
        union = {moment for start, end in intervals for moment in range(start, end)}
        assert found[name] == len(union & window), name
    assert {row["name"]: [row["calls"], row["gpu_total_ns"]] for row in report["kernel"]} == kernels


def test_a_device_of_two_files_is_one_device():
    captures = []
    for number, (start, end) in enumerate([(0, 100), (60, 130)]):
        capture = Capture(uuids={(1, 0): "GPU-a"}, origin=SECOND, rank=number)
        capture.step(number, 0, 200)
        capture.run(start, end)
        captures.append(capture)
    row = next(iter(in_turn(captures)["device"]))
    assert (row["uuid"], row["busy_ns"], row["window_ns"]) == ("GPU-a", 130, 200)


def test_the_window_begins_where_the_first_capture_did():
    traces = []
    for rank, begins in enumerate((40, 25)):
        capture = Capture(rank=rank, origin=SECOND + 10 * rank)
        capture.run(0, 20)  # stamped before its capture began
        capture.run(30, 100)
        traces.append(replace(capture.trace(), capture_start=begins))
    _, report = tabulated_in_turn(traces, Plan(EVERYTHING))
    # on the clock of both: the captures began at 40 and 35, the last kernel ends at 110
    assert report.totals["window_ns"] == 110 - 35
    assert report.totals["gpu_ns"] == 2 * (20 + 70)
    at_once = Trace.of(merge(traces, by_time=False)).summary(EVERYTHING)
    assert report.to_dict() == at_once.to_dict()


def test_phases_of_a_file_without_steps_are_outside_those_of_another():
    captures = [Capture(rank=number, origin=SECOND) for number in range(2)]
    captures[0].step(0, 0, 100)
    for capture in captures:
        capture.phase("forward", 10, 40)
    report = in_turn(captures)
    rows = {row["name"]: row["cpu_total_ns"] for row in report["model"]}
    assert rows == {"ProfileStep": 100, "Forward": 30, "Others": 70}
    assert any("1 phases (0.00 ms) start outside" in note for note in report["model"].notes)


def test_steps_that_are_guesses_in_one_file_and_marked_in_another_need_all_rows():
    guessed, marked = (Capture(rank=number, origin=SECOND) for number in range(2))
    guessed.range("step 1", 0, 10)
    marked.step(1, 0, 20)
    assert in_turn([guessed, guessed]).totals["steps"] == 2
    with pytest.raises(NeedsAllRows):
        in_turn([guessed, marked])


@pytest.mark.parametrize("view", ["allocations", "host_steps", "device_phases", "hlo"])
def test_some_views_need_all_rows(view):
    with pytest.raises(NeedsAllRows):
        in_turn([Capture(), Capture()], ["kernel", view])


def test_a_view_that_comes_by_itself_needs_all_rows():
    captures = [Capture(), Capture()]
    captures[1].phase("dispatch", 0, 10)
    assert "host_steps" in at_once(captures, None)
    with pytest.raises(NeedsAllRows):
        in_turn(captures, DEFAULT_VIEWS, recorded=True)


def test_steps_may_be_named_in_one_file_alone():
    captures = [Capture(), Capture()]
    captures[1].range("lap", 0, 10)
    assert in_turn(captures, step_range=["lap"]).totals["steps"] == 1
    with pytest.raises(UsageError, match="no range is named 'turn'"):
        in_turn(captures, step_range=["turn"])


def test_a_rank_may_be_in_one_file_alone():
    captures = [Capture(rank=0), Capture(rank=3)]
    for capture in captures:
        capture.run(0, 10)
    assert in_turn(captures, rank=3).totals["gpu_ns"] == 10
    with pytest.raises(UsageError, match="no process of rank 1: there are ranks 0, 3"):
        in_turn(captures, rank=1)


def test_no_file_is_held_while_the_next_one_is_read():
    held: list[weakref.ref[TraceData]] = []

    def coming():
        for number in range(5):
            assert sum(one() is not None for one in held) == 0
            trace = random_files(number)[0].trace()
            held.append(weakref.ref(trace))
            yield trace
            del trace

    plan = Plan(EVERYTHING, "gpu_total", op_detail=True, thread_sep=False)
    assert len(tabulated_in_turn(coming(), plan)[1].sources) == 5


def test_steps_are_chosen_where_they_are():
    captures = [Capture(rank=rank, origin=SECOND) for rank in range(2)]
    for capture in captures:
        capture.call(0, 1)
    for number in (3, 4):
        captures[1].step(number, number * 10, number * 10 + 10)
        captures[1].launch(number * 10, number * 10 + 1, 5)
    report = in_turn(captures, steps=(4, 9))
    assert (report.totals["steps"], report.totals["gpu_ns"]) == (1, 5)
    with pytest.raises(UsageError, match="no step in 5:9: the trace has steps 3:5"):
        in_turn(captures, steps=(5, 9))
    with pytest.raises(UsageError, match="no step ranges found"):
        in_turn(captures, steps=(5, 9), rank=0)


def test_work_of_unknown_launch_of_a_process_without_steps_needs_all_rows():
    captures = [Capture(rank=rank, origin=SECOND) for rank in range(2)]
    captures[0].step(0, 0, 100)
    captures[1].run(10, 20)
    assert in_turn(captures).totals["gpu_ns"] == 10
    with pytest.raises(NeedsAllRows):
        in_turn(captures, steps=(0, 1))


def digested(digest_them, captures: list[Capture], options: dict) -> dict | str:
    try:
        found = digest_them(captures, **options)
    except UsageError as error:
        return str(error)
    facts = vars(found) | {"steps": sorted(found.steps.tolist()), "report": found.report.to_dict()}
    return facts | {"headline": found.report.headline}


@pytest.mark.parametrize("block", range(2))
def test_what_is_compared_of_files_in_turn_is_that_of_all_at_once(block):
    def digest_all(captures, **options):
        trace = merge([one.trace() for one in captures], by_time=False)
        return digest(explain(trace), **options)

    def digest_each(captures, **options):
        return digest_in_turn((one.trace() for one in captures), **options)

    needing_all = 0
    for seed in range(block, 200, 2):
        captures, choose = random_files(seed), Random(seed)
        for options in (
            {},
            {"whole": True},
            {"steps": (1, 3), "rank": choose.choice([None, 0, 1])},
            {"rank": 1, "views": ["kernel", "steps"]},
        ):
            try:
                found = digested(digest_each, captures, options)
            except NeedsAllRows:
                needing_all += 1
                continue
            assert found == digested(digest_all, captures, options), (seed, options)
    assert needing_all < 200  # of 400: captures are so small that many have no step of their own


def test_the_longest_process_is_how_long_a_step_takes():
    captures = [Capture(rank=rank, origin=SECOND) for rank in range(2)]
    for rank, capture in enumerate(captures):
        for number, start in ((3, 0), (4, 100), (3, 200)):  # 3 again: another epoch
            capture.step(number, start, start + 10 + rank * (1 if number == 3 else -1))
    found = digest_in_turn(one.trace() for one in captures)
    assert sorted(found.steps.tolist()) == [10, 11, 11]
