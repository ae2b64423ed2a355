"""Contained and inferred GPU work, and what adds up to what."""

from __future__ import annotations

import numpy as np
import pytest
from builders import START_END, Capture
from oracle import Oracle, ns, random_capture

from nvtrace.analysis.measures import Measures
from nvtrace.analysis.parts import Figures
from nvtrace.analysis.selection import select


def contained(measures: Measures) -> list[list[int]]:
    """GPU time, kernels, launches and graph runs inside each range."""
    columns = (
        measures.contained_gpu,
        measures.contained_kernels,
        measures.contained_launches,
        measures.contained_graphs,
    )
    return [column.tolist() for column in columns]


def measured(capture: Capture, **selection) -> Measures:
    explained = capture.trace().explain()
    return Measures(explained, select(explained, **selection))


@pytest.mark.parametrize("seed", range(200))
def test_contained_and_inferred_of_random_captures(seed):
    capture = random_capture(seed)
    truth, measures = Oracle(capture), measured(capture)
    rows = range(len(truth.ranges))
    assert list(zip(*contained(measures), strict=True)) == [truth.gpu(row) for row in rows]
    inferred = dict.fromkeys(rows, 0)
    for call, work in truth.launches:
        phase = truth.inferred_phase_of(call)
        if phase >= 0:
            inferred[phase] += work.end - work.start
    assert measures.inferred.tolist() == list(inferred.values())
    owned = [0] * len(rows)
    by_how = [0, 0, 0]
    for work in truth.work:
        row, how = truth.how(work)
        by_how[how] += work.end - work.start
        if how == 1:
            owned[row] += work.end - work.start
    assert measures.owned_gpu.tolist() == owned
    assert measures.by_how.tolist() == by_how
    assert sum(by_how) == sum(work.end - work.start for work in truth.work)


@pytest.mark.parametrize("seed", range(100))
def test_where_nothing_crosses_self_adds_up_to_the_outermost(seed):
    capture = random_capture(seed, ranges=8)
    truth, explained = Oracle(capture), capture.trace().explain()
    threads = {(one.pid, one.tid) for one in truth.ranges}
    for thread in threads:
        rows = [
            row
            for row, one in enumerate(truth.ranges)
            if (one.pid, one.tid) == thread and one.style == 0
        ]
        if not any(truth.crosses(row) for row in rows):
            assert explained.range_self[rows].sum() == len(ns([truth.ranges[row] for row in rows]))


def test_calls_inside_calls_and_across_bounds():
    # cudaMemcpy runs a driver call inside it; a call over the end of the range is not in it.
    capture = Capture()
    capture.range("work", 10, 50)
    capture.launch(10, 20, 100)
    capture.launch(12, 18, 1, api="cuLaunchKernel")
    capture.launch(12, 20, 10, api="cuLaunchKernel")
    capture.launch(30, 50, 1_000)
    capture.launch(45, 51, 10_000)
    capture.launch(9, 12, 100_000)
    capture.launch(50, 50, 1_000_000)
    assert contained(measured(capture)) == [[1_001_111], [5], [5], [0]]


def test_an_instant_on_the_border_of_two_ranges_is_in_both():
    capture = Capture()
    capture.range("left", 0, 10)
    capture.range("right", 10, 20)
    capture.launch(10, 10, 5)
    assert contained(measured(capture)) == [[5, 5], [1, 1], [1, 1], [0, 0]]


def test_ranges_that_cross_each_hold_what_lies_in_them():
    capture = Capture()
    capture.range("around", 0, 100)
    capture.range("one", 10, 60)
    capture.range("two", 40, 90)
    for gpu, (start, end) in ((1, (45, 50)), (10, (20, 30)), (100, (55, 65)), (1_000, (91, 92))):
        capture.launch(start, end, gpu)
    assert measured(capture).contained_gpu.tolist() == [1_111, 11, 101]


def test_one_call_of_many_kernels_is_one_launch():
    capture = Capture()
    capture.range("replay", 0, 10)
    graph = capture.call(2, 4, name="cudaGraphLaunch")
    for kernel in range(50):
        capture.run(100 + kernel * 10, 107 + kernel * 10, graph)
    assert contained(measured(capture)) == [[350], [50], [1], [0]]


def test_start_end_ranges_hold_what_their_own_thread_launches_inside():
    capture = Capture()
    capture.range("request", 0, 100, style=START_END, end_tid=2)
    capture.range("request", 50, 150, style=START_END)
    capture.launch(60, 70, 5)
    capture.launch(60, 70, 50, tid=2)
    measures = measured(capture)
    assert measures.contained_gpu.tolist() == [5, 5]
    assert measures.by_how.tolist() == [55, 0, 0]


@pytest.mark.parametrize("seed", range(20))
def test_figures_against_plain_loops(seed):
    choose = np.random.default_rng(seed)
    count, groups = choose.integers(0, 30), 5
    codes, values = choose.integers(0, groups, count), choose.integers(0, 1_000, count)
    counted = choose.random(count) < 0.5
    found = Figures.once(codes, values, counted, groups)
    for group in range(groups):
        mine = values[codes == group].tolist()
        assert found.calls[group] == len(mine)
        assert found.total[group] == values[(codes == group) & counted].sum()
        assert found.maximum[group] == max(mine, default=0)
        assert found.minimum[group] == min(mine, default=0)
        assert abs(found.average[group] - sum(mine) / max(len(mine), 1)) <= 0.5


def test_paths_name_every_ancestor():
    capture = Capture()
    for name, start, end in (("a", 0, 9), ("b", 1, 8), ("a", 2, 7), ("b", 10, 12)):
        capture.range(name, start, end)
    codes, paths = measured(capture).path
    assert [paths[code] for code in codes] == ["a", "a / b", "a / b / a", "b"]


def test_exact_sums_of_long_times():
    # 2**52 ns in two rows: what float32, or a sum in floating microseconds, would round.
    capture = Capture()
    capture.range("long", 0, 10)
    for kernel in (2**52 - 1, 3):
        capture.launch(2, 3, kernel)
    assert measured(capture).contained_gpu.tolist() == [2**52 + 2]


def test_no_rows_at_all():
    measures = measured(Capture())
    assert contained(measures) == [[], [], [], []]
    assert measures.by_how.tolist() == [0, 0, 0]
    assert measures.path[1] == []
