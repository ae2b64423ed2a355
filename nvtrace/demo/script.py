"""A tape turned into columns, and played: the times of one run of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nvtrace.demo.catalog import PUSH_POP, START_END, Label
from nvtrace.demo.tape import NONE, Tape

Ints = NDArray[np.int64]

_LATENCY_NS = 3_600  # from the begin of a launch call to the begin of the work on an idle stream
_GAP_NS = 700  # between two pieces of work on one stream
_WAKE_NS = 900  # from the end of the last work to the return of the call that waits for it


@dataclass(frozen=True)
class Script:
    """Columns of a `Tape`: one row a range, call, piece of device work, containment."""

    exact: bool
    gaps: Ints
    sync_tick: int
    label: Ints
    range_thread: Ints
    range_end_thread: Ints
    open_tick: Ints
    close_tick: Ints
    has_step: NDArray[np.bool_]
    is_start_end: NDArray[np.bool_]
    never_closed: NDArray[np.bool_]
    api: Ints
    call_thread: Ints
    begin_tick: Ints
    end_tick: Ints
    event_class: Ints
    correlated: NDArray[np.bool_]
    kind: Ints
    item: Ints
    work_call: Ints
    work_tick: Ints
    stream: Ints
    duration: Ints
    size: Ints
    node: Ints
    owner: Ints  # of each piece of work: the range, or NONE
    phase: Ints  # of each piece of work: the phase it is inferred to, or NONE
    inside_work: Ints  # pairs (work, range that contains its call)
    inside_range: Ints
    on_stream: tuple[Ints, ...]
    allocations: Ints  # rows of (call, address, size)
    nodes: Ints  # rows of (call, node, original)
    node_owner: Ints


@dataclass(frozen=True)
class Played:
    """One run of a script by one rank; times in ns."""

    script: Script
    rank: int
    step: int
    ticks: Ints
    work_start: Ints
    work_end: Ints
    end: int


def compile_tape(
    tape: Tape, label_id: Callable[[Label], int], api_id: Callable[[str], int]
) -> Script:
    """Turn a tape into columns.

    Args:
        tape: a finished recording.
        label_id: gives a label's number.
        api_id: gives an API name's number.
    """
    ranges, calls, works = tape.ranges, tape.calls, tape.works
    linked = [w.call != NONE and calls[w.call].correlated for w in works]
    inside = [(i, r) for i, work in enumerate(works) if linked[i] for r in calls[work.call].inside]
    streams = _ints(w.stream for w in works)
    return Script(
        exact=tape.exact,
        gaps=_ints(tape.gaps),
        sync_tick=tape.sync_tick,
        label=_ints(label_id(r.label) for r in ranges),
        range_thread=_ints(r.thread for r in ranges),
        range_end_thread=_ints(r.end_thread for r in ranges),
        open_tick=_ints(r.open_tick for r in ranges),
        close_tick=_ints(r.close_tick for r in ranges),
        has_step=np.array([r.has_step for r in ranges], bool),
        is_start_end=np.array([r.label.event_type == START_END for r in ranges], bool),
        never_closed=np.array(
            [r.label.event_type in (PUSH_POP, START_END) and r.close_tick == NONE for r in ranges],
            bool,
        ),
        api=_ints(api_id(c.api) for c in calls),
        call_thread=_ints(c.thread for c in calls),
        begin_tick=_ints(c.begin_tick for c in calls),
        end_tick=_ints(c.end_tick for c in calls),
        event_class=_ints(c.driver for c in calls),
        correlated=np.array([c.correlated for c in calls], bool),
        kind=_ints(w.kind for w in works),
        item=_ints(w.item for w in works),
        work_call=_ints(w.call for w in works),
        work_tick=_ints(w.tick for w in works),
        stream=streams,
        duration=_ints(w.duration_ns for w in works),
        size=_ints(w.size for w in works),
        node=_ints(w.node for w in works),
        owner=_ints(
            calls[w.call].owner if ok else NONE for w, ok in zip(works, linked, strict=True)
        ),
        phase=_ints(
            calls[w.call].phase if ok else NONE for w, ok in zip(works, linked, strict=True)
        ),
        inside_work=_ints(i for i, _ in inside),
        inside_range=_ints(r for _, r in inside),
        on_stream=tuple(np.flatnonzero(streams == s) for s in np.unique(streams)),
        allocations=_ints(((a.call, a.address, a.size) for a in tape.allocations), 3),
        nodes=_ints(tape.nodes, 3),
        node_owner=_ints(calls[call].owner for call, _, _ in tape.nodes),
    )


def play(
    script: Script, rank: int, step: int, start: int, rng: np.random.Generator, pace: float
) -> Played:
    """Give a script its times.

    Args:
        script: what to play.
        rank: who plays it.
        step: number of the training step, NONE outside.
        start: when, in ns.
        rng: varies gaps and durations, unless the script is exact.
        pace: factor on all gaps.
    """
    gaps, duration = script.gaps, script.duration
    latency = np.full(duration.size, _LATENCY_NS)
    if not script.exact:
        gaps = np.maximum((gaps * _spread(rng, gaps.size) * pace).astype(np.int64), 1)
        duration = (duration * (0.9 + 0.2 * rng.random(duration.size))).astype(np.int64)
        latency = (latency * _spread(rng, latency.size)).astype(np.int64)
    ticks = start + np.cumsum(gaps)
    work_start = ticks[script.work_tick] + latency
    for rows in script.on_stream:
        work_start[rows] = _queue(work_start[rows], duration[rows])
    work_end = work_start + duration
    done = int(work_end.max(initial=start))
    if script.sync_tick != NONE:
        ticks[script.sync_tick :] += max(0, done + _WAKE_NS - int(ticks[script.sync_tick]))
    end = max(done, int(ticks[-1]))
    return Played(script, rank, step, ticks, work_start, work_end, end)


def _queue(ready: Ints, duration: Ints) -> Ints:
    """Start times on one stream: each piece waits until it is ready and its predecessor is over."""
    before = np.cumsum(duration + _GAP_NS) - (duration + _GAP_NS)
    return before + np.maximum.accumulate(ready - before)


def _spread(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Factors of mean 1 with the long tail that host times have."""
    return 0.75 + 0.25 * np.minimum(rng.standard_exponential(size), 12.0)


def _ints(values: Iterable[object], width: int = 0) -> Ints:
    array = np.array(list(values), np.int64)
    return array.reshape(-1, width) if width else array
