"""GPU utilization over time: a counter for timelines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.intervals import Union
from nvtrace.model import schema
from nvtrace.model.arrays import distinct, picked
from nvtrace.model.explained import Explained
from nvtrace.model.table import Table
from nvtrace.model.trace import Counter

I64 = npt.NDArray[np.int64]

BINS = 1000


def with_utilization(explained: Explained) -> Explained:
    """Return the trace with a utilization counter for each device that did anything.

    The trace is cut into BINS stretches of equal length; a value is the share of its stretch, in
    per cent, in which the device was busy.
    """
    trace = explained.trace
    begin, end = trace.span
    edges = distinct(np.linspace(begin, end, BINS + 1).astype(np.int64))
    if len(edges) < 2 or not trace.device.rows:
        return explained
    device_of = trace.streams["device"].take(trace.device["stream"])
    parts = [trace.samples]
    counters = list(trace.counters)
    for row in distinct(device_of).tolist():
        here = np.flatnonzero(device_of == row)
        starts, ends = (picked(trace.device[name], here) for name in ("start", "end"))
        busy = Union(starts, ends).before(edges)
        share = np.diff(busy) / np.diff(edges) * 100
        parts.append(
            Table(
                schema.SAMPLES,
                {
                    "time": edges[:-1],
                    "counter": np.full(len(share), len(counters)),
                    "value": share,
                },
            )
        )
        counters.append(Counter("GPU utilization", "%", device=row))
    samples = Table.concatenate(schema.SAMPLES, parts)
    return replace(explained, trace=replace(trace, samples=samples, counters=tuple(counters)))
