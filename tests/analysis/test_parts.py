"""Parts of several files add up: as dictionaries and loops say."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvtrace.analysis.events import Events
from nvtrace.analysis.parts import Figures, Groups, added, with_events
from nvtrace.model.arrays import grouped

row = st.tuples(st.integers(-1, 3), st.integers(0, 2), st.integers(0, 99), st.booleans())


def groups_of(rows) -> Groups:
    """Rows are (key, key, value, whether the total counts it)."""
    first, second, values, counted = (np.array(column) for column in zip(*rows, strict=True))
    keys, codes = grouped(first, second)
    figures = Figures.once(codes, values, counted.astype(bool), len(keys))
    heads = np.array([values[codes == code][0] for code in range(len(keys))])
    return Groups(keys, (figures,), (np.bincount(codes, values).astype(np.int64),), (heads,))


@given(st.lists(st.lists(row, min_size=1, max_size=9), min_size=1, max_size=4))
def test_groups_of_several_files(files):
    found = added([groups_of(rows) for rows in files])
    every = [one for rows in files for one in rows]
    keys = sorted({one[:2] for one in every})
    assert list(map(tuple, found.keys.tolist())) == keys
    (figures,), (sums,), (heads,) = found.figures, found.sums, found.firsts
    for place, key in enumerate(keys):
        values = [one[2] for one in every if one[:2] == key]
        assert figures.calls[place] == len(values)
        assert figures.total[place] == sum(one[2] for one in every if one[:2] == key and one[3])
        assert (figures.maximum[place], figures.minimum[place]) == (max(values), min(values))
        assert figures.average[place] == round(sum(values) / len(values))
        assert (sums[place], heads[place]) == (sum(values), values[0])


def test_a_group_without_calls_has_no_part_in_the_extremes():
    codes, keys = np.array([0, 0]), np.array([[7]])
    part = Groups(keys, (Figures.of(codes, np.array([5, 9]), 1),))
    nothing = Groups(keys, (Figures.none(1),))
    (figures,) = added([nothing, part, nothing]).figures
    assert (figures.calls[0], figures.maximum[0], figures.minimum[0]) == (2, 9, 5)
    (figures,) = added([nothing, nothing]).figures
    assert (figures.calls[0], figures.maximum[0], figures.minimum[0]) == (0, 0, 0)


def test_no_groups():
    empty = Groups(np.empty((0, 2), np.int64), (Figures.none(0),), (np.empty(0, np.int64),))
    assert len(added([empty, empty])) == 0


class Found(NamedTuple):
    count: int
    by_how: np.ndarray
    names: frozenset[str]
    first: tuple[str, ...]
    events: dict[int, Events]
    inner: Groups | None = None


def part(count: int, name: str, row: int) -> Found:
    columns = {"start": np.array([row]), "end": np.array([row + 10])}
    events = {row: Events.of(columns, np.arange(1))}
    return Found(count, np.array([count, 1]), frozenset({name}), (name,), events)


def test_each_kind_of_part_adds_up():
    parts = [part(2, "a", 0), part(3, "b", 1), part(4, "a", 1)]
    found = added(parts)
    assert (found.count, found.by_how.tolist()) == (9, [9, 3])
    assert (found.names, found.first, found.inner) == ({"a", "b"}, ("a", "b", "a"), None)
    assert list(found.events) == [0, 1]
    assert [len(one.intervals()[0]) for one in found.events.values()] == [1, 1]
    window = np.array([0]), np.array([100])
    assert [one.calls(window) for one in found.events.values()] == [1, 2]


@pytest.mark.parametrize("offset", [0, 7])
def test_all_events_of_a_part_are_changed(offset):
    nothing = np.empty(0, np.int64), np.empty(0, np.int64)
    kept = with_events(part(1, "a", 3), lambda events: events.kept(nothing))
    moved = with_events(kept, lambda events: events.moved(offset))
    assert moved.events[3].intervals()[0].tolist() == [3 + offset]
    assert moved[:4] == kept[:4] == (1, kept.by_how, {"a"}, ("a",))
