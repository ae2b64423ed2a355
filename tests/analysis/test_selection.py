"""What a selection counts, and the window it measures against."""

from __future__ import annotations

import pytest
from builders import Capture

from nvtrace.analysis.selection import select
from nvtrace.errors import UsageError


def training(**facts) -> Capture:
    """Three steps of 100 ns, 10 ns apart; each launches one kernel of 50 ns that runs a step later.

    The GPU is busy from 150 to 200, 260 to 310, and 370 to 420.
    """
    capture = Capture(**facts)
    for number in range(3):
        begin = number * 110
        capture.step(number + 5, begin, begin + 100)
        capture.phase("forward", begin + 10, begin + 40)
        capture.launch(begin + 20, begin + 30, 50, at=begin + 150)
    return capture


def selected(capture: Capture, **arguments):
    return select(capture.trace().explain(), **arguments)


def window(capture: Capture, **arguments) -> list[tuple[int, int]]:
    begins, ends = selected(capture, **arguments).window
    return list(zip(begins.tolist(), ends.tolist(), strict=True))


def test_the_window_is_the_steps():
    assert window(training()) == [(0, 100), (110, 210), (220, 320)]


def test_without_steps_the_window_is_first_to_last_event():
    capture = Capture()
    capture.range("load", 7, 50)
    capture.launch(10, 20, 100, at=400)
    assert window(capture) == [(7, 500)]


def test_steps_that_touch_or_overlap_are_one_window():
    capture = Capture()
    capture.step(0, 0, 100)
    capture.step(1, 100, 200)
    capture.step(1, 150, 250, pid=2)
    assert window(capture) == [(0, 250)]


@pytest.mark.parametrize(
    ("steps", "numbers"),
    [
        ((6, 7), [6]),
        ((None, 7), [5, 6]),
        ((6, None), [6, 7]),
        ((None, None), [5, 6, 7]),
        ((0, 99), [5, 6, 7]),
    ],
)
def test_steps_bring_what_they_launched_whenever_it_ran(steps, numbers):
    capture = training()
    chosen = selected(capture, steps=steps)
    begins = [(number - 5) * 110 for number in numbers]
    explained = capture.trace().explain()
    assert explained.step_numbers[chosen.steps].tolist() == numbers
    device = explained.trace.device
    assert device["start"][chosen.device].tolist() == [begin + 150 for begin in begins]
    assert explained.trace.calls["start"][chosen.calls].tolist() == [b + 20 for b in begins]
    assert window(capture, steps=steps) == [(begin, begin + 100) for begin in begins]


@pytest.mark.parametrize("steps", [(0, 5), (8, None), (6, 6), (7, 6), (None, -1)])
def test_no_such_step_names_those_there_are(steps):
    with pytest.raises(UsageError, match="the trace has steps 5:8") as caught:
        training().trace().summary(steps=steps)
    assert "\n" not in str(caught.value)


def test_steps_of_a_trace_without_any():
    capture = Capture()
    capture.range("load", 0, 10)
    with pytest.raises(UsageError, match="no step ranges found"):
        capture.trace().summary(steps=(0, 1))


@pytest.mark.parametrize("time", [(421, None), (500, 600), (None, 0), (-50, -1), (60, 60), (9, 3)])
def test_a_time_with_nothing_in_it_names_the_real_range(time):
    with pytest.raises(UsageError, match="runs from 0 to 420 ns") as caught:
        training().trace().summary(time=time)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("time", "steps", "expected"),
    [
        ((105, 250), [6, 7], [(110, 210), (220, 250)]),
        ((50, 150), [6], [(50, 100), (110, 150)]),
        ((None, 111), [5, 6], [(0, 100), (110, 111)]),
        ((220, None), [7], [(220, 320)]),
        ((101, 109), [], [(101, 109)]),
        ((350, None), [], [(350, 420)]),
    ],
)
def test_a_time_counts_the_steps_that_start_in_it(time, steps, expected):
    capture = training()
    chosen = selected(capture, time=time)
    numbers = capture.trace().explain().step_numbers
    assert numbers[chosen.steps].tolist() == steps
    assert window(capture, time=time) == expected


def test_a_time_counts_rows_that_start_in_it():
    capture = training()
    chosen = selected(capture, time=(120, 240))
    trace = capture.trace()
    assert trace.ranges["start"][chosen.ranges].tolist() == [120, 220, 230]
    assert trace.calls["start"][chosen.calls].tolist() == [130]
    assert trace.device["start"][chosen.device].tolist() == [150]


def test_time_and_steps_together():
    assert window(training(), steps=(6, 8), time=(None, 230)) == [(110, 210), (220, 230)]


@pytest.mark.parametrize(
    ("arguments", "busy", "length"),
    [
        # in the steps: 150 to 200 in the second, 260 to 310 in the third
        ({}, 100, 300),
        # the second step launches what runs later; what runs in it came from the first
        ({"steps": (6, 7)}, 50, 100),
        # starts in the middle of a kernel that began before
        ({"time": (180, 190)}, 10, 10),
        ({"time": (270, 300)}, 30, 30),
    ],
)
def test_a_gpu_is_busy_with_whatever_runs_in_the_window(arguments, busy, length):
    report = training().trace().summary(["device", "overview"], **arguments)
    (row,) = [row for row in report["device"].rows() if row["device"].startswith("GPU")]
    assert (row["busy_ns"], row["window_ns"]) == (busy, length)
    assert row["utilization"] == pytest.approx(100 * busy / length)
    (kernels,) = [row for row in report["overview"].rows() if row["event_type"] == "Kernel"]
    assert kernels["time_ns"] == busy


def test_phases_of_a_time_are_those_of_the_steps_counted():
    # The window starts within the first step: neither it nor what starts in it later counts.
    capture = Capture()
    for begin in (0, 100):
        capture.step(begin // 100, begin, begin + 100)
        capture.phase("forward", begin + 10, begin + 30)
        capture.phase("backward", begin + 50, begin + 90)
    rows = {
        row["name"]: (row["calls"], row["cpu_total_ns"])
        for row in capture.trace().summary("model", time=(40, None))["model"].rows()
    }
    assert rows == {
        "ProfileStep": (1, 100),
        "Forward": (1, 20),
        "Backward": (1, 40),
        "Others": (None, 40),
    }


def test_a_time_with_no_step_in_it_is_not_a_trace_without_steps():
    report = training().trace().summary(time=(30, 60))
    assert "no_steps" not in {note["code"] for note in report.notes}


def test_ranks_come_from_files(tmp_path):
    import nvtrace

    paths = [training(origin=10**9).write(tmp_path / f"run.rank{rank}.sqlite") for rank in (0, 1)]
    trace = nvtrace.load(paths)
    whole, one = trace.summary("kernel"), trace.summary("kernel", rank=1)
    assert whole["kernel"]["calls"].tolist() == [6]
    assert one["kernel"]["calls"].tolist() == [3]
    with pytest.raises(UsageError, match=r"no process of rank 2: there are ranks 0, 1"):
        trace.summary(rank=2)
    with pytest.raises(UsageError, match="no rank is known"):
        training().trace().summary(rank=0)


def test_steps_of_one_number_in_two_processes_are_both_chosen():
    capture = Capture()
    for pid in (1, 2):
        for number in range(2):
            begin = number * 100 + pid
            capture.step(number, begin, begin + 50, pid=pid)
            capture.launch(begin + 10, begin + 20, pid, pid=pid)
    chosen = selected(capture, steps=(1, 2))
    assert capture.trace().explain().step_numbers[chosen.steps].tolist() == [1, 1]
    assert chosen.calls.sum() == chosen.device.sum() == 2
    assert window(capture, steps=(1, 2)) == [(101, 152)]


def test_work_without_a_recorded_launch_belongs_to_the_step_it_starts_in():
    capture = training()
    capture.run(115, 125)
    capture.run(215, 225)
    chosen = selected(capture, steps=(6, 7))
    assert capture.trace().device["start"][chosen.device].tolist() == [115, 260]


def test_it_belongs_to_a_step_of_its_own_process_where_that_has_steps():
    capture = Capture()
    capture.step(0, 0, 100, pid=1)
    capture.step(0, 50, 150, pid=2)
    capture.step(1, 150, 250, pid=2)
    for pid in (1, 2, 3):
        for start in (20, 120):
            capture.run(start, start + pid, pid=pid)
    trace, chosen = capture.trace(), selected(capture, steps=(0, 1))
    owner = [trace.processes[row].pid for row in trace.device["process"][chosen.device].tolist()]
    start = trace.device["start"][chosen.device].tolist()
    # process 3 has no steps: what of it starts in a step of any other counts
    assert sorted(zip(owner, start, strict=True)) == [(1, 20), (2, 120), (3, 20), (3, 120)]


def test_ranges_and_calls_that_reach_into_the_window_are_cut_to_it():
    capture = training()
    capture.range("background", 5, 300, tid=9)
    capture.call(100, 180, tid=9, name="cudaDeviceSynchronize")
    capture.range("gloo:all_reduce", 90, 150, tid=8)
    report = capture.trace().summary(["overview", "distributed"], steps=(6, 7))
    host = [row for row in report["overview"] if row["side"] == "cpu"]
    rows = {row["event_type"]: (row["calls"], row["time_ns"]) for row in host}
    assert rows["UserDefined"] == (1, 100)
    # 110 to 180, and the launch of the step itself within it
    assert rows["CudaRuntime"] == (2, 70)
    assert rows["Communication"] == (1, 40)
    totals = {row["name"]: row["total_ns"] for row in report["distributed"] if not row["device"]}
    assert totals["Communication"] == 40
