"""What of a trace a timeline shows: layers, time window, minimum duration, selected rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I64
from nvtrace.model.explained import Explained
from nvtrace.model.schema import RangeStyle
from nvtrace.model.table import Table

Bools = npt.NDArray[np.bool_]

LAYERS = ("ranges", "calls", "device", "marks", "counters", "flows")


@dataclass(frozen=True)
class Chosen:
    """What is shown: a mask for each table, ``arrows`` for rows of ``device``.

    ``omitted`` counts, by layer, what the layers asked for hold beyond that.
    """

    ranges: Bools
    calls: Bools
    device: Bools
    samples: Bools
    arrows: Bools
    arrow_end: I64
    omitted: dict[str, int]


def choose(
    explained: Explained,
    layers: Collection[str],
    window: tuple[int, int] | None,
    minimum_ns: int,
    masks: Mapping[str, Bools],
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
    ranges = _shown(trace.ranges, window, minimum_ns * ~marks) & selected["ranges"]
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
    arrows, arrow_end = np.zeros_like(device), trace.device["start"]
    if {"flows", "calls", "device"} <= set(layers):
        wanted, arrows, arrow_end = _arrows(explained, calls, device)
        omitted["flows"] = int(wanted.sum() - arrows.sum())
    return Chosen(
        shown["ranges"] | shown["marks"], calls, device, samples, arrows, arrow_end, omitted
    )


def _shown(table: Table, window: tuple[int, int] | None, minimum_ns: Any) -> Bools:
    start, end = table["start"], table["end"]
    shown: Bools = np.maximum(end - start, 0) >= minimum_ns
    if window:
        shown &= (start < window[1]) & (np.maximum(end, start + 1) > window[0])
    return shown


def _arrows(explained: Explained, calls: Bools, device: Bools) -> tuple[Bools, Bools, I64]:
    """Return which rows of ``device`` have a call, which get an arrow, and when it arrives.

    It leaves when the call starts and cannot arrive before that, by whatever the clocks of host
    and device differ; nor after the device row is over.
    """
    trace, call = explained.trace, explained.device_call
    start, end = trace.device["start"], trace.device["end"]
    wanted = device & (call >= 0)
    if not trace.calls.rows:
        return wanted, np.zeros_like(wanted), start
    arrival = np.maximum(start, trace.calls["start"][call])
    arrives = (arrival < end) | (arrival == start)
    return wanted, wanted & calls[call] & arrives, arrival
