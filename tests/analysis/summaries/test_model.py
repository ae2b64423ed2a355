"""Model view: phases are exclusive, process-wide, and add up to their steps."""

from __future__ import annotations

from collections import defaultdict

import pytest
from builders import MARK, START_END, Capture
from oracle import PHASES, Oracle, ns, random_capture

FIGURES = ("calls", "cpu_total_ns", "gpu_total_ns")


def model(capture: Capture, **selection) -> dict[str, tuple]:
    table = capture.trace().summary("model", **selection)["model"]
    return {row["name"]: tuple(row[key] for key in FIGURES) for row in table}


def full(capture: Capture, **selection) -> dict[str, dict]:
    table = capture.trace().summary("model", **selection)["model"]
    return {row["name"]: row for row in table}


class Expected:
    """The rows by the definitions, for all of a capture."""

    def __init__(self, capture: Capture) -> None:
        self.truth = truth = Oracle(capture)
        self.instances: dict[int, list[int]] = defaultdict(list)
        for row in truth.phases:
            self.instances[self._instance(row)].append(row)

    def _above(self, row: int) -> int:
        return self.truth.nearest(self.truth.parent[row], PHASES)

    def _instance(self, row: int) -> int:
        above = self._above(row)
        same = above >= 0 and self._kind(above) == self._kind(row)
        return self._instance(above) if same else row

    def _kind(self, row: int) -> str:
        return self.truth.ranges[row].category

    def _counts(self, row: int) -> bool:
        return not self.truth.steps or self.truth.step_of(self.truth.ranges[row]) >= 0

    def _cpu(self, row: int) -> int:
        inside = [self.truth.ranges[p] for p in self.truth.phases if self._above(p) == row]
        return len(ns([self.truth.ranges[row]]) - ns(inside))

    def _gpu(self, row: int) -> int:
        return sum(
            work.end - work.start
            for call, work in self.truth.launches
            if self.truth.phase_of(call) == row
            and (not self.truth.steps or self.truth.step_of(call) >= 0)
        )

    def rows(self) -> dict[str, tuple]:
        truth, found = self.truth, {}
        steps = [truth.ranges[row] for row in truth.steps]
        step_gpu = sum(w.end - w.start for c, w in truth.launches if truth.step_of(c) >= 0)
        if steps:
            found["ProfileStep"] = (len(steps), sum(s.end - s.start for s in steps), step_gpu)
        phase_gpu = 0
        for kind in PHASES:
            mine = [p for p in self.instances if self._kind(p) == kind and self._counts(p)]
            if mine:
                cpu = sum(self._cpu(row) for p in mine for row in self.instances[p])
                gpu = sum(self._gpu(row) for p in mine for row in self.instances[p])
                found[kind.capitalize()] = (len(mine), cpu, gpu)
                phase_gpu += gpu
        if steps:
            left = 0
            for pid in {step.pid for step in steps}:
                phases = [truth.ranges[p] for p in truth.phases if self._counts(p)]
                left += len(
                    ns(s for s in steps if s.pid == pid) - ns(p for p in phases if p.pid == pid)
                )
            found["Others"] = (None, left, step_gpu - phase_gpu)
        return found


@pytest.mark.parametrize("block", range(4))
def test_random_captures(block):
    for seed in [1956, *range(block, 400, 4)]:
        capture = random_capture(seed, ranges=12)
        assert model(capture) == Expected(capture).rows(), seed


def test_a_training_step():
    capture = Capture()
    for begin in (0, 100):
        capture.step(begin // 100, begin, begin + 90)
        capture.phase("dataloader", begin, begin + 10)
        capture.phase("forward", begin + 10, begin + 40)
        capture.phase("backward", begin + 40, begin + 70)
        capture.phase("optimization", begin + 70, begin + 85)
        capture.launch(begin + 20, begin + 25, 100 + begin)
        capture.launch(begin + 50, begin + 55, 300, tid=2)
        capture.launch(begin + 86, begin + 88, 7)
    rows = full(capture)
    step, forward, backward = rows["ProfileStep"], rows["Forward"], rows["Backward"]
    assert [step[f"cpu_{key}"] for key in ("total_ns", "avg_ns", "max_ns", "min_ns", "ratio")] == [
        *(180, 90, 90, 90, 100.0)
    ]
    assert [step[f"gpu_{key}"] for key in ("total_ns", "avg_ns", "max_ns", "min_ns")] == [
        *(914, 457, 507, 407)
    ]
    assert [forward[f"gpu_{key}"] for key in ("total_ns", "avg_ns", "max_ns", "min_ns")] == [
        *(300, 150, 200, 100)
    ]
    assert forward["cpu_ratio"] == pytest.approx(60 / 180 * 100)
    assert forward["gpu_ratio"] == pytest.approx(300 / 914 * 100)
    assert (backward["gpu_total_ns"], backward["inferred_gpu_ns"]) == (600, 600)
    assert (forward["inferred_gpu_ns"], rows["Others"]["inferred_gpu_ns"]) == (0, None)
    others = rows["Others"]
    assert (others["calls"], others["cpu_total_ns"], others["gpu_total_ns"]) == (None, 10, 14)
    assert (others["cpu_avg_ns"], others["gpu_max_ns"]) == (None, None)


def test_a_phase_in_another_counts_for_itself():
    # A closure run inside optimizer.step: forward and backward lie within the optimization.
    capture = Capture()
    capture.step(0, 0, 100)
    capture.phase("optimization", 10, 90)
    capture.phase("forward", 20, 40)
    capture.phase("backward", 40, 70)
    capture.phase("forward", 50, 60)
    capture.launch(55, 56, 1)
    capture.launch(30, 31, 10)
    capture.launch(80, 81, 100)
    assert model(capture) == {
        "ProfileStep": (1, 100, 111),
        "Forward": (2, 30, 11),
        "Backward": (1, 20, 0),
        "Optimization": (1, 30, 100),
        "Others": (None, 20, 0),
    }


def test_a_phase_in_its_own_kind_is_a_part_of_it():
    capture = Capture()
    capture.step(0, 0, 100)
    capture.phase("forward", 10, 90)
    capture.range("layer", 15, 80)
    capture.phase("forward", 20, 40)
    capture.launch(30, 31, 5)
    assert model(capture)["Forward"] == (1, 80, 5)


def test_phases_outside_the_steps_are_said_and_not_counted():
    capture = Capture()
    capture.step(0, 100, 200)
    capture.phase("forward", 0, 50)
    capture.phase("forward", 110, 150)
    capture.launch(10, 20, 1_000)
    table = capture.trace().summary("model")["model"]
    assert [(row["name"], row["calls"], row["cpu_total_ns"]) for row in table] == [
        ("ProfileStep", 1, 100),
        ("Forward", 1, 40),
        ("Others", None, 60),
    ]
    assert any("1 phases (0.00 ms) start outside the steps" in note for note in table.notes)


def test_a_phase_that_starts_before_the_step_leaves_the_step_its_time():
    capture = Capture()
    capture.phase("forward", 0, 150)
    capture.step(0, 100, 200, tid=2)
    assert model(capture) == {"ProfileStep": (1, 100, 0), "Others": (None, 100, 0)}


def test_several_processes_and_threads_add_up():
    capture = Capture()
    for pid in (1, 2):
        capture.step(0, 0, 100, pid=pid)
        capture.phase("forward", 10, 60, pid=pid)
        capture.phase("dataloader", 0, 100, pid=pid, tid=2)
    rows = full(capture)
    assert model(capture) == {
        "ProfileStep": (2, 200, 0),
        "Dataloader": (2, 200, 0),
        "Forward": (2, 100, 0),
        "Others": (None, 0, 0),
    }
    assert (rows["Dataloader"]["cpu_ratio"], rows["Forward"]["cpu_ratio"]) == (100.0, 50.0)


def test_more_time_than_the_steps_have_is_no_share_of_them():
    capture = Capture()
    capture.step(0, 0, 100)
    for tid in (2, 3, 4):
        capture.phase("dataloader", 0, 90, tid=tid)
    row = full(capture)["Dataloader"]
    assert (row["cpu_total_ns"], row["cpu_ratio"]) == (270, None)


def test_without_steps_the_window_is_the_base():
    capture = Capture()
    for pid in (1, 2):
        capture.phase("forward", 0, 80, pid=pid)
        capture.phase("backward", 80, 100, pid=pid)
    rows = full(capture)
    assert list(rows) == ["Forward", "Backward"]
    assert (rows["Forward"]["cpu_ratio"], rows["Backward"]["cpu_ratio"]) == (80.0, 20.0)


@pytest.mark.parametrize("seed", range(30))
def test_ratios_and_others_stay_in_bounds(seed):
    for row in full(random_capture(seed)).values():
        assert row["cpu_ratio"] is None or 0 <= row["cpu_ratio"] <= 100
        assert row["gpu_ratio"] is None or 0 <= row["gpu_ratio"] <= 100
        assert min(row["cpu_total_ns"], row["gpu_total_ns"]) >= 0


def test_phases_as_start_end_ranges_and_marks():
    capture = Capture()
    capture.step(0, 0, 100)
    capture.phase("forward", 10, 40, style=START_END)
    capture.phase("forward", 30, 60, style=START_END)
    capture.phase("backward", 70, 70, style=MARK)
    assert model(capture) == {
        "ProfileStep": (1, 100, 0),
        "Forward": (2, 60, 0),
        "Others": (None, 50, 0),
    }


def test_no_phases_and_no_steps_say_what_to_do():
    capture = Capture()
    capture.range("load", 0, 10)
    table = capture.trace().summary("model")["model"]
    assert len(table) == 0
    assert "nvtrace.step()" in table.empty


def test_kinds_by_name_alone_are_named():
    capture = Capture()
    capture.range("step 1", 0, 10)
    capture.range("forward", 0, 5)
    notes = capture.trace().summary("model")["model"].notes
    assert "Recognised by name alone: step, forward." in notes
