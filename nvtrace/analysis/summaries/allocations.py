"""Allocations view: the memory that a framework's allocator handed out, by place and operator.

An allocation is a mark of category ``allocation`` named ``allocate PLACE`` or ``free PLACE``, with
the bytes as payload; the level reached is a counter ``Memory allocated PLACE``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.intervals import sum_by
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.nesting import Nest
from nvtrace.analysis.summaries.columns import count, text
from nvtrace.model.arrays import distinct, grouped
from nvtrace.model.schema import PayloadType, RangeStyle
from nvtrace.model.trace import TraceData
from nvtrace.report import Column, ReportTable, Unit

I64 = npt.NDArray[np.int64]

_CATEGORY = "allocation"
_OUTSIDE = "outside all ranges"


def has_allocations(trace: TraceData) -> bool:
    """Return whether allocations were recorded."""
    return _CATEGORY in trace.categories


def allocations_view(measures: Measures) -> ReportTable:
    """Return one row a place, and under it one an operator, the most bytes allocated first."""
    trace = measures.trace
    rows = _rows(measures)
    verbs, places = _words(trace, rows)
    keys, codes = grouped(places, _holders(measures, rows))
    used = distinct(keys[:, 0])
    # level 0 has the places, level 1 the names in them
    of_place = np.searchsorted(used, places)
    group = np.concatenate([of_place, len(used) + codes])
    groups = len(used) + len(keys)
    size, freed = np.tile(trace.ranges["payload"][rows], 2), np.tile(verbs, 2)
    freed_calls = sum_by(group, freed.astype(np.int64), groups)
    taken_calls = sum_by(group, (~freed).astype(np.int64), groups)
    freed_bytes = sum_by(group, np.where(freed, size, 0), groups)
    taken_bytes = sum_by(group, np.where(freed, 0, size), groups)
    place_of = np.concatenate([used, keys[:, 0]])
    depth = np.repeat([0, 1], [len(used), len(keys)])
    labels = [trace.strings[row].partition(" ")[2] for row in place_of.tolist()]
    names = [trace.strings[row] if row >= 0 else _OUTSIDE for row in keys[:, 1].tolist()]
    peaks = [_peak(measures, what, label) for label in labels for what in ("allocated", "reserved")]
    order = np.lexsort((-taken_bytes, depth, place_of))
    columns = (
        text("place", "Place", labels, shown=False),
        text("name", "Name", labels[: len(used)] + names),
        count("allocations", "Allocations", taken_calls),
        Column("allocated_bytes", "Allocated", Unit.BYTES, taken_bytes),
        count("frees", "Frees", freed_calls),
        Column("freed_bytes", "Freed", Unit.BYTES, freed_bytes),
        Column("net_bytes", "Net", Unit.BYTES, taken_bytes - freed_bytes),
        _peaks("peak_bytes", "Peak", peaks[0::2], depth),
        _peaks("peak_reserved_bytes", "Peak reserved", peaks[1::2], depth),
    )
    return ReportTable(
        "allocations",
        "Memory Summary",
        tuple(column.take(order) for column in columns),
        indent=depth[order],
        notes=(
            "Each allocation and free once, under the innermost operator that it happened in, or "
            "else the innermost range. Peaks are levels of the whole process.",
        ),
        empty="allocations were not recorded: Profiler(profile_memory=True) asks an adapter to",
    )


def _rows(measures: Measures) -> I64:
    """Return the selected allocations and frees; reservations only move the peak."""
    trace = measures.trace
    if not has_allocations(trace):
        return np.empty(0, np.int64)
    ranges = trace.ranges
    chosen = measures.selection.ranges & (ranges["style"] == RangeStyle.MARK)
    chosen &= ranges["category"] == trace.categories.index(_CATEGORY)
    chosen &= ranges["payload_type"] == PayloadType.INT
    verbs = np.array([text.startswith(("allocate ", "free ")) for text in trace.strings], np.bool_)
    chosen[chosen] = verbs[ranges["name"][chosen]]
    return np.flatnonzero(chosen)


def _words(trace: TraceData, rows: I64) -> tuple[npt.NDArray[np.bool_], I64]:
    """Return of each row whether it frees, and its place as a row of strings (``free PLACE``)."""
    names, codes = np.unique(trace.ranges["name"][rows], return_inverse=True)
    texts = trace.strings.take(names)
    freed = np.array([text.startswith("free ") for text in texts], np.bool_)
    places = [trace.strings.intern(f"free {text.partition(' ')[2]}") for text in texts]
    return freed[codes], np.array(places, np.int64)[codes]


def _holders(measures: Measures, rows: I64) -> I64:
    """Return the name that each row goes under: of its operator, else of its range, -1 none."""
    explained, ranges = measures.explained, measures.trace.ranges
    nested = np.flatnonzero(ranges["style"] == RangeStyle.PUSH_POP)
    nest = Nest.build(
        nested, ranges["thread"][nested], ranges["start"][nested], ranges["end"][nested]
    )
    time = ranges["start"][rows]
    around = nest.innermost(ranges["thread"][rows], time, time)
    operator = np.where(around >= 0, measures.operators.nearest[around], -1)
    holder = np.where(operator >= 0, operator, around)
    return np.where(holder >= 0, explained.range_name[holder], -1).astype(np.int64)


def _peak(measures: Measures, what: str, place: str) -> int | None:
    """Return the highest level of memory allocated or reserved at a place, bytes."""
    trace = measures.trace
    wanted = [
        row
        for row, counter in enumerate(trace.counters)
        if counter.name == f"Memory {what} {place}"
    ]
    samples = np.isin(trace.samples["counter"], wanted)
    samples &= measures.selection.covers(trace.samples["time"])
    return int(trace.samples["value"][samples].max()) if samples.any() else None


def _peaks(key: str, title: str, values: list[int | None], depth: I64) -> Column:
    known = np.array([value is not None for value in values], np.bool_) & (depth == 0)
    return Column(key, title, Unit.BYTES, np.array([v or 0 for v in values], np.int64), known)
