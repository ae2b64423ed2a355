"""Kernel view: what ran on the devices, by name."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.frame import Frame
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.parts import Figures, Groups
from nvtrace.analysis.summaries.columns import count, everywhere, figures, share, text
from nvtrace.analysis.summaries.device import no_device_activity
from nvtrace.model.arrays import among, factorize, first_rows
from nvtrace.model.schema import DeviceKind
from nvtrace.report import ReportTable


def gather(measures: Measures) -> Groups:
    """Return kernels and runs of whole CUDA graphs by name; first is short name and kind."""
    device = measures.trace.device
    chosen = measures.selection.device & among(
        device["kind"], (DeviceKind.KERNEL, DeviceKind.GRAPH)
    )
    names, codes = factorize(device["name"])
    # the others are a group that is left out: most rows are chosen, and need no copy
    codes = np.where(chosen, codes, np.int32(len(names)))
    values = Figures.of(codes, measures.device_time, len(names) + 1)
    ran = np.flatnonzero(values.calls[:-1])
    first = first_rows(codes, len(names) + 1)[ran]
    keys: npt.NDArray[np.int64] = names[ran, np.newaxis].astype(np.int64)
    firsts = tuple(device[name][first].astype(np.int64) for name in ("short_name", "kind"))
    return Groups(keys, (values.take(ran),), firsts=firsts)


def table(found: Groups, frame: Frame) -> ReportTable:
    """Return one row a kernel, by full name; runs of whole CUDA graphs are rows of their own."""
    strings, (values,), (short_name, kind) = frame.trace.strings, found.figures, found.firsts
    notes = ["GPU Total is the sum of durations; ratios are of the sum of all rows."]
    if (kind == DeviceKind.GRAPH).any():
        notes.append(
            "A [CUDA graph] row is a run of a whole graph (graph-level tracing): its kernels were "
            "not recorded one by one; nsys profile --cuda-graph-trace=node records them."
        )
    recorded = everywhere(True, len(found))
    return ReportTable(
        "kernel",
        "Kernel Summary",
        (
            text("name", "Name", strings.take(found.keys[:, 0])),
            text("short_name", "Short name", strings.take(short_name), shown=False),
            count("calls", "Calls", values.calls),
            *figures("gpu", values, share(values.total, int(values.total.sum())), recorded),
        ),
        notes=tuple(notes),
        empty=no_device_activity(frame),
    )
