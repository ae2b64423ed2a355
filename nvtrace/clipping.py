"""The part of collected GPU work that belongs to a window; it is collected from before to after."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from nvtrace.sources.cupti import Activity


def clip(activity: Activity, start_ns: int, end_ns: int) -> Activity:
    """Return what the window saw: its calls, what they launched, and what was still running.

    Work launched before the window and not done by then kept the device busy in it, and stays; its
    call does not. Work launched in the window stays, however late it ran.

    Args:
        activity: what was collected.
        start_ns: Unix time at which the window opened.
        end_ns: Unix time at which it closed.
    """
    calls, device = activity.calls, activity.device
    late = calls["start"] > end_ns
    kept = (calls["end"] >= start_ns) & ~late
    ours = np.isin(device["correlation"], calls["correlation"][kept])
    others = np.isin(device["correlation"], calls["correlation"][late])
    running = (device["end"] > start_ns) & (device["start"] <= end_ns)
    stays = ours | (running & ~others)
    if kept.all() and stays.all():
        return activity
    place = np.cumsum(stays, dtype=np.int32) - 1
    details = activity.details
    described = stays[details["row"]] if details else stays[:0]
    return replace(
        activity,
        calls={name: values[kept] for name, values in calls.items()},
        device={name: values[stays] for name, values in device.items()},
        details={
            name: (place[values] if name == "row" else values)[described]
            for name, values in details.items()
        },
    )
