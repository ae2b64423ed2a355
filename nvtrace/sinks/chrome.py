"""A timeline that Perfetto and chrome://tracing open without losing a slice."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from nvtrace.errors import UsageError
from nvtrace.model.arrays import I64
from nvtrace.model.explained import Explained
from nvtrace.model.trace import TraceData
from nvtrace.sinks.chrome_choice import LAYERS, Chosen, choose
from nvtrace.sinks.chrome_json import ChromeJson
from nvtrace.sinks.chrome_layout import Layout
from nvtrace.sinks.chrome_output import opened

if TYPE_CHECKING:
    from nvtrace.sinks.perfetto import Protobuf

_NO_LINKS = np.empty(0, np.int64), np.empty(0, np.int64)

__all__ = ["LAYERS", "Written", "write"]


@dataclass(frozen=True)
class Written:
    """What a timeline file holds.

    Attributes:
        events: all events, those that name lanes included.
        slices: slices as Perfetto counts them: ranges, calls, device rows, and marks.
        flows: arrows, from a call to a device row and from a forward to a backward range.
        counters: counter values.
        omitted: how many rows of the layers asked for, and arrows, were left out.
        bytes: size of the file.
    """

    events: int
    slices: int
    flows: int
    counters: int
    omitted: int
    bytes: int


def write(
    explained: Explained,
    path: str | os.PathLike[str] | BinaryIO,
    *,
    layers: Collection[str] | None = None,
    window: tuple[int, int] | None = None,
    minimum_ns: int = 0,
    rows: Mapping[str, npt.NDArray[np.bool_]] | None = None,
    links: tuple[I64, I64] = _NO_LINKS,
    progress: Callable[[str], None] | None = None,
) -> Written:
    """Write a timeline, whole or not at all.

    Args:
        explained: what to show.
        path: a file in the Chrome trace format, or in Perfetto's own when it ends in
            ``.pftrace``; gzipped with ``.gz`` behind. ``"-"`` is standard output. Or an open
            binary file, for the Chrome trace format.
        layers: which of ``LAYERS`` to show; None means all.
        window: (start, end) in ns: show what touches it, whole.
        minimum_ns: leave out what is shorter, except marks.
        rows: which rows to show: masks for any of ``ranges``, ``calls``, ``device``, ``samples``.
        links: rows of ``ranges`` to be joined by arrows: where each leaves, and where it arrives,
            those ascending.
        progress: called with a line of text while the file is written.

    Raises:
        UsageError: a layer is unknown.
        OutputError: the file cannot be written; nothing is left under its name.
    """
    wanted = set(LAYERS if layers is None else layers)
    if unknown := wanted - set(LAYERS):
        known = ", ".join(LAYERS)
        raise UsageError(f"unknown layer {', '.join(sorted(unknown))}; there are {known}")
    chosen = choose(explained, wanted, window, minimum_ns, rows or {}, links)
    layout = Layout(explained, chosen)
    zero = _zero(explained.trace)
    if _is_protobuf(path):
        form: ChromeJson | Protobuf = _protobuf(explained, layout, zero)
    else:
        facts = {
            **_left_out(chosen),
            "window_ns": list(window) if window else None,
            "minimum_ns": minimum_ns,
            **_origin(explained.trace, zero),
        }
        form = ChromeJson(explained, layout, zero, facts)
    done, total = 0, sum(chosen.count.values()) - chosen.count["flows"]
    with opened(path) as output:
        output.write(form.front())
        for events in layout.events():
            for piece in form.pieces(events):
                output.write(piece)
            done += len(events.row)
            if progress:
                progress(f"timeline: {min(100 * done // total, 100)} %")
        output.write(form.back())
    return _written(chosen, layout, output.bytes)


def _protobuf(explained: Explained, layout: Layout, zero: int) -> Protobuf:
    from nvtrace.sinks.perfetto import Protobuf

    return Protobuf(explained, layout, zero)


def _left_out(chosen: Chosen) -> dict[str, Any]:
    return {
        "writer": "nvtrace",
        "omitted_events": sum(chosen.omitted.values()),
        "omitted_by_layer": {layer: n for layer, n in chosen.omitted.items() if n},
    }


def _is_protobuf(path: str | os.PathLike[str] | BinaryIO) -> bool:
    if not isinstance(path, str | os.PathLike):
        return False
    return os.fspath(path).endswith((".pftrace", ".pftrace.gz"))


def _written(chosen: Chosen, layout: Layout, size: int) -> Written:
    count = chosen.count
    slices = count["ranges"] + count["calls"] + count["device"]
    return Written(
        events=slices + 2 * count["flows"] + count["counters"] + len(layout.tracks.metadata),
        slices=slices,
        flows=count["flows"],
        counters=count["counters"],
        omitted=sum(chosen.omitted.values()),
        bytes=size,
    )


def _zero(trace: TraceData) -> int:
    """Return the time that the file counts from: viewers drop what is before 0."""
    earliest = [table["start"] for table in (trace.ranges, trace.calls, trace.device)]
    return min(0, *(int(times.min(initial=0)) for times in (*earliest, trace.samples["time"])))


def _origin(trace: TraceData, zero: int) -> dict[str, Any]:
    """Return what a reader should know of where the times come from."""
    origin = trace.origin_unix_ns
    return {
        "time_zero_unix_ns": None if origin is None else origin + zero,
        "sources": [
            {"name": source.name, "product": source.product, "offset_ns": source.offset_ns}
            for source in trace.sources
        ],
        "notes": [{"code": note.code, "message": note.message} for note in trace.notes],
    }
