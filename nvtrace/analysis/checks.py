"""What in a trace makes its figures weaker than they look."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nvtrace.analysis.classification import DOMAIN
from nvtrace.analysis.frame import Frame
from nvtrace.analysis.intervals import by_start
from nvtrace.analysis.measures import Measures
from nvtrace.model.arrays import distinct
from nvtrace.model.schema import DeviceKind, RangeFlag
from nvtrace.model.trace import NOTE_CATEGORY, Note


class Signs(NamedTuple):
    """What speaks for weak figures.

    Attributes:
        unlaunched: number of device rows without a recorded launch.
        graphs: number of runs of whole CUDA graphs.
        graphs_ns: their GPU time.
        capturing: names of ranges in which work of graphs was captured.
        crossing: number of ranges that cross another.
        steps: number of steps, selected or not.
        named: name of the first step, of a file whose steps are recognised by name alone.
        marks: what adapters left as notes.
    """

    unlaunched: int
    graphs: int
    graphs_ns: int
    capturing: frozenset[str]
    crossing: int
    steps: int
    named: tuple[str, ...]
    marks: frozenset[str]


def gather(measures: Measures) -> Signs:
    """Return what speaks for weak figures."""
    explained, selection = measures.explained, measures.selection
    device, strings = measures.trace.device, measures.trace.strings
    lost = selection.device & (explained.device_call < 0) & (device["correlation"] != 0)
    graphs = selection.device & (device["kind"] == DeviceKind.GRAPH)
    crossing = (explained.range_flags & np.uint8(RangeFlag.CROSSING)) != 0
    captured = explained.device_capture
    capturing = explained.range_name[distinct(captured[captured >= 0])]
    return Signs(
        unlaunched=int(np.count_nonzero(lost)),
        graphs=int(np.count_nonzero(graphs)),
        graphs_ns=int(measures.device_time[graphs].sum()),
        capturing=frozenset(strings.take(capturing)),
        crossing=int(np.count_nonzero(selection.ranges & crossing)),
        steps=len(explained.step_rows),
        named=_named(measures),
        marks=_left_by_adapters(measures),
    )


def _named(measures: Measures) -> tuple[str, ...]:
    explained = measures.explained
    steps = explained.step_rows[measures.selection.steps]
    if not explained.range_guessed[steps].any():
        return ()
    first = by_start(measures.trace.ranges, steps)[0]
    return (measures.trace.strings[int(explained.range_name[first])],)


def _left_by_adapters(measures: Measures) -> frozenset[str]:
    trace = measures.trace
    if NOTE_CATEGORY not in trace.categories:
        return frozenset()
    own = np.array([domain.name == DOMAIN for domain in trace.domains], np.bool_)
    wanted = trace.ranges["category"] == trace.categories.index(NOTE_CATEGORY)
    names = distinct(trace.ranges["name"][wanted & own[trace.ranges["domain"]]])
    return frozenset(trace.strings.take(names))


def figure_notes(signs: Signs, frame: Frame) -> list[Note]:
    """Return notes on the figures, one line each, most serious first."""
    notes = [
        _silent_processes(frame),
        _unlaunched(signs, frame),
        _graphs(signs),
        _captures(signs),
        _crossing(signs),
        _steps(signs, frame),
        _unknown_devices(frame),
    ]
    marked = (text.partition(": ") for text in sorted(signs.marks))
    return [
        *(note for note in notes if note),
        *(Note(code, message) for code, _, message in marked if message),
    ]


def _silent_processes(frame: Frame) -> Note | None:
    """Processes that launched GPU work, in a trace of such work, with none of it recorded."""
    if not frame.basis.mute or not frame.trace.recorded.device:
        return None
    processes = frame.trace.processes
    pids = ", ".join(str(processes[row].pid) for row in sorted(frame.basis.mute))
    return Note(
        "process_without_gpu_activity",
        f"processes {pids} launched GPU work, but none of it was recorded: their GPU time is "
        "not known. Start workers with spawn instead of fork, and let them exit by themselves "
        "before the capture ends",
    )


def _unlaunched(signs: Signs, frame: Frame) -> Note | None:
    if not signs.unlaunched:
        return None
    return Note(
        "launch_not_recorded",
        f"{signs.unlaunched:,} of {frame.basis.device_rows:,} kernels and copies have no recorded "
        "launch (launched outside the capture or by an API that was not traced): they stay "
        "unattributed",
    )


def _graphs(signs: Signs) -> Note | None:
    if not signs.graphs:
        return None
    return Note(
        "graph_level_trace",
        f"{signs.graphs:,} CUDA graph runs ({signs.graphs_ns / 1e6:,.2f} ms) were recorded as a "
        "whole: how many kernels they ran is not known; record with --cuda-graph-trace=node",
    )


def _captures(signs: Signs) -> Note | None:
    if not signs.capturing:
        return None
    names = sorted(signs.capturing)
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    return Note(
        "graph_capture",
        f"kernels captured in {shown} ran when their CUDA graph was launched, and belong to "
        "the ranges around the launch",
    )


def _crossing(signs: Signs) -> Note | None:
    if not signs.crossing:
        return None
    return Note(
        "crossing_ranges",
        f"{signs.crossing:,} ranges cross another on their thread (different domains, or "
        "a push that was never popped): each keeps its own times",
    )


def _steps(signs: Signs, frame: Frame) -> Note | None:
    if not signs.steps and frame.trace.recorded.ranges:
        return Note(
            "no_steps",
            "no step ranges found: mark them with nvtrace.step(), or name them with "
            "--step-range NAME",
        )
    if not signs.named:
        return None
    return Note(
        "steps_by_name",
        f"steps were recognised by name ({signs.named[0]!r} and the like); "
        "--step-range NAME overrides it",
    )


def _unknown_devices(frame: Frame) -> Note | None:
    if all(device.process < 0 for device in frame.trace.devices):
        return None
    return Note(
        "unknown_device",
        "the report does not say which GPU a device number stands for: devices are listed by "
        "process and number, and two of them may be one GPU",
    )
