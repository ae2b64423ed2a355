"""Event times of an nsys export on its own capture's clock, without those that cannot be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import picked
from nvtrace.model.trace import Note
from nvtrace.sources.nsys_events import OPEN, Columns

_LONGEST_NS = 2**53  # 104 days: no capture lasts that long


def subtract(columns: Columns, added: int) -> None:
    """Take off what the export was told to add to all times, ns."""
    if columns and added:
        columns["start"] -= added
        np.subtract(columns["end"], added, out=columns["end"], where=columns["end"] != OPEN)


def discard_impossible(tables: Sequence[Columns], device: Columns) -> list[Note]:
    """Leave out rows of ``tables`` far from the rest; take such times off rows of ``device``.

    They come from damaged files, and one of them would stretch the whole trace.

    Returns:
        A note, where there are any.
    """
    filled = [columns for columns in (*tables, device) if columns and len(columns["start"])]
    times = [one["start"] for one in filled] + [_closed(one["end"]) for one in filled]
    lowest = min((int(one.min()) for one in times if len(one)), default=0)
    highest = max((int(one.max()) for one in times if len(one)), default=0)
    if highest - lowest <= _LONGEST_NS:
        return []
    middle = float(np.median(np.concatenate([one["start"] for one in filled])))
    count = 0
    for columns in filled:
        end = np.where(columns["end"] == OPEN, columns["start"], columns["end"])
        # floats do not overflow, and months do not depend on their last digits
        distances = [np.abs(one.astype(np.float64) - middle) for one in (columns["start"], end)]
        far = np.maximum(*distances) > _LONGEST_NS / 2
        count += int(far.sum())
        if columns is device:
            columns["start"] = np.where(far, 0, columns["start"])
            columns["end"] = np.where(far, 0, columns["end"])
        else:
            columns.update({name: picked(values, ~far) for name, values in columns.items()})
    return [
        Note(
            "impossible_times",
            f"{count:,} rows lie months away from the rest: the file is damaged; ranges and CUDA "
            "calls among them are left out, GPU work among them is counted without its time",
        )
    ]


def _closed(ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the ends without those that are open."""
    return ends[ends != OPEN] if ends.min() == OPEN else ends
