"""Kernels by range: which kernels each range itself launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.frame import Frame
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.parts import Figures, Groups
from nvtrace.analysis.summaries.columns import count, everywhere, figures, share, text
from nvtrace.analysis.summaries.device import no_device_activity
from nvtrace.analysis.summaries.user_defined import UNATTRIBUTED, process_label
from nvtrace.model.arrays import among, distinct, grouped, taken
from nvtrace.model.schema import Attribution, DeviceKind
from nvtrace.model.strings import Strings
from nvtrace.report import ReportTable

_HOW = {
    Attribution.NONE: UNATTRIBUTED,
    Attribution.THREAD: "attributed",
    Attribution.INFERRED: "inferred",
}


@dataclass(frozen=True)
class Found:
    """Kernels by process, path of the owning range, Attribution and name.

    Attributes:
        groups: figures of the GPU; a path is a place in ``paths``, -1 none.
        paths: names from the outermost ancestor on.
        processes: those with any GPU work.
    """

    groups: Groups
    paths: Sequence[str]
    processes: frozenset[int]

    @classmethod
    def added(cls, parts: Sequence[Found]) -> Found:
        """Return what was found in several files."""
        paths = Strings()
        renamed = []
        for part in parts:
            keys = part.groups.keys.copy()
            keys[:, 1] = taken(paths.intern_all(part.paths), keys[:, 1])
            renamed.append(Groups(keys, part.groups.figures))
        processes = frozenset().union(*(part.processes for part in parts))
        return cls(Groups.added(renamed), list(paths), processes)


def gather(measures: Measures) -> Found:
    """Return the kernels by range, in the order of keys."""
    explained, device = measures.explained, measures.trace.device
    kinds = (DeviceKind.KERNEL, DeviceKind.GRAPH)
    rows = np.flatnonzero(measures.selection.device & among(device["kind"], kinds))
    codes_of, paths = measures.path
    path: npt.NDArray[np.int32] = taken(codes_of, explained.device_range[rows])
    keys, codes = grouped(
        device["process"][rows], path, explained.device_how[rows], device["name"][rows]
    )
    values = Figures.of(codes, measures.device_time[rows], len(keys))
    return Found(Groups(keys, (values,)), paths, frozenset(distinct(device["process"]).tolist()))


def table(found: Found, frame: Frame) -> ReportTable:
    """Return one row a (range path, kernel, process): the path ends at the owning range."""
    trace, keys, (values,) = frame.trace, found.groups.keys, found.groups.figures
    processes = [process_label(trace, row) for row in keys[:, 0].tolist()]
    return ReportTable(
        "kernels_by_range",
        "Kernels by Range",
        (
            text("process", "Process", processes, shown=len(found.processes) > 1),
            text(
                "range",
                "Range",
                [found.paths[row] if row >= 0 else UNATTRIBUTED for row in keys[:, 1].tolist()],
            ),
            text("attribution", "Attribution", [_HOW[how] for how in keys[:, 2].tolist()]),
            text("kernel", "Kernel", trace.strings.take(keys[:, 3])),
            count("calls", "Calls", values.calls),
            *figures(
                "gpu",
                values,
                share(values.total, int(values.total.sum())),
                everywhere(True, len(keys)),
            ),
        ),
        notes=(
            "Each kernel is in the row of the innermost range around its launch; ratios are of the "
            "sum of all rows.",
        ),
        empty=no_device_activity(frame),
    )
