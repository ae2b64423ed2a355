"""Kernels by range: which kernels each range itself launched."""

from __future__ import annotations

import numpy as np

from nvtrace.analysis.measures import Figures, Measures
from nvtrace.analysis.summaries.columns import count, everywhere, figures, grouped, share, text
from nvtrace.analysis.summaries.device import no_device_activity
from nvtrace.analysis.summaries.user_defined import UNATTRIBUTED, process_label
from nvtrace.model.arrays import among
from nvtrace.model.schema import Attribution, DeviceKind
from nvtrace.report import ReportTable

_HOW = {
    Attribution.NONE: UNATTRIBUTED,
    Attribution.THREAD: "attributed",
    Attribution.INFERRED: "inferred",
}


def kernels_by_range_view(measures: Measures) -> ReportTable:
    """Return one row a (range path, kernel, process): the path ends at the owning range."""
    explained, trace = measures.explained, measures.trace
    device = trace.device
    kinds = (DeviceKind.KERNEL, DeviceKind.GRAPH)
    rows = np.flatnonzero(measures.selection.device & among(device["kind"], kinds))
    codes_of, paths = measures.path
    owner = explained.device_range[rows]
    path = np.full(len(rows), -1, np.int64)
    path[owner >= 0] = codes_of[owner[owner >= 0]]
    keys, codes = grouped(
        device["process"][rows], path, explained.device_how[rows], device["name"][rows]
    )
    values = Figures.of(codes, measures.device_time[rows], len(keys))
    processes = [process_label(measures, row) for row in keys[:, 0].tolist()]
    return ReportTable(
        "kernels_by_range",
        "Kernels by Range",
        (
            text("process", "Process", processes, shown=len(set(device["process"].tolist())) > 1),
            text(
                "range",
                "Range",
                [paths[row] if row >= 0 else UNATTRIBUTED for row in keys[:, 1].tolist()],
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
        empty=no_device_activity(measures),
    )
