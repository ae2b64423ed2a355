"""The nest of ranges, against loops over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvtrace.analysis.nesting import Nest

times = st.integers(0, 12)
lengths = st.one_of(st.integers(0, 2), st.integers(0, 12))
ranges = st.lists(st.tuples(st.integers(0, 1), times, lengths), max_size=14)
asked = st.lists(st.tuples(st.integers(0, 2), times, st.integers(0, 5)), max_size=8)


def columns(rows):
    thread, start, length = np.array(rows, np.int64).reshape(-1, 3).T
    return thread.astype(np.int32), start, start + length


def build(rows) -> Nest:
    return Nest.build(np.arange(len(rows)), *columns(rows))


class Plain:
    """The same by the definitions; positions as in the nest."""

    def __init__(self, rows) -> None:
        self.order = sorted(
            range(len(rows)), key=lambda row: (rows[row][0], rows[row][1], -rows[row][2], row)
        )
        self.rows = [(rows[r][0], rows[r][1], rows[r][1] + rows[r][2]) for r in self.order]
        self.parent = [self._parent(place) for place in range(len(rows))]

    def _parent(self, place: int) -> int:
        thread, _, end = self.rows[place]
        return next(
            (
                other
                for other in range(place - 1, -1, -1)
                if self.rows[other][0] == thread and self.rows[other][2] >= end
            ),
            -1,
        )

    def depth(self, place: int) -> int:
        above = self.parent[place]
        return 0 if above < 0 else 1 + self.depth(above)

    def crosses(self, place: int) -> bool:
        thread, start, end = self.rows[place]
        return any(
            thread == other and (s < start < e < end or start < s < end < e)
            for other, s, e in self.rows
        )

    def self_time(self, place: int) -> int:
        _, start, end = self.rows[place]
        children = [row for row, above in enumerate(self.parent) if above == place]
        inside = {m for row in children for m in range(self.rows[row][1], self.rows[row][2])}
        return end - start - len(inside)

    def innermost(self, thread: int, start: int, end: int) -> int:
        inside = [
            place
            for place, (t, s, e) in enumerate(self.rows)
            if t == thread and s <= start and e >= end
        ]
        return self.order[inside[-1]] if inside else -1


@settings(max_examples=300)
@given(ranges, asked)
def test_the_nest_by_its_definitions(rows, wanted):
    nest, plain = build(rows), Plain(rows)
    places = range(len(rows))
    crossing = nest.crossing()
    assert nest.rows.tolist() == plain.order
    assert nest.parent.tolist() == plain.parent
    assert nest.depth.tolist() == [plain.depth(place) for place in places]
    assert crossing.tolist() == [plain.crosses(place) for place in places]
    assert nest.self_time(crossing).tolist() == [plain.self_time(place) for place in places]
    thread, start, end = columns(wanted)
    expected = [plain.innermost(*one) for one in zip(thread, start, end, strict=True)]
    assert nest.innermost(thread, start, end).tolist() == expected


@st.composite
def trees(draw, first: int = 0, last: int = 40, depth: int = 0):
    """Ranges of thread 0 that nest: children side by side in their parent, touching it or not."""
    rows, at = [], first
    for _ in range(draw(st.integers(0, 3)) if depth < 4 else 0):
        start = draw(st.integers(at, last))
        end = draw(st.integers(start, last))
        if end > start:
            rows += [(0, start, end - start), *draw(trees(start, end, depth + 1))]
        at = end
    return rows


@settings(max_examples=300)
@given(trees(), trees(), asked)
def test_what_plainly_nests_needs_no_chain(one, other, wanted):
    rows = [*one, *((1, start, length) for _, start, length in other)]
    nest, plain = build(rows), Plain(rows)
    assert nest.tangled == ()
    assert nest.parent.tolist() == plain.parent
    assert nest.depth.tolist() == [plain.depth(place) for place in range(len(rows))]
    thread, start, end = columns(wanted)
    expected = [plain.innermost(*one) for one in zip(thread, start, end, strict=True)]
    assert nest.innermost(thread, start, end).tolist() == expected


@given(ranges)
def test_levels_are_the_forest_again(rows):
    nest, plain = build(rows), Plain(rows)
    above = {}
    for depth, level in enumerate(nest.levels()):
        families = np.split(level.rows, level.heads[1:]) if len(level.heads) else []
        for parent, children in zip(level.parents.tolist(), families, strict=True):
            above |= dict.fromkeys(children.tolist(), parent)
        places = [plain.order.index(row) for row in level.rows.tolist()]
        assert [plain.depth(place) for place in places] == [depth] * len(places)
    parents = {
        plain.order[place]: plain.order[parent]
        for place, parent in enumerate(plain.parent)
        if parent >= 0
    }
    assert above == parents


@pytest.mark.parametrize("seed", range(3))
def test_a_larger_nest(seed):
    choose = np.random.default_rng(seed)
    rows = [
        (int(choose.integers(0, 3)), int(choose.integers(0, 400)), int(choose.integers(0, 90)))
        for _ in range(300)
    ]
    nest, plain = build(rows), Plain(rows)
    assert nest.parent.tolist() == plain.parent
    assert nest.crossing().tolist() == [plain.crosses(place) for place in range(300)]


def test_equal_bounds_nest_in_order_of_appearance():
    nest = build([(0, 5, 10)] * 3)
    assert nest.rows.tolist() == [0, 1, 2]
    assert nest.parent.tolist() == [-1, 0, 1]
    assert not nest.crossing().any()


def test_a_child_may_end_with_its_parent_but_not_a_ns_later():
    assert build([(0, 0, 10), (0, 4, 6)]).parent.tolist() == [-1, 0]
    assert build([(0, 0, 10), (0, 4, 7)]).parent.tolist() == [-1, -1]


def test_what_touches_neither_nests_nor_crosses():
    nest = build([(0, 0, 10), (0, 10, 5)])
    assert nest.parent.tolist() == [-1, -1]
    assert not nest.crossing().any()


def test_an_instant_at_a_border():
    # At 10 the left one ends and the right one starts: the instant lies in the later.
    nest = build([(0, 0, 10), (0, 10, 5), (0, 10, 0)])
    assert nest.parent.tolist() == [-1, -1, 1]


def test_a_tower_no_recursion_could_climb():
    height = 30_000
    nest = build([(0, level, 2 * (height - level)) for level in range(height)])
    assert nest.depth.tolist() == list(range(height))
    assert nest.levels() == ()
    assert nest.self_time(nest.crossing()).tolist() == [2] * height
    top = nest.innermost(np.array([0], np.int32), np.array([height]), np.array([height + 1]))
    assert top.tolist() == [height - 1]
