"""What a small capture means, by the definitions alone: loops over all pairs, sets of single ns."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from random import Random

from builders import MARK, PUSH_POP, START_END, Call, Capture, Range, Work

from nvtrace.model.schema import DeviceKind

PHASES = ("dataloader", "forward", "backward", "optimization")


def ns(rows: Iterable[Range | Call | Work]) -> set[int]:
    """Return every ns in which any of ``rows`` goes on."""
    return {moment for row in rows for moment in range(row.start, row.end)}


def same_thread(a: Range | Call, b: Range | Call) -> bool:
    return (a.pid, a.tid) == (b.pid, b.tid)


class Oracle:
    """Rows are places in the trace's tables: by start, longer first, then as added."""

    def __init__(self, capture: Capture) -> None:
        def by_time(rows: list) -> list:
            return sorted(rows, key=lambda row: (row.start, -row.end))

        self.ranges: list[Range] = by_time(capture.ranges)
        self.calls: list[Call] = by_time(capture.calls)
        self.work: list[Work] = by_time(capture.work)

    @cached_property
    def parent(self) -> list[int]:
        """The latest earlier-starting range whose end is not before its own."""
        found = []
        for row, inner in enumerate(self.ranges):
            outer = [
                place
                for place, one in enumerate(self.ranges[:row])
                if same_thread(one, inner) and one.style == PUSH_POP and one.end >= inner.end
            ]
            found.append(outer[-1] if outer and inner.style == PUSH_POP else -1)
        return found

    def above(self, row: int) -> list[int]:
        """The range and its ancestors, from the inside out."""
        chain = []
        while row >= 0:
            chain.append(row)
            row = self.parent[row]
        return chain

    def nearest(self, row: int, kinds: Iterable[str]) -> int:
        return next((one for one in self.above(row) if self.ranges[one].category in kinds), -1)

    def self_ns(self, row: int) -> int:
        children = [self.ranges[place] for place, up in enumerate(self.parent) if up == row]
        return len(ns([self.ranges[row]]) - ns(children))

    def crosses(self, row: int) -> bool:
        one = self.ranges[row]
        return one.style == PUSH_POP and any(
            same_thread(one, other)
            and other.style == PUSH_POP
            and (
                one.start < other.start < one.end < other.end
                or other.start < one.start < other.end < one.end
            )
            for other in self.ranges
        )

    @cached_property
    def steps(self) -> list[int]:
        rows = [
            row
            for row, one in enumerate(self.ranges)
            if one.category == "step" and one.style != MARK
        ]
        return [
            row
            for row in rows
            if not set(self.above(row)[1:]) & set(rows)
            and not any(self._lies_in_step_beside(row, other) for other in rows)
        ]

    def _lies_in_step_beside(self, row: int, other: int) -> bool:
        inner, outer = self.ranges[row], self.ranges[other]
        return (
            (inner.style, outer.style) == (PUSH_POP, START_END)
            and same_thread(inner, outer)
            and outer.start <= inner.start
            and inner.end <= outer.end
        )

    @cached_property
    def phases(self) -> list[int]:
        return [
            row
            for row, one in enumerate(self.ranges)
            if one.category in PHASES and one.style != MARK
        ]

    def open_at(self, rows: list[int], thread: Range | Call, moment: int) -> tuple[int, int]:
        """The one of ``rows`` open on the thread, and the one on the only other that has any."""
        here, there = -1, {}
        for row in rows:
            one = self.ranges[row]
            if one.pid == thread.pid and one.start <= moment <= one.end:
                if one.tid == thread.tid:
                    here = row
                else:
                    there[one.tid] = row
        return here, there.popitem()[1] if here < 0 and len(there) == 1 else -1

    def step_of(self, thread: Range | Call) -> int:
        """The row of the step that a range or call starts in."""
        return max(self.open_at(self.steps, thread, thread.start))

    def containing(self, call: Call) -> list[int]:
        return [
            row
            for row, one in enumerate(self.ranges)
            if same_thread(one, call)
            and one.style != MARK
            and one.start <= call.start
            and call.end <= one.end
        ]

    def owner(self, call: Call) -> int:
        nested = [row for row in self.containing(call) if self.ranges[row].style == PUSH_POP]
        return nested[-1] if nested else -1

    def phase_of(self, call: Call) -> int:
        """The phase around the owner; or beside it on the thread; or inferred."""
        around = self.nearest(self.owner(call), PHASES)
        if around >= 0:
            return around
        beside = [
            row
            for row in self.containing(call)
            if row in self.phases and self.ranges[row].style == START_END
        ]
        if beside:
            return max(beside, key=lambda row: (self.ranges[row].start, -self.ranges[row].end, row))
        return self.inferred_phase_of(call)

    def inferred_phase_of(self, call: Call) -> int:
        """The only phase open in the process, where it is on another thread."""
        around = self.nearest(self.owner(call), PHASES)
        if around >= 0 or self.open_at(self.steps, call, call.start)[0] >= 0:
            return -1
        return self.open_at(self.phases, call, call.start)[1]

    def call_of(self, work: Work) -> int:
        return next(
            (
                row
                for row, call in enumerate(self.calls)
                if work.correlation and (call.pid, call.correlation) == (work.pid, work.correlation)
            ),
            -1,
        )

    @cached_property
    def launches(self) -> list[tuple[Call, Work]]:
        pairs = [(self.call_of(work), work) for work in self.work]
        return [(self.calls[row], work) for row, work in pairs if row >= 0]

    def gpu(self, row: int) -> tuple[int, int, int, int]:
        """GPU time, kernels, launching calls and graph runs of what a range contains."""
        inside = [pair for pair in self.launches if row in self.containing(pair[0])]
        return (
            sum(work.end - work.start for _, work in inside),
            sum(work.kind == DeviceKind.KERNEL for _, work in inside),
            len({(call.pid, call.correlation) for call, _ in inside}),
            sum(work.kind == DeviceKind.GRAPH for _, work in inside),
        )

    def how(self, work: Work) -> tuple[int, int]:
        """The range that GPU work belongs to, and how: 0 none, 1 by thread, 2 inferred."""
        row = self.call_of(work)
        if row < 0:
            return -1, 0
        call = self.calls[row]
        if self.owner(call) >= 0:
            return self.owner(call), 1
        phase = self.inferred_phase_of(call)
        return phase, 2 if phase >= 0 else 0


def random_capture(seed: int, *, ranges: int = 14, calls: int = 10, last: int = 40) -> Capture:
    """Return ranges of all kinds, and calls that launch nothing or several things.

    Two of three captures have no calls of no length, and one of them no ranges that cross: as most
    real ones.
    """
    choose, plain, lasting = Random(seed), seed % 3 == 0, seed % 3 < 2
    capture = Capture(uuids={(1, 0): "GPU-0", (2, 0): "GPU-1", (2, 1): "GPU-0"})
    kinds = ("step", *PHASES, "operator", "operator_inner", "communication", "user", "module")
    for _ in range(choose.randint(0, ranges)):
        start = choose.randint(0, last)
        end = min(start + choose.choice([0, 1, 3, choose.randint(0, last)]), last)
        before = len(capture.ranges)
        capture.phase(
            choose.choice(kinds),
            *(start, end),
            name=choose.choice("abc"),
            pid=choose.choice([1, 1, 1, 2]),
            tid=choose.choice([1, 1, 1, 2, 3]),
            payload=None,
            style=choose.choice([PUSH_POP] * 6 + [START_END, MARK]),
        )
        if plain and any(map(Oracle(capture).crosses, range(before + 1))):
            del capture.ranges[before:]
    for _ in range(choose.randint(0, calls)):
        pid, tid = choose.choice([1, 1, 2]), choose.choice([1, 1, 2, 3])
        start = choose.randint(0, last)
        end = min(start + choose.choice([0, 1, 2, 6]), last)
        if lasting and start == end:
            start, end = min(start, last - 1), min(start, last - 1) + 1
        taken = {call.correlation for call in capture.calls if call.pid == pid}
        correlation = min({*range(1, 99)} - taken)
        capture.call(start, end, pid=pid, tid=tid, correlation=correlation)
        for _ in range(choose.choice([0, 1, 1, 1, 3])):
            begin = choose.randint(0, last)
            capture.run(
                *(begin, min(begin + choose.randint(0, 9), last)),
                choose.choice([correlation] * 9 + [0, 77]),
                name=choose.choice(["gemm", "relu", "ncclDevKernel_AllReduce"]),
                kind=choose.choice([*[DeviceKind.KERNEL] * 4, *DeviceKind]),
                pid=pid,
                device=choose.randint(0, pid - 1),
            )
    return capture
