"""Distributed view: communication, computation, and how much of the one hides behind the other."""

from __future__ import annotations

import numpy as np

from nvtrace.analysis.communication import Overlap, Talk, overlaps, talk
from nvtrace.analysis.frame import Frame
from nvtrace.analysis.summaries.columns import percent, share, text, time
from nvtrace.analysis.summaries.device import device_labels, no_device_activity
from nvtrace.analysis.summaries.overview import STEP_NAME, WINDOW_NAME
from nvtrace.report import ReportTable

_NOTES = (
    "Communication is the union of collective kernels (by kernel name) and of GPU work launched in "
    "ranges of communication; Computation of all other kernels; both cut to the window.",
    "Overlap is when both run on the same device. Synchronization is neither.",
)
_SEVERAL = (
    "Times are summed over devices; ratios are of the window times the number of devices, in the "
    "rows of one device of the window."
)
_NONE = "no communication found: no collective kernels, no ranges of communication"


gather = talk


def table(gathered: Talk, frame: Frame) -> ReportTable:
    """Return communication, computation and overlap; for several devices also one by one."""
    found = overlaps(gathered, frame, device_labels(frame.trace))
    window = frame.window_ns
    talking = any(one.communication for one in found)
    if not talking:
        reason = _NONE if frame.trace.recorded.device else no_device_activity(frame)
        return _table([], np.zeros(0), reason, ())
    first = STEP_NAME if frame.basis.steps else WINDOW_NAME
    rows: list[tuple[str, str | None, int | None, int]] = [(first, None, window, 0)]
    rows += [(name, None, value, 1) for name, value in _summed(found)]
    bases = [window] + [window * len(found)] * 3
    if len(found) > 1:
        for one in found:
            rows += [(name, one.label, value, 2) for name, value in _summed([one])]
            bases += [window] * 3
    notes = (*_NOTES, _SEVERAL) if len(found) > 1 else _NOTES
    return _table(rows, np.array(bases, np.float64), "", notes)


def _summed(found: list[Overlap]) -> list[tuple[str, int | None]]:
    computing = [one.computation for one in found if one.computation is not None]
    both = [one.both for one in found if one.both is not None]
    return [
        ("Communication", sum(one.communication for one in found)),
        ("Computation", sum(computing) if computing else None),
        ("Overlap", sum(both) if both else None),
    ]


def _table(
    rows: list[tuple[str, str | None, int | None, int]],
    bases: np.ndarray[tuple[int], np.dtype[np.float64]],
    empty: str,
    notes: tuple[str, ...],
) -> ReportTable:
    totals = np.array([row[2] or 0 for row in rows], np.int64)
    recorded = np.array([row[2] is not None for row in rows], np.bool_)
    devices = [row[1] for row in rows]
    return ReportTable(
        "distributed",
        "Distribution Summary",
        (
            text("name", "Name", [row[0] for row in rows]),
            text("device", "Device", devices, shown=any(devices)),
            time("total_ns", "Total Time", totals, recorded),
            percent("ratio", "Ratio (%)", share(totals, bases), recorded),
        ),
        indent=np.array([row[3] for row in rows], np.int64),
        notes=notes,
        empty=empty,
        whole=True,
    )
