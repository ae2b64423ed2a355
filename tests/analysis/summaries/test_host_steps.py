"""Host steps: each nanosecond in the innermost part, against a loop over all nanoseconds."""

from __future__ import annotations

import random

import pytest
from builders import START_END, Capture

PARTS = ("dataloader", "h2d", "dispatch", "compile", "sync", "d2h")
KEYS = {
    "dataloader": "dataloader_ns",
    "h2d": "host_to_device_ns",
    "dispatch": "dispatch_ns",
    "compile": "compile_ns",
    "sync": "sync_ns",
    "d2h": "device_to_host_ns",
}


def nested(chance: random.Random, capture: Capture, start: int, end: int, depth: int) -> None:
    """Fill a stretch with ranges that nest, of these kinds and of others."""
    at = start
    while at < end - 1 and depth < 4:
        first = chance.randrange(at, end)
        last = chance.randrange(first, end + 1)
        kind = chance.choice([*PARTS, "operator", "user"])
        capture.phase(kind, first, last, tid=7)
        nested(chance, capture, first, last, depth + 1)
        at = last + 1


@pytest.mark.parametrize("seed", range(30))
def test_random_steps_by_the_nanosecond(seed: int) -> None:
    chance = random.Random(seed)
    capture = Capture()
    bounds = sorted(chance.sample(range(400), 6))
    steps = list(zip(bounds[::2], bounds[1::2], strict=True))
    for number, (start, end) in enumerate(steps):
        capture.step(number, start, end, tid=7, style=START_END)
    nested(chance, capture, 0, 400, 0)
    capture.phase("sync", 0, 400, tid=8)  # another thread's is not the step's
    expected = []
    ranges = [one for one in capture.ranges if one.tid == 7 and one.category in PARTS]
    for start, end in steps:
        times = dict.fromkeys(KEYS.values(), 0)
        for ns in range(start, end):
            open_ = [one for one in ranges if one.start <= ns < one.end]
            if open_:  # made from the outside in: the last is the innermost
                times[KEYS[open_[-1].category]] += 1
        other = end - start - sum(times.values())
        expected.append({**times, "other_ns": other, "wall_ns": end - start})
    rows = capture.trace().summary("host_steps")["host_steps"].rows()
    assert [row["step"] for row in rows] == ["all", "0", "1", "2"]
    found = [{key: row[key] for key in expected[0]} for row in rows]
    assert found[1:] == expected
    assert found[0] == {key: sum(row[key] for row in expected) for key in expected[0]}


def test_steps_of_two_processes() -> None:
    capture = Capture()
    for pid, waits in ((1, 20), (2, 50)):
        capture.step(0, 0, 100, pid=pid, tid=pid)
        capture.phase("dispatch", 0, 10, pid=pid, tid=pid)
        capture.phase("sync", 10, 10 + waits, pid=pid, tid=pid)
    table = capture.trace().summary("host_steps")["host_steps"]
    assert table["sync_ns"].tolist() == [70, 20, 50]
    assert table["other_ns"].tolist() == [110, 70, 40]
    assert table.column("process").shown


def test_no_steps() -> None:
    capture = Capture()
    capture.phase("dispatch", 0, 10)
    table = capture.trace().summary("host_steps")["host_steps"]
    assert len(table) == 0
    assert "step" in table.empty


def test_it_comes_by_default_where_dispatches_were_marked() -> None:
    capture = Capture()
    capture.step(0, 0, 100)
    assert "host_steps" not in capture.trace().summary()
    capture.phase("dispatch", 0, 10)
    assert "host_steps" in capture.trace().summary()
