"""Every derived column of random captures, against loops over all pairs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from builders import START_END, Capture
from oracle import Oracle, random_capture

from nvtrace.analysis.explanation import explain
from nvtrace.errors import UsageError
from nvtrace.model.merging import merge
from nvtrace.model.schema import RangeFlag, RangeKind

SEEDS = range(400)


@pytest.mark.parametrize("block", range(4))
def test_derived_columns_of_random_captures(block):
    for seed in SEEDS[block::4]:
        capture = random_capture(seed)
        truth, explained = Oracle(capture), capture.trace().explain()
        rows = range(len(truth.ranges))
        assert explained.range_parent.tolist() == truth.parent, seed
        assert explained.range_depth.tolist() == [len(truth.above(row)) - 1 for row in rows], seed
        assert explained.range_self.tolist() == [truth.self_ns(row) for row in rows], seed
        crossing = (explained.range_flags & RangeFlag.CROSSING) != 0
        assert crossing.tolist() == [truth.crosses(row) for row in rows], seed
        kinds = [RangeKind[one.category.upper()] for one in truth.ranges]
        assert explained.range_kind.tolist() == kinds, seed
        assert explained.step_rows.tolist() == truth.steps, seed
        assert explained.call_range.tolist() == [truth.owner(call) for call in truth.calls], seed
        assert explained.call_phase.tolist() == [truth.phase_of(c) for c in truth.calls], seed
        assert explained.call_step_row.tolist() == [truth.step_of(c) for c in truth.calls], seed
        assert explained.device_call.tolist() == [truth.call_of(w) for w in truth.work], seed
        found = list(
            zip(explained.device_range.tolist(), explained.device_how.tolist(), strict=True)
        )
        assert found == [truth.how(work) for work in truth.work], seed


@pytest.mark.parametrize("seed", range(40))
def test_rows_of_several_files_one_behind_the_other(seed):
    """Each file's own, with the rows of the files before it counted in."""
    captures = [random_capture(4 * seed + number) for number in range(4)]
    captures.insert(1, Capture())
    truths = [Oracle(capture) for capture in captures]
    explained = explain(merge([capture.trace() for capture in captures], by_time=False))
    expected: dict[str, list[int]] = {}
    ranges = calls = 0

    def add(name: str, rows: Iterable[int], before: int) -> None:
        moved = [row + before if row >= 0 else row for row in rows]
        expected[name] = expected.get(name, []) + moved

    for truth in truths:
        add("range_parent", truth.parent, ranges)
        add("range_self", map(truth.self_ns, range(len(truth.ranges))), 0)
        add("step_rows", truth.steps, ranges)
        add("call_range", map(truth.owner, truth.calls), ranges)
        add("call_phase", map(truth.phase_of, truth.calls), ranges)
        add("call_step_row", map(truth.step_of, truth.calls), ranges)
        add("device_call", map(truth.call_of, truth.work), calls)
        add("device_range", [truth.how(work)[0] for work in truth.work], ranges)
        add("device_how", [truth.how(work)[1] for work in truth.work], 0)
        ranges, calls = ranges + len(truth.ranges), calls + len(truth.calls)
    found = {name: getattr(explained, name).tolist() for name in expected}
    assert found == expected


def numbers(capture: Capture, **options) -> list[int]:
    return capture.trace().explain(**options).step_numbers.tolist()


def test_steps_are_numbered_by_payload_in_nvtrace_s_domain_only():
    capture = Capture()
    capture.step(40, 0, 10)
    capture.step(41, 10, 20, name="step of 7 parts")
    assert numbers(capture) == [40, 41]
    capture = Capture()
    capture.range("step 3", 0, 10, payload=99)
    capture.range("step 4", 10, 20, payload=98)
    assert numbers(capture) == [3, 4]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["ProfilerStep#12", "ProfilerStep#13", "ProfileStep#7"], [12, 13, 7]),
        (["step 12", "iteration0", "train_step_3"], [12, 0, 3]),
    ],
)
def test_steps_are_numbered_by_name(names, expected):
    capture = Capture()
    for place, name in enumerate(names):
        capture.range(name, place * 10, place * 10 + 5)
    assert numbers(capture) == expected


def test_names_without_a_number_of_their_own_are_numbered_by_place():
    capture = Capture()
    for place, name in enumerate(("train", "train", "train 9")):
        capture.range(name, place * 10, place * 10 + 5, pid=2)
    capture.range("train 4", 0, 5, pid=1)
    capture.range("train 6", 7, 9, pid=1)
    capture.ranges.sort(key=lambda one: one.start)
    assert numbers(capture, step_range=["train*"]) == [0, 4, 6, 1, 2]


@pytest.mark.parametrize("name", ["train_v2", "step 3 of 10", "resnet50", "1000000000000000000000"])
def test_the_same_number_in_every_name_counts_nothing(name):
    capture = Capture()
    for place in range(3):
        capture.range(name, place * 10, place * 10 + 5)
    assert numbers(capture, step_range=[name]) == [0, 1, 2]


def test_threads_that_share_a_step_share_its_number():
    capture = Capture()
    for tid in (1, 2):
        capture.range("step 5", tid, 10, tid=tid)
    assert numbers(capture) == [5, 5]


def test_payloads_too_large_to_be_a_number_of_a_step():
    capture = Capture()
    capture.step(2**40, 0, 10)
    capture.step(2**40 + 1, 10, 20)
    assert numbers(capture) == [0, 1]
    assert capture.trace().explain().range_step.tolist() == [0, 1]


def test_a_step_in_a_step_is_a_part_of_it():
    capture = Capture()
    capture.step(1, 0, 100)
    capture.range("between", 5, 60)
    capture.step(2, 10, 50)
    explained = capture.trace().explain()
    assert explained.step_rows.tolist() == [0]
    assert explained.range_step.tolist() == [1, 1, 1]


def test_a_step_in_one_beside_the_nest_is_a_part_of_it():
    """What a Profiler counts as a step holds the step that the program marks itself."""
    capture = Capture()
    for number in range(3):
        at = 100 * number
        capture.step(number, at, at + 100, style=START_END, name="ProfileStep")
        capture.step(number, at + 5, at + 90)
    capture.step(9, 5, 90, tid=2)
    explained = capture.trace().explain()
    assert explained.step_numbers.tolist() == [0, 9, 1, 2]
    assert explained.range_step[explained.trace.ranges["thread"] == 0].tolist() == [
        0, 0, 1, 1, 2, 2,
    ]  # fmt: skip


def test_a_range_or_call_is_in_the_step_of_its_thread_or_of_the_only_other_with_one():
    capture = Capture()
    capture.step(1, 0, 100)
    capture.step(2, 50, 150, tid=2)
    for at in (40, 60, 120, 200):
        capture.call(at, at + 1, tid=3)
        capture.call(at, at + 1)
    assert capture.trace().explain().call_step.tolist() == [1, 1, -1, 1, 2, 2, -1, -1]


def test_steps_that_no_range_is_named_after():
    capture = Capture()
    capture.step(1, 0, 100)
    capture.mark("epoch", 10)
    with pytest.raises(UsageError, match="no range is named 'epoch': no steps"):
        capture.trace().summary(step_range=["epoch"])


def test_explained_once_for_the_same_question():
    trace = Capture(ranges=[]).trace()
    assert trace.explain() is trace.explain()
    assert trace.explain(rules=["x=user"]) is trace.explain(rules=["x=user"])
    assert trace.explain(rules=["x=user"]) is not trace.explain()
