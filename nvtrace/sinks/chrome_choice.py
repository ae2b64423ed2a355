"""What of a trace a timeline shows: layers, time window, minimum duration, selected rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I64, picked
from nvtrace.model.explained import Explained
from nvtrace.model.schema import RangeStyle
from nvtrace.model.table import Table

Bools = npt.NDArray[np.bool_]

LAYERS = ("ranges", "calls", "device", "marks", "counters", "flows")
_PART = 1 << 18


@dataclass(frozen=True)
class Chosen:
    """What is shown: a mask for each table, ``arrows`` for rows of ``device``.

    ``omitted`` counts, by layer, what the layers asked for hold beyond that. ``links`` are rows of
    ``ranges``: from which an arrow leaves, and at which it arrives, those ascending.
    """

    ranges: Bools
    calls: Bools
    device: Bools
    samples: Bools
    arrows: Bools
    omitted: dict[str, int]
    links: tuple[I64, I64]

    @property
    def count(self) -> dict[str, int]:
        """How many rows of each table are shown, marks among ``ranges``, and arrows."""
        masks = {
            "ranges": self.ranges,
            "calls": self.calls,
            "device": self.device,
            "counters": self.samples,
            "flows": self.arrows,
        }
        count = {name: int(np.count_nonzero(mask)) for name, mask in masks.items()}
        count["flows"] += len(self.links[0])
        return count


def choose(
    explained: Explained,
    layers: Collection[str],
    window: tuple[int, int] | None,
    minimum_ns: int,
    masks: Mapping[str, Bools],
    links: tuple[I64, I64],
) -> Chosen:
    """Choose the rows to show; of those that touch ``window``, all, whole."""
    trace = explained.trace
    marks = trace.ranges["style"] == RangeStyle.MARK
    asked = {
        "ranges": ~marks & ("ranges" in layers),
        "marks": marks & ("marks" in layers),
        "calls": np.full(trace.calls.rows, "calls" in layers),
        "device": np.full(trace.device.rows, "device" in layers),
        "counters": np.full(trace.samples.rows, "counters" in layers),
    }
    selected = {name: masks.get(name, True) for name in ("ranges", "calls", "device", "samples")}
    ranges = _shown(trace.ranges, window, minimum_ns, marks) & selected["ranges"]
    calls = _shown(trace.calls, window, minimum_ns) & asked["calls"] & selected["calls"]
    device = _shown(trace.device, window, minimum_ns) & asked["device"] & selected["device"]
    time = trace.samples["time"]
    samples = asked["counters"] & selected["samples"] & np.isfinite(trace.samples["value"])
    if window:
        samples &= (time >= window[0]) & (time < window[1])
    shown = {
        "ranges": ranges & asked["ranges"],
        "marks": ranges & asked["marks"],
        "calls": calls,
        "device": device,
        "counters": samples,
    }
    omitted = {name: int(asked[name].sum() - shown[name].sum()) for name in asked}
    arrows = np.zeros_like(device)
    if {"flows", "calls", "device"} <= set(layers):
        wanted, arrows = _arrows(explained, calls, device)
        omitted["flows"] = int(wanted - arrows.sum())
    forward, backward = links if {"flows", "ranges"} <= set(layers) else (links[0][:0],) * 2
    kept = shown["ranges"][forward] & shown["ranges"][backward]
    omitted["flows"] = omitted.get("flows", 0) + len(kept) - int(kept.sum())
    links = forward[kept], backward[kept]
    return Chosen(shown["ranges"] | shown["marks"], calls, device, samples, arrows, omitted, links)


def _shown(
    table: Table, window: tuple[int, int] | None, minimum_ns: int, kept: Bools | None = None
) -> Bools:
    """Return what is long enough, or to be ``kept`` however short, and touches the window."""
    shown = np.empty(table.rows, np.bool_)
    for part in _parts(table.rows):
        start, end = table["start"][part], table["end"][part]
        shown[part] = np.maximum(end - start, 0) >= minimum_ns
        if kept is not None:
            shown[part] |= kept[part]
        if window:
            shown[part] &= (start < window[1]) & (np.maximum(end, start + 1) > window[0])
    return shown


def _arrows(explained: Explained, calls: Bools, device: Bools) -> tuple[int, Bools]:
    """Return how many rows of ``device`` have a call, and which get an arrow."""
    arrows = np.zeros(len(device), np.bool_)
    if not len(calls):
        return 0, arrows
    wanted = 0
    for part in _parts(len(device)):
        rows = part.start + np.flatnonzero(device[part] & (explained.device_call[part] >= 0))
        wanted += len(rows)
        start, end = (picked(explained.trace.device[name], rows) for name in ("start", "end"))
        arrival = arrivals(explained, rows)
        arrows[rows] = calls.take(picked(explained.device_call, rows))
        arrows[rows] &= (arrival < end) | (arrival == start)
    return wanted, arrows


def arrivals(explained: Explained, rows: I64) -> I64:
    """Return when the arrow to each of some rows of ``device`` arrives, ns.

    It leaves when the call starts and cannot arrive before that, by whatever the clocks of host
    and device differ; nor after the device row is over.
    """
    trace = explained.trace
    called = picked(trace.calls["start"], picked(explained.device_call, rows))
    arrival: I64 = np.maximum(picked(trace.device["start"], rows), called)
    return arrival


def _parts(rows: int) -> Iterator[slice]:
    """Return slices of a table that together cover it: what is made of each stays small."""
    return (slice(first, min(first + _PART, rows)) for first in range(0, rows, _PART))
