"""What in a trace makes its figures weaker than they look."""

from __future__ import annotations

import numpy as np

from nvtrace.analysis.classification import DOMAIN
from nvtrace.analysis.intervals import by_start
from nvtrace.analysis.measures import Measures
from nvtrace.model.arrays import distinct
from nvtrace.model.schema import DeviceKind, RangeFlag
from nvtrace.model.trace import NOTE_CATEGORY, Note


def figure_notes(measures: Measures) -> list[Note]:
    """Return notes on the figures, one line each, most serious first."""
    checks = (
        _silent_processes,
        _unlaunched,
        _graphs,
        _captures,
        _crossing,
        _guessed_steps,
        _unknown_devices,
        _left_by_adapters,
    )
    return [note for check in checks for note in check(measures)]


def _silent_processes(measures: Measures) -> list[Note]:
    """Processes that launched GPU work of which nothing was recorded."""
    if not len(measures.silent):
        return []
    processes = measures.trace.processes
    pids = ", ".join(str(processes[row].pid) for row in measures.silent.tolist())
    return [
        Note(
            "process_without_gpu_activity",
            f"processes {pids} launched GPU work, but none of it was recorded: their GPU time is "
            "not known. Start workers with spawn instead of fork, and let them exit by themselves "
            "before the capture ends",
        )
    ]


def _unlaunched(measures: Measures) -> list[Note]:
    explained, device = measures.explained, measures.trace.device
    lost = measures.selection.device & (explained.device_call < 0) & (device["correlation"] != 0)
    if not lost.any():
        return []
    return [
        Note(
            "launch_not_recorded",
            f"{int(lost.sum()):,} of {device.rows:,} kernels and copies have no recorded launch "
            "(launched outside the capture or by an API that was not traced): they stay "
            "unattributed",
        )
    ]


def _graphs(measures: Measures) -> list[Note]:
    runs = measures.selection.device & (measures.trace.device["kind"] == DeviceKind.GRAPH)
    if not runs.any():
        return []
    total = int(measures.device_time[runs].sum())
    return [
        Note(
            "graph_level_trace",
            f"{int(runs.sum()):,} CUDA graph runs ({total / 1e6:,.2f} ms) were recorded as a "
            "whole: how many kernels they ran is not known; record with --cuda-graph-trace=node",
        )
    ]


def _captures(measures: Measures) -> list[Note]:
    captured = measures.explained.device_capture
    rows = distinct(captured[captured >= 0])
    if not len(rows):
        return []
    names = sorted(set(measures.trace.strings.take(measures.explained.range_name[rows])))
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    return [
        Note(
            "graph_capture",
            f"kernels captured in {shown} ran when their CUDA graph was launched, and belong to "
            "the ranges around the launch",
        )
    ]


def _crossing(measures: Measures) -> list[Note]:
    crossing = measures.selection.ranges & (
        (measures.explained.range_flags & np.uint8(RangeFlag.CROSSING)) != 0
    )
    if not crossing.any():
        return []
    return [
        Note(
            "crossing_ranges",
            f"{int(crossing.sum()):,} ranges cross another on their thread (different domains, or "
            "a push that was never popped): each keeps its own times",
        )
    ]


def _guessed_steps(measures: Measures) -> list[Note]:
    explained = measures.explained
    steps = explained.step_rows[measures.selection.steps]
    if not len(explained.step_rows):
        if not measures.trace.recorded.ranges:
            return []
        return [
            Note(
                "no_steps",
                "no step ranges found: mark them with nvtrace.step(), or name them with "
                "--step-range NAME",
            )
        ]
    if not len(steps) or not explained.range_guessed[steps].any():
        return []
    first = by_start(measures.trace.ranges, steps)[0]
    name = measures.trace.strings[int(explained.range_name[first])]
    return [
        Note(
            "steps_by_name",
            f"steps were recognised by name ({name!r} and the like); "
            "--step-range NAME overrides it",
        )
    ]


def _unknown_devices(measures: Measures) -> list[Note]:
    unknown = [device for device in measures.trace.devices if device.process >= 0]
    if not unknown:
        return []
    return [
        Note(
            "unknown_device",
            "the report does not say which GPU a device number stands for: devices are listed by "
            "process and number, and two of them may be one GPU",
        )
    ]


def _left_by_adapters(measures: Measures) -> list[Note]:
    """What adapters marked in the report for whoever reads it, each once."""
    trace = measures.trace
    if NOTE_CATEGORY not in trace.categories:
        return []
    own = np.array([domain.name == DOMAIN for domain in trace.domains], np.bool_)
    wanted = trace.ranges["category"] == trace.categories.index(NOTE_CATEGORY)
    names = distinct(trace.ranges["name"][wanted & own[trace.ranges["domain"]]])
    texts = (text.partition(": ") for text in sorted(trace.strings.take(names)))
    return [Note(code, message) for code, _, message in texts if message]
