"""Columns that are derived file by file, put together for the whole trace.

Nothing in a file is derived from another's rows; what is at work on one file alone is small, and
lies together in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.attribution import OpenRanges
from nvtrace.model.arrays import renumbered
from nvtrace.model.explained import Level
from nvtrace.model.growing import GrowingColumn
from nvtrace.model.trace import FileRows, TraceData

I32 = npt.NDArray[np.int32]

# which table's rows a column is aligned with, and whose rows it holds
_TABLE = {"range": "ranges", "call": "calls", "device": "device"}
_ROWS_OF = {
    **dict.fromkeys(("range_parent", "range_phase", "call_range", "call_phase"), "ranges"),
    **dict.fromkeys(("call_step_row", "device_range", "device_capture", "step_rows"), "ranges"),
    "device_call": "calls",
}


class Derived(NamedTuple):
    """What is derived of a trace.

    Attributes:
        columns: by their names in ``Explained``.
        levels: ranges by depth, none where they are too deep.
        steps: which step is open when.
    """

    columns: dict[str, npt.NDArray[Any]]
    levels: tuple[Level, ...]
    steps: OpenRanges


def gathered(trace: TraceData, derive: Callable[[TraceData, slice], Derived]) -> Derived:
    """Return what ``derive`` finds in each file, as of the whole trace.

    Args:
        trace: the whole.
        derive: given the trace with the rows of one file alone, and which ranges these are.
    """
    columns: dict[str, GrowingColumn] = {}
    levels: list[Level] = []
    steps = OpenRanges({}, {})
    deep = False
    for rows, part in trace.by_file():
        found = derive(part, rows.ranges)
        deep |= not found.levels and bool((found.columns["range_parent"] >= 0).any())
        for name in list(found.columns):
            column = renumbered(_first(rows, name), found.columns.pop(name))
            growing = columns.setdefault(name, GrowingColumn(column.dtype))
            table = _TABLE.get(name.partition("_")[0])
            growing.add(column, getattr(trace, table).rows if table else 0)
        first = np.int32(rows.ranges.start)
        levels += [level.renumbered(first) for level in found.levels]
        steps.add(found.steps.renumbered(first))
    return Derived(
        {name: columns.pop(name).finished() for name in list(columns)},
        () if deep else tuple(levels),
        steps,
    )


def _first(rows: FileRows, name: str) -> np.int32:
    """Return the number of the first of the rows that a column holds; 0 for other columns."""
    table = _ROWS_OF.get(name)
    return np.int32(getattr(rows, table).start if table else 0)
