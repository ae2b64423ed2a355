"""Whose GPU work it is: threads, processes, phases, graphs."""

from __future__ import annotations

import numpy as np
import pytest
from builders import START_END, Capture, Node
from oracle import PHASES

from nvtrace.analysis.attribution import OpenRanges, launching_calls, nearest_of
from nvtrace.model.explained import Level
from nvtrace.model.schema import Attribution

NONE, THREAD, INFERRED = Attribution


def found(capture: Capture) -> list[tuple[str | None, Attribution]]:
    """The name of the range each piece of GPU work belongs to, in order of time, and how."""
    explained = capture.trace().explain()
    names = explained.trace.strings.take(explained.range_name)
    return [
        (names[row] if row >= 0 else None, Attribution(how))
        for row, how in zip(explained.device_range, explained.device_how, strict=True)
    ]


def test_the_innermost_range_at_the_launch_not_at_the_run():
    capture = Capture()
    capture.range("first", 0, 100)
    capture.range("inner", 10, 50)
    capture.range("second", 100, 200)
    capture.launch(20, 30, 40, at=110)
    capture.launch(60, 70, 40, at=160)
    assert found(capture) == [("inner", THREAD), ("first", THREAD)]


def test_recursion_and_equal_bounds_give_the_last_to_open():
    capture = Capture()
    for name in ("f", "f", "g"):
        capture.range(name, 0, 100)
    capture.launch(0, 100, 5)
    assert found(capture) == [("g", THREAD)]


def test_touching_ranges_own_what_lies_on_their_border_by_containing_it():
    capture = Capture()
    capture.range("left", 0, 50)
    capture.range("right", 50, 100)
    capture.launch(40, 50, 1)
    capture.launch(50, 60, 1)
    capture.launch(50, 50, 1)
    capture.launch(45, 55, 1)
    assert found(capture) == [
        ("left", THREAD),
        ("right", THREAD),
        ("right", THREAD),
        (None, NONE),
    ]


def test_a_range_of_no_length_owns_an_instant():
    capture = Capture()
    capture.range("outer", 0, 50)
    capture.range("instant", 20, 20)
    capture.launch(20, 20, 1)
    capture.launch(20, 21, 1)
    assert found(capture) == [("instant", THREAD), ("outer", THREAD)]


def test_of_crossing_ranges_the_later_owns_what_both_contain():
    capture = Capture()
    capture.range("a", 0, 60, domain="A")
    capture.range("b", 40, 100, domain="B")
    capture.launch(45, 50, 1)
    capture.launch(20, 30, 1)
    capture.launch(70, 80, 1)
    capture.launch(55, 65, 1)
    assert found(capture) == [("b", THREAD), ("a", THREAD), ("b", THREAD), ("b", THREAD)]


def test_pushes_that_leak_1007_deep():
    capture = Capture()
    for depth in range(1007):
        capture.range(f"level {depth}", depth, 5_000)
    capture.launch(1_500, 1_600, 7)
    capture.launch(500, 501, 9)
    explained = capture.trace().explain()
    assert explained.range_depth.tolist() == list(range(1007))
    assert found(capture) == [("level 1006", THREAD), ("level 500", THREAD)]
    assert explained.range_self.sum() == 5_000


def test_start_end_ranges_own_nothing():
    capture = Capture()
    capture.range("outer", 0, 100)
    capture.range("request", 10, 90, style=START_END)
    capture.launch(20, 30, 1)
    capture.launch(20, 30, 1, tid=2)
    capture.range("elsewhere", 10, 90, style=START_END, tid=2)
    assert found(capture) == [("outer", THREAD), (None, NONE)]


def test_driver_calls_inside_runtime_calls_have_their_own_ids():
    capture = Capture()
    capture.range("range", 0, 100)
    capture.call(10, 30, name="cudaLaunchKernel")
    capture.launch(12, 28, 1, api="cuLaunchKernel")
    assert found(capture) == [("range", THREAD)]
    assert capture.trace().explain().device_call.tolist() == [1]


def test_equal_ids_in_two_processes_are_two_launches():
    capture = Capture()
    for pid in (1, 2):
        capture.range(f"of {pid}", 0, 100, pid=pid)
        correlation = capture.call(10, 20, pid=pid, correlation=5)
        capture.run(200 + pid, 300, correlation, pid=pid)
    assert found(capture) == [("of 1", THREAD), ("of 2", THREAD)]


def test_the_first_of_two_calls_with_one_id():
    # nsys repeats a call for its backtrace; whatever is left of that joins once.
    capture = Capture()
    capture.range("first", 0, 50)
    capture.range("second", 50, 100)
    capture.call(10, 20, correlation=5)
    capture.call(60, 70, correlation=5)
    capture.run(200, 250, 5)
    assert found(capture) == [("first", THREAD)]


@pytest.mark.parametrize("correlation", [0, 99])
def test_an_id_of_zero_or_of_no_call_joins_nothing(correlation):
    capture = Capture()
    capture.range("range", 0, 100)
    capture.call(10, 20, correlation=0)
    capture.run(30, 50, correlation)
    assert found(capture) == [(None, NONE)]


@pytest.mark.parametrize("spread", [1, 10**6, 2**40])
def test_launches_are_found_whatever_the_ids(spread):
    choose = np.random.default_rng(spread % 97)
    capture = Capture()
    ids = choose.choice(2_000, 300) * spread + 1
    for place, one in enumerate(ids.tolist()):
        capture.call(place, place + 1, correlation=one, pid=1 + place % 3)
    wanted = [*choose.choice(ids, 200).tolist(), 7, 2**50]
    for place, one in enumerate(wanted):
        capture.run(1_000 + place, 1_001 + place, one, pid=1 + place % 2)
    trace = capture.trace()
    expected = []
    for work in capture.work:
        same = [
            row
            for row, call in enumerate(capture.calls)
            if (call.pid, call.correlation) == (work.pid, work.correlation)
        ]
        expected.append(same[0] if same else -1)
    assert launching_calls(trace.calls, trace.device).tolist() == expected
    assert -1 in expected
    assert max(expected) > 0


def autograd() -> Capture:
    """The main thread waits in backward while another thread launches."""
    capture = Capture()
    capture.step(0, 0, 300)
    capture.phase("forward", 0, 100)
    capture.phase("backward", 100, 200)
    capture.launch(50, 60, 1)
    capture.launch(150, 160, 10, tid=2)
    return capture


def test_work_of_another_thread_is_inferred_to_the_one_phase_open():
    assert found(autograd()) == [("forward", THREAD), ("backward", INFERRED)]


def test_work_in_an_operator_of_another_thread_stays_the_operators():
    capture = autograd()
    capture.range("MulBackward0", 140, 170, tid=2)
    assert found(capture) == [("forward", THREAD), ("MulBackward0", THREAD)]
    explained = capture.trace().explain()
    phase = explained.trace.strings.take(explained.range_name[explained.call_phase])
    assert phase == ["forward", "backward"]


def test_between_the_phases_nothing_is_inferred():
    capture = autograd()
    capture.launch(250, 260, 100, tid=2)
    assert found(capture)[2] == (None, NONE)


def test_two_threads_with_phases_open_leave_it_unattributed():
    capture = autograd()
    capture.phase("dataloader", 140, 170, tid=3)
    assert found(capture)[1] == (None, NONE)


def test_two_phases_open_on_one_thread_are_one_place():
    capture = autograd()
    capture.phase("optimization", 140, 170)
    assert found(capture)[1] == ("optimization", INFERRED)


def test_a_phase_of_another_process_says_nothing():
    capture = autograd()
    capture.launch(150, 160, 100, pid=2)
    capture.phase("forward", 100, 200, pid=3)
    assert found(capture) == [("forward", THREAD), ("backward", INFERRED), (None, NONE)]


def test_a_step_between_its_phases_does_not_work_for_a_loader_thread():
    capture = Capture()
    capture.step(0, 0, 300)
    capture.phase("forward", 0, 100)
    capture.phase("dataloader", 50, 290, tid=2)
    capture.launch(150, 160, 10)
    explained = capture.trace().explain()
    assert explained.call_phase.tolist() == [-1]
    rows = {row["name"]: row["gpu_total_ns"] for row in capture.trace().summary("model")["model"]}
    assert rows == {"ProfileStep": 10, "Dataloader": 0, "Forward": 0, "Others": 10}


def test_steps_and_other_ranges_are_no_phase_to_infer():
    capture = Capture()
    capture.step(0, 0, 300)
    capture.range("evaluate", 100, 200)
    capture.launch(150, 160, 10, tid=2)
    assert found(capture) == [(None, NONE)]


def test_a_phase_as_start_end_range_takes_other_threads_work():
    capture = Capture()
    capture.phase("backward", 100, 200, style=START_END)
    capture.launch(150, 160, 10, tid=2)
    assert found(capture) == [("backward", INFERRED)]


def test_kernels_of_a_graph_belong_to_the_range_around_its_launch():
    capture = Capture()
    capture.range("capture", 0, 100)
    capture.range("replay", 200, 300)
    for node in (1, 2, 3):
        capture.call(node * 10, node * 10 + 5)
        # the graph is cloned when it is instantiated, and cloned again when it is updated
        capture.nodes.append(Node(node * 10, node * 10 + 5, node, 0, 1, 1))
        capture.nodes.append(Node(110, 110, node + 10, node, 1, 1))
        capture.nodes.append(Node(120, 120, node + 20, node + 10, 1, 1))
    launch = capture.call(210, 220, name="cudaGraphLaunch")
    for node in (1, 2, 3):
        capture.run(400 + node * 10, 405 + node * 10, launch, node=node + 20)
    assert found(capture) == [("replay", THREAD)] * 3
    explained = capture.trace().explain()
    names = explained.trace.strings.take(explained.range_name)
    assert [names[row] for row in explained.device_capture] == ["capture"] * 3


def test_nodes_are_told_apart_by_process_and_cycles_end():
    capture = Capture()
    for pid in (1, 2):
        capture.range(f"capture {pid}", 0, 100, pid=pid)
    capture.nodes += [Node(10, 11, 5, 6, 1, 1), Node(20, 21, 6, 5, 1, 1), Node(30, 31, 5, 0, 2, 1)]
    for pid in (1, 2):
        capture.run(200 + pid, 300, 0, pid=pid, node=5)
    capture.run(250, 300, 0, pid=2, node=77)
    explained = capture.trace().explain()
    names = explained.trace.strings.take(explained.range_name)
    captured = [names[row] if row >= 0 else None for row in explained.device_capture]
    assert captured == ["capture 1", "capture 2", None]


def test_attributed_inferred_and_unattributed_are_all():
    capture = autograd()
    capture.launch(400, 410, 100)
    capture.run(500, 1_500)
    totals = capture.trace().summary(()).totals
    assert totals["gpu_ns"] == 1_111
    assert totals["attributed_gpu_ns"] == 1
    assert totals["inferred_gpu_ns"] == 10
    assert totals["unattributed_gpu_ns"] == 1_100


@pytest.mark.parametrize("seed", range(20))
def test_nearest_wanted_ancestor(seed):
    choose = np.random.default_rng(seed)
    count = int(choose.integers(0, 40))
    parent = np.array([choose.integers(-1, row) if row else -1 for row in range(count)], np.int32)
    wanted = choose.random(count) < 0.3

    def search(row: int) -> int:
        while row >= 0 and not wanted[row]:
            row = parent[row]
        return row

    expected = [search(row) for row in range(count)]
    assert nearest_of(wanted, parent).tolist() == expected
    assert nearest_of(wanted, parent, levels(parent)).tolist() == expected


@pytest.mark.parametrize("seed", range(20))
def test_what_is_open_at_moments_in_any_order(seed):
    choose = np.random.default_rng(seed)
    start = choose.permutation(60)[: int(choose.integers(1, 12))]
    end = start + choose.integers(0, 30, len(start))
    thread = np.zeros(len(start), np.int32)
    table = {"thread": thread, "start": start, "end": end}
    phases = OpenRanges.build(np.arange(len(start)), table, np.zeros(1, np.int32))

    def latest(moment: int) -> int:
        around = np.flatnonzero((start <= moment) & (moment <= end))
        return int(around[np.argmax(start[around])]) if len(around) else -1

    ascending = np.sort(choose.integers(-5, 100, 200))
    for moments in (ascending, choose.permutation(ascending), ascending[:3], ascending[::40]):
        nobody = np.zeros(len(moments), np.int32)
        own, _ = phases.at(nobody, nobody, moments)
        assert own.tolist() == list(map(latest, moments))


def levels(parent: np.ndarray) -> list[Level]:
    """The rows by depth, children of one parent side by side."""
    depth: list[int] = []
    for above in parent.tolist():
        depth.append(depth[above] + 1 if above >= 0 else 0)
    found = []
    for one in range(max(depth, default=-1) + 1):
        rows = sorted((row for row in range(len(parent)) if depth[row] == one), key=parent.item)
        parents = sorted({int(parent[row]) for row in rows} - {-1})
        heads = [[parent[row] for row in rows].index(above) for above in parents]
        above, first = np.array(parents, np.int64), np.array(heads, np.int64)
        found.append(Level(one, np.array(rows), above, first))
    return found


def test_kinds_of_phases_that_take_work():
    for kind in PHASES:
        capture = Capture()
        capture.phase(kind, 0, 100)
        capture.launch(50, 60, 1, tid=2)
        assert found(capture) == [(kind, INFERRED)]
