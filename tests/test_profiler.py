"""The Profiler: which steps it records, when it delivers, and what it does when things go wrong."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from capturing import codes, listed, names, nothing_left, profiler, steps

import nvtrace
from nvtrace import (
    OutputError,
    Profiler,
    ProfilerState,
    ProfilerTarget,
    SortedKeys,
    SummaryView,
    Trace,
    UsageError,
    make_scheduler,
)
from nvtrace.emit import Calls, Label, switch

MS = 1_000_000


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    with nothing_left():
        yield


def run(prof: Profiler, count: int) -> None:
    """Steps with one range each, named after the step."""
    with prof:
        for number in range(count):
            with nvtrace.range(f"work {number}"):
                pass
            prof.step()


class Delivered:
    """A handler that keeps what it gets: number of the running step, cycle, and the trace."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []
        self.traces: list[Trace] = []

    def __call__(self, prof: Profiler) -> None:
        assert prof.trace is not None
        self.calls.append((prof.step_number, prof.cycle))
        self.traces.append(prof.trace)


@pytest.mark.parametrize(
    ("scheduler", "count", "recorded", "at"),
    [
        ((3, 14), 18, [range(3, 14)], [14]),
        ([3, 14], 18, [range(3, 14)], [14]),
        ((1, 3), 8, [range(1, 3)], [3]),
        ((0, 3), 8, [range(3)], [3]),
        (
            make_scheduler(closed=1, ready=1, record=3, repeat=3),
            20,
            [range(2, 5), range(7, 10), range(12, 15)],
            [5, 10, 15],
        ),
        (
            make_scheduler(closed=1, ready=1, record=4, skip_first=1),
            19,
            [range(3, 7), range(9, 13), range(15, 19)],
            [7, 13, 19],
        ),
        (make_scheduler(closed=0, ready=0, record=2), 4, [range(2), range(2, 4)], [2, 4]),
        (None, 4, [range(4)], [4]),
        # what no RECORD_AND_RETURN ends is delivered when recording ends
        (
            lambda n: ProfilerState.RECORD if n in (1, 2, 4) else ProfilerState.CLOSED,
            6,
            [range(1, 3), range(4, 5)],
            [3, 5],
        ),
        (
            lambda n: (ProfilerState.RECORD, ProfilerState.READY)[n % 2],
            4,
            [range(1), range(2, 3)],
            [1, 3],
        ),
    ],
)
def test_each_window_holds_its_steps_and_is_delivered_once_right_after_it(
    scheduler: Any, count: int, recorded: list[range], at: list[int]
) -> None:
    delivered = Delivered()
    prof = profiler(scheduler=scheduler, on_trace_ready=delivered)
    run(prof, count)
    assert delivered.calls == [(step, cycle) for cycle, step in enumerate(at)]
    for trace, window in zip(delivered.traces, recorded, strict=True):
        assert steps(trace) == list(window)
        assert names(trace) == [f"work {number}" for number in window]
        assert "cut_short" not in codes(trace)
    assert prof.trace is delivered.traces[-1]
    assert prof.step_number == count


@pytest.mark.parametrize(
    ("scheduler", "count", "recorded"),
    [((3, 14), 6, [3, 4, 5]), (make_scheduler(closed=1, ready=0, record=3), 7, [5, 6])],
)
def test_a_run_that_ends_inside_a_window_delivers_what_it_has(
    scheduler: Any, count: int, recorded: list[int]
) -> None:
    delivered = Delivered()
    prof = profiler(scheduler=scheduler, on_trace_ready=delivered)
    run(prof, count)
    last = delivered.traces[-1]
    assert steps(last) == recorded
    assert names(last) == [f"work {number}" for number in recorded]
    assert "cut_short" in codes(last)


def test_a_run_that_ends_with_a_window_delivers_no_empty_one() -> None:
    delivered = Delivered()
    prof = profiler(scheduler=make_scheduler(closed=0, ready=0, record=3), on_trace_ready=delivered)
    run(prof, 6)
    assert [steps(trace) for trace in delivered.traces] == [[0, 1, 2], [3, 4, 5]]
    assert prof.trace is delivered.traces[-1]


def test_what_comes_after_the_last_step_is_recorded_and_no_step() -> None:
    with profiler() as prof:
        prof.step()
        with nvtrace.range("checkpoint"):
            pass
    assert steps(prof.trace) == [0]
    assert names(prof.trace) == ["checkpoint"]
    assert listed(prof.trace)[-1]["step"] is None


def test_a_run_without_step_is_a_trace_without_steps() -> None:
    with profiler() as prof, nvtrace.range("work"):
        pass
    assert steps(prof.trace) == []
    assert names(prof.trace) == ["work"]
    assert "cut_short" not in codes(prof.trace)


@pytest.mark.parametrize(
    ("scheduler", "count", "said"),
    [
        ((3, 14), 2, "ended at step 2 and its schedule reached no RECORD step"),
        ((3, 14), 0, "ended at step 0 and its schedule reached no RECORD step"),
        (lambda _: ProfilerState.READY, 5, "ended at step 5 and its schedule reached no RECORD"),
        ((1, 3), 1, "ended at step 1; call step"),
    ],
)
def test_a_run_that_records_nothing_says_so_once(
    scheduler: Any, count: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """O-28."""
    prof = profiler(scheduler=scheduler, on_trace_ready=lambda _: pytest.fail("delivered"))
    with prof:
        for _ in range(count):
            prof.step()
    assert prof.stop() is None
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert said in warnings[0]


def test_the_time_of_the_handler_and_of_arming_is_in_no_step() -> None:
    """Paddle charges the export to the next step: one of 80 ms among 40 ms ones."""

    delivered: list[Trace] = []
    handled: list[tuple[int, int]] = []
    in_handler = 0.0

    def slow(prof: Profiler) -> None:
        nonlocal in_handler
        begin, counted = time.time_ns(), time.perf_counter()
        time.sleep(0.05)
        in_handler += time.perf_counter() - counted
        handled.append((begin, time.time_ns()))
        assert prof.trace is not None
        delivered.append(prof.trace)

    prof = profiler(scheduler=make_scheduler(closed=0, ready=0, record=2), on_trace_ready=slow)
    begin = time.perf_counter()
    with prof:
        for _ in range(6):
            time.sleep(0.012)
            prof.step()
    whole = time.perf_counter() - begin
    spans = []
    for trace in delivered:
        origin = trace.origin_unix_ns
        assert origin is not None
        spans += [(origin + row["start_ns"], origin + row["end_ns"]) for row in listed(trace)]
    assert len(spans) == 6
    assert len(handled) == 3
    assert all(end - start >= 10 * MS for start, end in spans)
    for handling, over in handled:
        assert all(end <= handling or over <= start for start, end in spans)
    assert prof.benchmark is not None
    assert prof.benchmark.batch_cost.minimum >= 0.01
    assert prof.benchmark.batch_cost.average * 6 <= whole - in_handler


def test_steps_of_a_window_lie_end_to_end() -> None:
    with profiler(scheduler=(1, 5)) as prof:
        for _ in range(6):
            prof.step()
    rows = listed(prof.trace)
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert [row["end_ns"] for row in rows[:-1]] == [row["start_ns"] for row in rows[1:]]


# -- what goes wrong -------------------------------------------------------------------------------


def test_a_second_profiler_is_told_which_is_active() -> None:
    """O-29."""
    prof = profiler()
    prof.start()
    line = (
        f"{__file__}:{test_a_second_profiler_is_told_which_is_active.__code__.co_firstlineno + 3}"
    )
    try:
        with pytest.raises(UsageError, match=re.escape(line)):
            profiler().start()
        with pytest.raises(UsageError, match="is running: stop"):
            prof.start()
    finally:
        prof.stop()
    run(profiler(), 1)


def test_start_and_stop_again() -> None:
    prof = profiler()
    assert prof.stop() is None
    run(prof, 2)
    first = prof.trace
    assert prof.stop() is prof.stop() is first
    run(prof, 3)
    assert prof.trace is not first
    assert steps(prof.trace) == [0, 1, 2]
    assert prof.cycle == 0
    assert prof.benchmark is not None
    assert prof.benchmark.steps == 3


def test_step_of_a_profiler_that_is_not_running() -> None:
    prof = profiler()
    with pytest.raises(UsageError, match="not running: call start"):
        prof.step()
    run(prof, 1)
    with pytest.raises(UsageError, match="not running: call start"):
        prof.step()


def test_an_error_in_the_block_delivers_and_passes_on() -> None:
    delivered = Delivered()
    prof = profiler(on_trace_ready=delivered)

    def block() -> None:
        with prof:
            with nvtrace.range("before"):
                pass
            prof.step()
            with nvtrace.range("broken"):
                1 / 0  # noqa: B018

    with pytest.raises(ZeroDivisionError):
        block()
    assert names(prof.trace) == ["before", "broken"]
    assert delivered.calls == [(1, 0)]


def broken(_: Profiler) -> None:
    raise OSError("disk full")


def test_an_error_in_the_handler_costs_no_step() -> None:
    prof = profiler(scheduler=make_scheduler(closed=0, ready=0, record=2), on_trace_ready=broken)
    traces = []
    prof.start()
    for number in range(5):
        with nvtrace.range(f"work {number}"):
            pass
        if number in (1, 3):
            with pytest.raises(OSError, match="disk full"):
                prof.step()
            traces.append(prof.trace)
        else:
            prof.step()
    with pytest.raises(OSError, match="disk full"):
        prof.stop()
    assert [steps(trace) for trace in [*traces, prof.trace]] == [[0, 1], [2, 3], [4]]
    run(profiler(), 1)


def test_an_error_in_the_handler_does_not_hide_that_of_the_block(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ZeroDivisionError), profiler(on_trace_ready=broken):
        1 / 0  # noqa: B018
    assert "the recorded trace was not delivered: disk full" in caplog.text


def test_a_handler_may_stop_the_profiler() -> None:
    prof = profiler(
        scheduler=make_scheduler(closed=0, ready=0, record=2), on_trace_ready=lambda p: p.stop()
    )
    prof.start()
    prof.step()
    prof.step()
    assert steps(prof.stop()) == [0, 1]
    with pytest.raises(UsageError, match="not running"):
        prof.step()


def test_a_scheduler_that_returns_no_state() -> None:
    prof = profiler(scheduler=lambda step: ProfilerState.RECORD if step < 2 else None)
    with pytest.raises(UsageError, match="returned None for step 2"):
        run(prof, 5)
    assert steps(prof.trace) == [0, 1]
    with pytest.raises(UsageError, match="returned 'RECORD' for step 0"):
        profiler(scheduler=lambda _: "RECORD").start()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": ["gpu"]}, r"targets=\['gpu'\]: give a list of ProfilerTarget"),
        ({"targets": 3}, "targets=3: give a list"),
        ({"on_trace_ready": "trace.json"}, "on_trace_ready='trace.json': give a function"),
        ({"scheduler": (3, 3)}, "stop must be a step number after start"),
    ],
)
def test_arguments_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Profiler(**options)


def test_one_target_needs_no_list() -> None:
    assert Profiler(targets=ProfilerTarget.CPU).targets == {ProfilerTarget.CPU}  # type: ignore[arg-type]


# -- what is recorded ------------------------------------------------------------------------------


def test_a_known_program() -> None:
    """Names, kinds, payloads, nesting, threads and durations of a program that is known."""
    ready, go = threading.Event(), threading.Event()

    def worker() -> None:
        ready.set()
        go.wait()
        with nvtrace.range("fetch", payload=2.5):
            time.sleep(0.02)

    before = threading.Thread(target=worker, name="loader")
    before.start()
    ready.wait()
    handles = nvtrace.RecordEvent("upload", "Communication")
    opened = time.time_ns()
    with profiler() as prof:
        with nvtrace.phase("forward"):
            for layer in range(3):
                with nvtrace.range("layer", payload=layer, category="module"):
                    time.sleep(0.01)
            with nvtrace.range("theirs", domain="model"):
                pass
            nvtrace.mark("loss")
        go.set()
        before.join()
        handles.begin()
        during = threading.Thread(target=handles.end, name="closer")
        during.start()
        during.join()
        prof.step()
    closed = time.time_ns()
    rows = {
        (row["name"], row["step"], row["depth"], row["kind"], row["style"])
        for row in listed(prof.trace)
    }
    assert rows == {
        ("ProfileStep", 0, None, "step", "start/end"),
        ("forward", 0, 0, "forward", "push/pop"),
        ("layer", 0, 1, "module", "push/pop"),
        ("theirs", 0, 1, "user", "push/pop"),
        ("loss", 0, None, "user", "mark"),
        ("fetch", 0, 0, "user", "push/pop"),
        ("upload", 0, None, "communication", "start/end"),
    }
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in listed(prof.trace):
        by_name.setdefault(row["name"], []).append(row)
    assert [row["payload"] for row in by_name["layer"]] == ["0", "1", "2"]
    assert by_name["fetch"][0]["payload"] == "2.5"
    assert by_name["theirs"][0]["domain"] == "model"
    assert all(row["duration_ns"] >= 9 * MS for row in by_name["layer"])
    forward = by_name["forward"][0]
    inside = sum(row["duration_ns"] for row in (*by_name["layer"], *by_name["theirs"]))
    assert forward["duration_ns"] - forward["self_ns"] == inside
    assert by_name["fetch"][0]["duration_ns"] >= 19 * MS
    threads = {row["name"]: row["thread"] for row in listed(prof.trace)}
    assert threads["fetch"] == before.native_id
    assert threads["forward"] == threads["layer"] == threads["upload"] == threading.get_native_id()
    assert prof.trace is not None
    known = prof.trace.threads
    named = dict(zip(known["tid"].tolist(), prof.trace.strings.take(known["name"]), strict=True))
    assert named == {
        threading.get_native_id(): "MainThread",
        before.native_id: "loader",
        during.native_id: "closer",
    }
    origin = prof.trace.origin_unix_ns
    assert origin is not None
    for row in listed(prof.trace):
        assert opened <= origin + row["start_ns"] <= origin + row["end_ns"] <= closed
    ends = prof.trace.threads["tid"][prof.trace.ranges["end_thread"]]
    upload = prof.trace.strings.take(prof.trace.ranges["name"]).index("upload")
    assert ends[upload] == during.native_id


def test_threads_started_at_any_moment() -> None:
    """O-30."""
    opened, closing = threading.Event(), threading.Event()

    def over_the_edges() -> None:
        with nvtrace.range("whole run"):
            with nvtrace.range("opened before"):
                opened.set()
                started.wait()
            with nvtrace.range("inside"):
                pass
            with nvtrace.range("closed after"):
                inside.set()
                closing.wait()

    def late() -> None:
        with nvtrace.range("late"):
            pass

    started, inside = threading.Event(), threading.Event()
    early = threading.Thread(target=over_the_edges)
    early.start()
    opened.wait()
    with profiler() as prof:
        started.set()
        inside.wait()
        second = threading.Thread(target=late)
        second.start()
        second.join()
    closing.set()
    early.join()
    third = threading.Thread(target=late)
    third.start()
    third.join()
    # what was open when the window opened is not in it; what was open at its end ends there
    assert sorted(names(prof.trace)) == ["closed after", "inside", "late"]
    flagged = {row["name"]: row["unfinished"] for row in listed(prof.trace)}
    assert flagged == {"closed after": True, "inside": False, "late": False}


def test_ranges_over_the_edges_of_windows_and_steps() -> None:
    delivered = Delivered()
    prof = profiler(
        scheduler=make_scheduler(closed=1, ready=1, record=2, repeat=2), on_trace_ready=delivered
    )
    with prof, nvtrace.range("all"):
        for number in range(8):
            with nvtrace.range("across", payload=number):
                prof.step()
            with nvtrace.range("inside", payload=number):
                pass
    assert len(delivered.traces) == 2
    for trace, first in zip(delivered.traces, (2, 6), strict=True):
        seen = [(r["name"], r["payload"], r["unfinished"]) for r in listed(trace)]
        assert [one for one in seen if one[0] != "ProfileStep"] == [
            ("inside", f"{first - 1}", False),
            ("across", f"{first}", False),
            ("inside", f"{first}", False),
            ("across", f"{first + 1}", True),
        ]
        crossing = next(r for r in listed(trace) if r["name"] == "across")
        step_ends = [r["end_ns"] for r in listed(trace) if r["kind"] == "step"]
        assert crossing["start_ns"] < step_ends[0] < crossing["end_ns"]
        # paddle loses the whole trace to such a range
        assert trace.summary()["user_defined"].rows()


def test_crossing_ranges_keep_their_own_times() -> None:
    """O-36: closed out of order; a stray close is nothing."""
    one, two = nvtrace.range("one"), nvtrace.range("two")
    with profiler() as prof:
        one.__enter__()
        time.sleep(0.001)
        two.__enter__()
        time.sleep(0.001)
        one.__exit__()
        time.sleep(0.001)
        two.__exit__()
        two.__exit__()
        with nvtrace.range("after"):
            pass
    rows = {row["name"]: row for row in listed(prof.trace)}
    edges = [rows[name][edge] for edge in ("start_ns", "end_ns") for name in ("one", "two")]
    assert edges == sorted(set(edges))
    assert rows["one"]["crossing"] or rows["two"]["crossing"]
    assert rows["after"]["depth"] == 0
    assert not any(row["unfinished"] for row in rows.values())


def test_interleaved_tasks_and_generators() -> None:
    @nvtrace.range
    async def task(until: asyncio.Event, then: asyncio.Event) -> None:
        await until.wait()
        time.sleep(0.001)
        then.set()

    async def block(until: asyncio.Event, then: asyncio.Event) -> None:
        async with nvtrace.range("block"):
            await until.wait()
            time.sleep(0.001)
            then.set()

    @nvtrace.range("generator")
    def generator() -> Iterator[int]:
        yield 1
        yield 2

    async def main() -> None:
        first, second, third, over = (asyncio.Event() for _ in range(4))

        async def begin() -> None:
            first.set()

        await asyncio.gather(task(third, over), task(first, second), block(second, third), begin())

    with profiler() as prof:
        asyncio.run(main())
        first, second = generator(), generator()
        assert [next(first), next(second), *first, *second] == [1, 1, 2, 2]
    rows = listed(prof.trace)
    last, first = (row for row in rows if row["name"].endswith("task"))
    (middle,) = (row for row in rows if row["name"] == "block")
    assert last["start_ns"] <= first["start_ns"] <= middle["start_ns"] < first["end_ns"]
    assert first["end_ns"] < middle["end_ns"] < last["end_ns"]
    assert [r["name"] for r in rows if r["name"] in ("block", "generator")] == [
        "block",
        "generator",
        "generator",
    ]
    assert {row["style"] for row in rows} == {"start/end"}
    assert not any(row["unfinished"] for row in rows)


def test_steps_of_ones_own_inside_the_profilers_count_once() -> None:
    with profiler() as prof:
        for number in range(3):
            with nvtrace.step(number + 100):
                pass
            prof.step()
    assert prof.trace is not None
    assert list(prof.trace.explain().step_numbers) == [0, 1, 2]


# -- NVTX ------------------------------------------------------------------------------------------


class Tape:
    """An emitter that writes down its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def bind(self, label: Label) -> Calls:
        def call(what: str) -> Any:
            return lambda *_: self.calls.append((what, label.name))

        return Calls(*(call(what) for what in ("push", "pop", "start", "end", "mark")))


@pytest.mark.parametrize("emit", [True, False])
def test_ranges_go_on_to_nvtx_when_asked(emit: bool) -> None:
    tape = Tape()
    before = switch.use(tape)
    try:
        with profiler(scheduler=(1, 3), emit_nvtx=emit) as prof:
            for _ in range(4):
                with nvtrace.range("a"):
                    nvtrace.mark("m")
                prof.step()
    finally:
        switch.use(before)
    work = [("push", "a"), ("mark", "m"), ("pop", "a")]
    step = ("ProfileStep",)
    recorded = [("start", *step), *work, ("end", *step)] if emit else []
    assert tape.calls == [*work, *recorded, *recorded, *work]
    assert names(prof.trace) == ["a", "m", "a", "m"]


def test_ranges_switched_off_are_not_recorded() -> None:
    with profiler() as prof:
        nvtrace.disable()
        try:
            with nvtrace.range("off"):
                pass
        finally:
            nvtrace.enable()
        prof.step()
    assert names(prof.trace) == []
    assert steps(prof.trace) == [0]


# -- what comes of it ------------------------------------------------------------------------------


def test_without_a_gpu_ranges_are_recorded_and_the_reason_is_printed(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    from nvtrace.errors import NvtraceError
    from nvtrace.sources import cupti

    class Unavailable:
        def start(self) -> None:
            raise NvtraceError("no CUDA device in this machine")

    monkeypatch.setattr(cupti, "Collector", Unavailable)
    prof = Profiler(adapters=None, scheduler=make_scheduler(closed=0, ready=0, record=1))
    run(prof, 3)
    assert caplog.text.count("GPU work was not recorded: no CUDA device in this machine") == 1
    assert prof.trace is not None
    assert not prof.trace.recorded.device
    (work,) = [row for row in listed(prof.trace) if row["name"] == "work 2"]
    assert work["gpu_ns"] is None
    assert work["kernels"] is None
    capsys.readouterr()
    prof.summary(views=[SummaryView.KernelView, "user_defined"], sorted_by=SortedKeys.GPUTotal)
    printed = capsys.readouterr().out
    assert "GPU work was not recorded: no CUDA device in this machine" in printed
    (line,) = [line for line in printed.splitlines() if line.startswith("work 2")]
    assert "- / - / - / - / -" in line


def test_gpu_work_not_asked_for() -> None:
    with profiler() as prof:
        prof.step()
    assert prof.trace is not None
    (note,) = [note for note in prof.trace.notes if note.code == "gpu_not_recorded"]
    assert "not asked for" in note.message


def test_timer_only_says_that_it_records_no_trace(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    prof = profiler(timer_only=True, on_trace_ready=lambda _: pytest.fail("called"))
    run(prof, 3)
    said = "timer_only=True measures throughput and records no trace"
    assert f"on_trace_ready will not be called: {said}" in caplog.text
    assert prof.trace is None
    printed = capsys.readouterr().out
    assert "batch_cost" in printed
    prof.summary()
    printed = capsys.readouterr().out
    assert "batch_cost" in printed
    assert said in printed
    with pytest.raises(UsageError, match=f"nothing to export: {said}"):
        prof.export(tmp_path / "trace.json")
    assert not list(tmp_path.iterdir())


def test_timer_only_without_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    with profiler(timer_only=True):
        pass
    assert "no step ended: call step() after each step" in capsys.readouterr().out


def test_summary_before_anything_was_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    prof = profiler(scheduler=(3, 4))
    prof.summary()
    assert "no window has been recorded yet" in capsys.readouterr().out


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_summary_takes_paddles_arguments(unit: str, capsys: pytest.CaptureFixture[str]) -> None:
    prof = profiler()
    run(prof, 2)
    capsys.readouterr()
    prof.summary(
        sorted_by=SortedKeys.CPUMax,
        op_detail=False,
        thread_sep=True,
        time_unit=unit,
        views=SummaryView.UDFView,
    )
    printed = capsys.readouterr().out
    assert f"Time unit: {unit}" in printed
    assert "UserDefined Summary" in printed
    assert "Kernel Summary" not in printed
    for wrong in ({"time_unit": "min"}, {"views": "kernels"}, {"sorted_by": "CPUTotal2"}):
        with pytest.raises(UsageError):
            prof.summary(**wrong)  # type: ignore[arg-type]


def test_export(tmp_path: Path) -> None:
    prof = profiler()
    run(prof, 2)
    for name, kind in (("a.json", "json"), ("a.json.gz", "chrome"), ("a.sqlite", "sqlite")):
        prof.export(tmp_path / name, kind)
        assert (tmp_path / name).stat().st_size
    assert names(nvtrace.load(tmp_path / "a.sqlite")) == ["work 0", "work 1"]
    with pytest.raises(UsageError, match="export format 'xml': choose json or sqlite"):
        prof.export(tmp_path / "a.xml", "xml")
    with pytest.raises(OutputError):
        prof.export(tmp_path / "missing" / "a.json")
    assert len(list(tmp_path.iterdir())) == 3


def test_repr_says_where_it_is() -> None:
    prof = profiler(scheduler=(1, 3))
    with prof:
        assert "step 0, READY" in repr(prof)
        prof.step()
        assert "step 1, RECORD" in repr(prof)
