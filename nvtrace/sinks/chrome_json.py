"""The rows of the Chrome trace format: each slice a text, constant bytes and numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from nvtrace.model.arrays import I64
from nvtrace.model.explained import Explained
from nvtrace.sinks.chrome_choice import arrivals
from nvtrace.sinks.chrome_device import DeviceSlices
from nvtrace.sinks.chrome_events import RangeSlices, call_slices
from nvtrace.sinks.chrome_layout import Events, Layout, Shape
from nvtrace.sinks.chrome_parts import Choice, Number, Part, Source, Thousandths, When, plus
from nvtrace.sinks.chrome_rows import Rows, quoted, render
from nvtrace.sinks.chrome_slices import Given, RowsOf, Slices
from nvtrace.sinks.chrome_texts import Texts
from nvtrace.sinks.chrome_tracks import counter_label, counter_owner
from nvtrace.sinks.names import valid_utf8

_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class ChromeJson:
    """Writes events as JSON.

    Args:
        explained: what to write.
        layout: lanes, and the sequence of events.
        zero: the time, in ns, that the file counts from.
        facts: what stands beside the events.
    """

    def __init__(
        self, explained: Explained, layout: Layout, zero: int, facts: dict[str, Any]
    ) -> None:
        self._explained = explained
        self._trace = explained.trace
        self._layout = layout
        self._zero = zero
        self._facts = facts
        made = self._made()
        self._shapes = [made[shape] for shape in Shape]

    def front(self) -> bytes:
        """Return what stands before the events that ``layout`` yields."""
        events = b",\n".join(map(_json, self._layout.tracks.metadata))
        facts = b'{"displayTimeUnit":"ns","otherData":' + _json(self._facts)
        return facts + b',\n"traceEvents":[\n' + events

    def pieces(self, events: Events) -> Iterator[memoryview | bytes]:
        """Yield events in pieces of bounded size."""
        return render(self._shapes, events.shape, events.row)

    def back(self) -> bytes:
        """Return what stands behind all events."""
        return b"\n]}\n"

    def _made(self) -> dict[Shape, Rows]:
        layout, device = self._layout, self._trace.device.rows
        devices = DeviceSlices(self._explained, layout)
        ranges, calls = (
            RangeSlices(self._explained).slices(layout),
            call_slices(self._explained, layout),
        )
        made = {Shape.COUNTER: self._counters()}
        text, args = _text(ranges), _args(ranges)
        where = self._at(ranges.lane, ranges.start)
        made[Shape.RANGE] = Rows(text, *args, b'"ph":"X"', *where, *_lasting(ranges))
        made[Shape.MARK] = Rows(text, *args, b'"ph":"i","s":"t"', *where, b"}")

        text, args, where = _text(calls), _args(calls), self._at(calls.lane, calls.start)
        parts = *args, b'"ph":"X"', *where, *_lasting(calls)
        launch = *_arrow(b"launch", layout.first_launched), b'"s"', *where, b"}"
        made[Shape.CALL], made[Shape.LAUNCH] = Rows(text, *parts), Rows(text, *parts, *launch)
        made[Shape.ARROW_START] = self._further_launches(calls)

        arrive = self._at(layout.device_lane, lambda rows: arrivals(self._explained, rows))
        end = *_arrow(b"launch", lambda rows: rows), b'"f","bp":"e"', *arrive, b"}"
        kinds = {Shape.KERNEL: devices.kernels(), Shape.OTHER_DEVICE: devices.others()}
        for shape, slices in kinds.items():
            where = self._at(slices.lane, slices.start)
            parts = *_args(slices), b'"ph":"X"', *where, *_lasting(slices)
            text = _text(slices)
            made[shape], made[Shape(shape + 1)] = Rows(text, *parts), Rows(text, *parts, *end)

        for shape, rows_of, kind in (
            (Shape.LINK_START, layout.links[0], b'"s"'),
            (Shape.LINK_END, layout.links[1], b'"f","bp":"e"'),
        ):
            made[shape] = self._link(ranges, rows_of, kind, device)
        return made

    def _further_launches(self, calls: Slices) -> Rows:
        """Return the rows of arrows that start beside the first one of their call."""
        call = self._explained.device_call
        where = self._at(
            lambda rows: calls.lane(call[rows].astype(np.int64)),
            lambda rows: calls.start(call[rows].astype(np.int64)),
        )
        return _alone((*_arrow(b"launch", lambda rows: rows), b'"s"', *where, b"}"))

    def _link(self, ranges: Slices, rows_of: I64, kind: bytes, devices: int) -> Rows:
        """Return the rows of one end of the arrows between ranges."""
        where = self._at(
            lambda rows: ranges.lane(rows_of[rows]), lambda rows: ranges.start(rows_of[rows])
        )
        # numbered behind the arrows to device rows
        return _alone((*_arrow(b"fwdbwd", lambda rows: rows + devices), kind, *where, b"}"))

    def _counters(self) -> Rows:
        samples, counters = self._trace.samples, self._trace.counters
        pids = np.zeros(len(counters), np.int64)
        for row in range(len(counters)):
            pids[row] = self._layout.tracks.pids.get(counter_owner(self._trace, row), 0)

        starts = [
            b',\n{"name":%b,"args":{"value":' % quoted(counter_label(counter))
            for counter in counters
        ]

        def fragment(row: int) -> bytes:
            value = float(samples["value"][row])
            return starts[int(samples["counter"][row])] + repr(value).encode()

        return Rows(
            Texts([samples["counter"], samples["value"].view(np.int64)], fragment),
            b'},"ph":"C","pid":',
            Number(lambda rows: pids[samples["counter"][rows]]),
            b',"ts":',
            Thousandths(plus(samples["time"], -self._zero)),
            b"}",
        )

    def _at(self, lane: RowsOf, time: Source) -> tuple[Part, ...]:
        """Return lane and time (ns) of events."""
        tracks = self._layout.tracks
        numbers = zip(tracks.pid.tolist(), tracks.tid.tolist(), strict=True)
        lanes = Choice([b',"pid":%d,"tid":%d' % pair for pair in numbers], lane)
        return lanes, b',"ts":', Thousandths(plus(time, -self._zero))


def _text(slices: Slices) -> Texts:
    """Return the starts of events, up to the last arg that many slices share.

    Each starts with a comma, since every event follows another.
    """

    def fragment(row: int) -> bytes:
        what = slices.describe(row)
        args = {k: valid_utf8(v) if isinstance(v, str) else v for k, v in what.given.items()}
        event = {"name": valid_utf8(what.name), "cat": what.category, "args": args}
        return b",\n" + _ENCODE(event).encode()[: -len("}}")]

    return Texts(slices.columns, fragment)


def _args(slices: Slices) -> tuple[Part, ...]:
    return *map(_given, slices.numbers), b"},"


def _given(arg: Given) -> When:
    form = Thousandths if arg.thousandths else Number
    key = b"," + quoted(arg.key) + b":"
    first, *others = (form(values) for values in arg.values)
    if not others:
        return When(arg.present, (key, first), arg.least)
    listed = [part for number in others for part in (b",", number)]
    return When(arg.present, (key + b"[", first, *listed, b"]"), arg.least)


def _lasting(slices: Slices) -> tuple[Part, ...]:
    return b',"dur":', Thousandths(slices.length), b"}"


def _arrow(name: bytes, number: Source) -> tuple[Part, ...]:
    """Return what both ends of an arrow begin with.

    A viewer joins all that bear one id, so ids count arrows, over all processes.
    """
    start = b',\n{"name":"%b","cat":"%b","id":' % (name, name)
    return start, Number(plus(number, 1)), b',"ph":'


def _alone(parts: tuple[Part, ...]) -> Rows:
    """Return rows of nothing but the parts."""
    first, *rest = parts
    assert isinstance(first, bytes)
    return Rows(Texts([np.zeros_like], lambda row: first), *rest)


def _json(value: Any) -> bytes:
    return _ENCODE(value).encode("utf-8", "replace")
