"""Every range as one row, with what it launched."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.intervals import by_start
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.summaries.columns import count, text, time
from nvtrace.model.schema import PHASES, PayloadType, RangeFlag, RangeKind, RangeStyle
from nvtrace.report import Column, ReportTable, Unit

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_STYLES = {
    RangeStyle.PUSH_POP: "push/pop",
    RangeStyle.START_END: "start/end",
    RangeStyle.MARK: "mark",
}


def ranges_table(measures: Measures, *, marks: bool = False) -> ReportTable:
    """Return one row a range, by start.

    Args:
        measures: the trace.
        marks: list marks too.
    """
    explained, trace = measures.explained, measures.trace
    ranges = trace.ranges
    chosen = measures.selection.ranges
    if not marks:
        chosen = chosen & (ranges["style"] != RangeStyle.MARK)
    rows = by_start(ranges, np.flatnonzero(chosen))
    recorded = measures.gpu_known[trace.threads["process"][ranges["thread"][rows]]]
    recorded &= ranges["style"][rows] != RangeStyle.MARK
    counted = recorded & (measures.contained_graphs[rows] == 0)
    phases = recorded & np.isin(explained.range_kind[rows], PHASES)
    nested = ranges["style"][rows] == RangeStyle.PUSH_POP
    steps = explained.range_step[rows]
    return ReportTable(
        "ranges",
        "Ranges",
        (
            text("name", "Name", trace.strings.take(explained.range_name[rows])),
            *_labels(measures, rows),
            count("step", "Step", np.maximum(steps, 0), steps >= 0),
            count("depth", "Depth", explained.range_depth[rows], nested),
            time("start_ns", "Start", ranges["start"][rows]),
            time("end_ns", "End", ranges["end"][rows], shown=False),
            time("duration_ns", "Duration", measures.range_time(rows)),
            time("self_ns", "Self", explained.range_self[rows]),
            time("gpu_ns", "GPU", measures.contained_gpu[rows], recorded),
            time("inferred_gpu_ns", "GPU inferred", measures.inferred[rows], phases),
            count("kernels", "Kernels", measures.contained_kernels[rows], counted),
            count(
                "gpu_launches",
                "Launches",
                measures.contained_launches[rows],
                recorded,
                shown=False,
            ),
            _flag("unfinished", explained.range_flags[rows], RangeFlag.UNFINISHED),
            _flag("crossing", explained.range_flags[rows], RangeFlag.CROSSING),
            *_details(measures, rows),
        ),
        empty="no ranges here"
        if trace.recorded.ranges
        else "NVTX ranges were not recorded: trace them with nsys profile -t cuda,nvtx",
    )


def _labels(measures: Measures, rows: I64) -> tuple[Column, ...]:
    trace, ranges = measures.trace, measures.trace.ranges
    thread = ranges["thread"][rows]
    pids = np.array([process.pid for process in trace.processes], np.int64)
    tids = trace.threads["tid"]
    kinds = [RangeKind(kind).name.lower() for kind in measures.explained.range_kind[rows].tolist()]
    categories = trace.categories
    return (
        text("domain", "Domain", [trace.domains[row].name for row in ranges["domain"][rows]]),
        text(
            "category",
            "Category",
            [categories[row] if row >= 0 else None for row in ranges["category"][rows].tolist()],
            shown=False,
        ),
        text("kind", "Kind", kinds),
        text("style", "Style", [_STYLES[style] for style in ranges["style"][rows].tolist()]),
        count("process", "Process", pids[trace.threads["process"][thread]]),
        count("thread", "Thread", tids[thread]),
        count("end_thread", "End thread", tids[ranges["end_thread"][rows]], shown=False),
    )


def _flag(key: str, flags: npt.NDArray[np.uint8], flag: RangeFlag) -> Column:
    return Column(key, key.capitalize(), Unit.BOOL, (flags & np.uint8(flag)) != 0, shown=False)


def _details(measures: Measures, rows: I64) -> tuple[Column, ...]:
    explained, trace = measures.explained, measures.trace
    codes, paths = measures.path
    return (
        text("path", "Path", [paths[code] for code in codes[rows].tolist()], shown=False),
        _optional("attributes", "Attributes", measures, explained.range_attributes[rows]),
        text("payload", "Payload", _payloads(measures, rows), shown=False),
        _optional("text", "Text", measures, trace.ranges["text"][rows]),
    )


def _optional(key: str, title: str, measures: Measures, strings: I32) -> Column:
    table = measures.trace.strings
    values = [table[row] if row >= 0 else None for row in strings.tolist()]
    return text(key, title, values, shown=False)


def _payloads(measures: Measures, rows: I64) -> list[str | None]:
    """Return payloads as text, since their type differs from row to row."""
    ranges = measures.trace.ranges
    kinds, bits = ranges["payload_type"][rows], ranges["payload"][rows]
    values: list[str | None] = [None] * len(rows)
    for place in np.flatnonzero(kinds != PayloadType.NONE).tolist():
        if kinds[place] == PayloadType.FLOAT:
            values[place] = repr(float(bits[place : place + 1].view(np.float64)[0]))
        elif kinds[place] == PayloadType.UINT:
            values[place] = str(int(bits[place : place + 1].view(np.uint64)[0]))
        else:
            values[place] = str(int(bits[place]))
    return values
