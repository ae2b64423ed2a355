"""When things went on: as by sets of single ns, also of what was kept without the rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nvtrace.analysis.events import NOTHING, Events

times = st.integers(0, 40)
rows = st.lists(st.tuples(times, st.integers(0, 9)), max_size=12)
windows = st.lists(times, max_size=8, unique=True)


def arrays(pairs):
    start, end = np.array(pairs, np.int64).reshape(-1, 2).T
    return start, end


def intervals(rows):
    return sorted((start, start + length) for start, length in rows)


def window_of(edges):
    edges = sorted(edges)[: len(edges) // 2 * 2]
    return list(zip(edges[::2], edges[1::2], strict=True))


def moments(pairs):
    return {moment for start, end in pairs for moment in range(start, end)}


def sharing(pairs, window):
    return sum(
        any(
            (start < last and end > first) or first <= start == end <= last
            for first, last in window
        )
        for start, end in pairs
    )


def events(pairs):
    columns = {"start": arrays(pairs)[0], "end": arrays(pairs)[1]}
    return Events.of(columns, np.arange(len(pairs)))


def check(found, pairs, window):
    edges = arrays(window)
    assert found.within(edges) == len(moments(pairs) & moments(window))
    assert found.calls(edges) == sharing(pairs, window)
    assert moments(np.transpose(found.clipped(edges)).tolist()) == moments(pairs) & moments(window)
    assert moments(np.transpose(found.intervals()).tolist()) == moments(pairs)


@given(rows, windows, st.integers(-50, 50))
def test_what_is_kept_says_the_same_of_any_window_around(rows, edges, offset):
    pairs, window = intervals(rows), window_of(edges)
    check(events(pairs), pairs, window)
    for known in (window[:1], []):
        kept = events(pairs).kept(arrays(known))
        check(kept, pairs, window)
        later = [(start + offset, end + offset) for start, end in pairs]
        around = [(start + offset, end + offset) for start, end in window]
        check(kept.moved(offset), later, around)


@given(st.lists(rows, min_size=1, max_size=4), windows)
def test_those_of_several_files_add_up(files, edges):
    window = window_of(edges)
    parts = [events(intervals(rows)).kept(arrays(window[:1])) for rows in files]
    pairs = [pair for rows in files for pair in intervals(rows)]
    check(Events.added(parts), pairs, window)


def test_far_apart_and_long_intervals_are_kept_exactly():
    pairs = [(0, 2**40), (5, 6), (2**41, 2**41 + 300), (2**60, 2**62)]
    kept = Events.of({"start": arrays(pairs)[0], "end": arrays(pairs)[1]}, np.arange(4)).kept(
        arrays([])
    )
    assert np.transpose(kept.intervals()).tolist() == [
        [0, 2**40],
        [2**41, 2**41 + 300],
        [2**60, 2**62],
    ]
    assert kept.calls(arrays([(2**39, 2**61)])) == 3


def test_nothing():
    edges = arrays([(0, 10)])
    assert (NOTHING.within(edges), NOTHING.calls(edges), len(NOTHING.intervals()[0])) == (0, 0, 0)


def test_rows_that_are_not_to_be_counted_are_not():
    columns = {"start": np.array([1, 5]), "end": np.array([4, 9])}
    some = Events.of(columns, np.array([True, False]), count=False)
    edges = arrays([(0, 10)])
    assert (some.within(edges), some.calls(edges)) == (3, 0)
