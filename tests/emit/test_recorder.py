"""The recorder alone: nothing is lost, nothing is twice, and memory is bounded and counted."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import random
import signal
import sys
import threading
import time
import tracemalloc
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nvtrace
from nvtrace.emit import Label, pairing, switch
from nvtrace.emit.native import BestNest
from nvtrace.emit.nest import BYTES_PER_RANGE, Nest, PythonNest
from nvtrace.emit.recorder import Recorder as AnyRecorder
from nvtrace.emit.recording import RecordedThread, Recording
from nvtrace.model.schema import RangeFlag, RangeStyle

Make = Callable[..., AnyRecorder]


@pytest.fixture(params=["python", "native"])
def Recorder(request: pytest.FixtureRequest) -> Make:
    """A recorder with each of the parts that record what nests."""
    if request.param == "native" and BestNest is PythonNest:
        pytest.skip("the native part is not built: python setup.py build_ext --inplace")
    kind: type[Nest] = BestNest if request.param == "native" else PythonNest
    return functools.partial(AnyRecorder, nest=kind)


@contextlib.contextmanager
def recording_to(made: AnyRecorder) -> Iterator[AnyRecorder]:
    before = switch.use(made)
    try:
        yield made
    finally:
        switch.use(before)


def ranges(recording: Recording) -> list[dict[str, Any]]:
    """Every range as a dictionary, names and payloads in place of numbers."""
    rows = pairing.rows(recording)
    return [
        {
            "name": recording.labels[label][0],
            "payload": recording.labels[label][4],
            "start": start,
            "end": end,
            "thread": thread,
            "end_thread": end_thread,
            "style": RangeStyle(style),
            "unfinished": bool(flags & RangeFlag.UNFINISHED),
        }
        for label, start, end, thread, end_thread, style, flags in zip(
            *(column.tolist() for column in vars(rows).values()), strict=True
        )
    ]


# -- pairing ---------------------------------------------------------------------------------------


def expected_pairs(codes: list[int]) -> tuple[set[tuple[int, int]], list[int]]:
    """A pop takes the latest open push of its label: looked for backwards, pop by pop."""
    pairs: set[tuple[int, int]] = set()
    closed: set[int] = set()
    for place, code in enumerate(codes):
        if code < 0:
            opens = [i for i in range(place) if codes[i] == ~code and i not in closed]
            if opens:
                pairs.add((opens[-1], place))
                closed.add(opens[-1])
    return pairs, [i for i, code in enumerate(codes) if code >= 0 and i not in closed]


@st.composite
def nested(draw: st.DrawFn) -> list[int]:
    """Pushes and pops as ``with`` blocks make them, some still open at the end."""
    codes, stack = [], []
    for label in draw(st.lists(st.integers(-1, 3), max_size=40)):
        if label >= 0:
            stack.append(label)
            codes.append(label)
        elif stack:
            codes.append(~stack.pop())
    return codes


@given(st.one_of(nested(), st.lists(st.integers(-4, 3), max_size=40)))
def test_pairs(codes: list[int]) -> None:
    first, second, left = pairing.pair(np.array(codes, np.int64))
    pairs, still_open = expected_pairs(codes)
    assert set(zip(first.tolist(), second.tolist(), strict=True)) == pairs
    assert len(first) == len(pairs)
    assert left.tolist() == still_open


def test_depths_beyond_16_bits() -> None:
    depth = 40_000
    codes = np.concatenate([np.zeros(depth, np.int64), np.full(depth, ~0)])
    first, second, left = pairing.pair(codes)
    order = np.argsort(first)
    assert first[order].tolist() == list(range(depth))
    assert second[order].tolist() == list(range(2 * depth - 1, depth - 1, -1))
    assert not len(left)


# -- threads, signals, the moment of taking --------------------------------------------------------


def test_eight_threads_at_once_lose_nothing(Recorder: Make) -> None:
    labels = [nvtrace.range(f"label {n}") for n in range(5)]
    counted: list[Counter[str]] = [Counter() for _ in range(8)]
    tids: list[int] = [0] * 8

    def work(place: int) -> None:
        tids[place] = threading.get_native_id()
        chosen = random.Random(place)

        def nest(depth: int) -> None:
            number = chosen.randrange(5)
            counted[place][f"label {number}"] += 1
            with labels[number]:
                if depth:
                    nest(depth - 1)

        for _ in range(2500):
            nest(chosen.randrange(4))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with recording_to(Recorder(None)) as made:
            threads = [threading.Thread(target=work, args=(n,), name=f"w{n}") for n in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            taken = made.take()
    finally:
        sys.setswitchinterval(before)
    rows = ranges(taken)
    assert sum(map(len, counted)) == 40
    for place, tid in enumerate(tids):
        assert Counter(r["name"] for r in rows if r["thread"] == tid) == counted[place]
    assert not any(row["unfinished"] for row in rows)
    assert all(row["start"] <= row["end"] for row in rows)
    assert taken.dropped == 0
    assert {thread.tid: thread.name for thread in taken.threads if thread.events} == {
        tid: f"w{n}" for n, tid in enumerate(tids)
    }


def test_a_signal_handler_may_record_at_any_moment(Recorder: Make) -> None:
    """Three appends a range once let a handler in between them, and shifted every row after."""
    fired = 0
    inner, outer = nvtrace.range("handler"), nvtrace.range("loop")

    def handler(*_: object) -> None:
        nonlocal fired
        fired += 1
        with inner:
            pass

    before = signal.signal(signal.SIGALRM, handler)
    loops = 0
    try:
        with recording_to(Recorder(None)) as made:
            signal.setitimer(signal.ITIMER_REAL, 2e-4, 2e-4)
            while fired < 300:
                loops += 1
                with outer:
                    pass
            signal.setitimer(signal.ITIMER_REAL, 0)
            taken = made.take()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert Counter(row["name"] for row in ranges(taken)) == {"handler": fired, "loop": loops}
    assert not any(row["unfinished"] for row in ranges(taken))


def test_what_is_taken_while_threads_record_is_whole(Recorder: Make) -> None:
    """Each thread numbers its ranges: a window holds an unbroken run of numbers, each once.

    From when it was open for all, that is: a thread held up between the two halves of a range may
    get there as the window opens, before what it enters next does.
    """
    over = threading.Event()

    reached = [0, 0, 0]

    def work(place: int) -> None:
        number = 0
        while not over.is_set():
            number += 1
            with nvtrace.range("work", payload=number % 500):
                pass
            reached[place] = number

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=work, args=(place,)) for place in range(3)]
    windows = []
    try:
        for thread in threads:
            thread.start()
        for _ in range(20):
            with recording_to(Recorder(None)) as made:
                opened = time.time_ns()
                begun = list(reached)
                while any(now < then + 5 for now, then in zip(reached, begun, strict=True)):
                    over.wait(0.005)
            windows.append((opened, made.take()))
    finally:
        over.set()
        sys.setswitchinterval(before)
        for thread in threads:
            thread.join()
    for opened, taken in windows:
        rows = sorted(ranges(taken), key=lambda row: row["start"])
        rows = [row for row in rows if row["start"] >= opened]
        for thread in threads:
            numbers = [row["payload"] for row in rows if row["thread"] == thread.native_id]
            assert len(numbers) >= 3
            steps = {(b - a) % 500 for a, b in itertools.pairwise(numbers)}
            assert steps <= {1}


def test_after_taking_nothing_is_recorded_or_kept(Recorder: Make) -> None:
    label = Label("late")
    made = Recorder(None)
    label.bind(made)
    label.push()
    handle = label.start()
    assert len(ranges(made.take())) == 2
    label.pop()
    label.end(handle)
    label.mark()
    label.push()
    label.pop()
    again = made.take()
    assert ranges(again) == []
    assert again.empty


# -- start/end ranges and marks --------------------------------------------------------------------


def test_start_and_end_on_two_threads(Recorder: Make) -> None:
    made = Recorder(None)
    label = Label("upload", payload=7)
    label.bind(made)
    first, second = label.start(), label.start()
    ender = threading.Thread(target=label.end, args=(first,))
    ender.start()
    ender.join()
    label.end(first)  # a second end is nothing
    label.end(object())
    label.mark()
    taken = made.take()
    here = threading.get_native_id()
    assert sorted(
        (row["style"], row["unfinished"], row["thread"], row["end_thread"]) for row in ranges(taken)
    ) == [
        (RangeStyle.START_END, False, here, ender.native_id),
        (RangeStyle.START_END, True, here, here),
        (RangeStyle.MARK, False, here, here),
    ]
    assert {row["payload"] for row in ranges(taken)} == {7}
    label.end(second)


def test_payloads_of_equal_value_and_other_type_stay_apart(Recorder: Make) -> None:
    with recording_to(Recorder(None)) as made:
        for payload in (1, 1.0, None, 0, -0.0):
            with nvtrace.range("x", payload=payload):
                pass
        taken = made.take()
    assert [repr(row["payload"]) for row in ranges(taken)] == ["1", "1.0", "None", "0", "-0.0"]


def test_the_wall_clock_set_back() -> None:
    events = array("q", [0, 50, ~0, 40])
    said = ("x", "nvtrace", "user", 0, None, type(None))
    (row,) = ranges(Recording([said], [RecordedThread(1, "main", events, 60)]))
    assert (row["start"], row["end"]) == (50, 50)


# -- the budget ------------------------------------------------------------------------------------


def test_a_range_takes_32_bytes(Recorder: Make) -> None:
    count = 60_000
    label = Label("x")
    made = Recorder(None)
    label.bind(made)
    push, pop = label.push, label.pop
    push()
    pop()
    gc.collect()
    tracemalloc.start()
    for _ in range(count):
        push()
        pop()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert BYTES_PER_RANGE == 32
    # three chunks are not packed yet: a list of pointers and of integers with a head each
    assert count * 32 - 3 * 32768 < size < count * 32 * 1.05 + 3 * 4096 * 48
    assert len(ranges(made.take())) == count + 1


def test_the_budget_is_kept_and_what_is_dropped_is_counted(Recorder: Make) -> None:
    made = Recorder(None, budget_bytes=320_000)
    with recording_to(made):
        with nvtrace.range("outer"):
            for _ in range(50_000):
                with nvtrace.range("inner"):
                    pass
        taken = made.take()
    rows = ranges(taken)
    kept = [row for row in rows if not row["unfinished"]]
    assert len(kept) + taken.dropped == 50_001
    assert 10_000 - 4096 <= len(kept) <= 10_000 + 4096
    (outer,) = [row for row in rows if row["name"] == "outer"]
    assert outer["unfinished"]
    # it was recorded up to where room ended, and not to the window's end
    assert max(row["end"] for row in kept) <= outer["end"] < taken.end_ns


def test_names_marks_and_start_end_ranges_are_within_the_budget(Recorder: Make) -> None:
    budget, count = 250_000, 5_000

    def record(made: AnyRecorder, count: int) -> None:
        for number in range(count):
            label = Label(f"step {number}")
            label.bind(made)
            label.push()
            label.pop()
            label.end(label.start())
            label.mark()

    record(Recorder(None), 10)  # what is imported and made once is there by now
    made = Recorder(None, budget_bytes=budget)
    gc.collect()
    tracemalloc.start()
    record(made, count)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 2 * budget
    taken = made.take()
    rows = ranges(taken)
    assert len(rows) + taken.dropped == 3 * count
    assert 300 < len(rows) < 3 * count
    assert len({row["name"] for row in rows}) > 100
