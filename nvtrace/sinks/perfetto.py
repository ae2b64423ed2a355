"""A timeline in Perfetto's own format: nanoseconds exact, and in less than half of the bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I64
from nvtrace.model.explained import Explained
from nvtrace.sinks.chrome_choice import arrivals
from nvtrace.sinks.chrome_device import DeviceSlices
from nvtrace.sinks.chrome_events import RangeSlices, call_slices
from nvtrace.sinks.chrome_layout import Events, Layout, Shape
from nvtrace.sinks.chrome_rows import Rows, render
from nvtrace.sinks.chrome_slices import Slices
from nvtrace.sinks.perfetto_rows import (
    BEGIN,
    INSTANT,
    Encoder,
    flow,
    flow_end,
    flow_fields,
    packet,
)
from nvtrace.sinks.perfetto_tracks import counter_uuid, descriptors
from nvtrace.sinks.perfetto_wire import number

Bools = npt.NDArray[np.bool_]

# Rows of each Shape, told apart by whether the end comes at once, and whether a row has arrows of
# its own beside what its shape has.
_EMPTY, _OWN, _VARIANTS = 1, 2, 4
_EXTRA = (Shape.ARROW_START, Shape.LINK_START, Shape.LINK_END)
_ENDS = {
    Shape.RANGE: 0,
    Shape.CALL: 1,
    Shape.LAUNCH: 1,
    Shape.KERNEL: 2,
    Shape.LAUNCHED_KERNEL: 2,
    Shape.OTHER_DEVICE: 2,
    Shape.LAUNCHED_OTHER: 2,
}
_LATE_ARRIVAL = 3


class Protobuf:
    """Writes events as packets.

    A slice is two packets, its beginning and its end, and an arrow is a field of each of the two
    that it joins. Readers sort packets by time and take simultaneous ones as they come, so the ends
    of a stretch of time come first: whatever begins when something ends finds it ended.

    Args:
        explained: what to write.
        layout: lanes, and the sequence of events.
        zero: the time, in ns, that the file counts from.
    """

    def __init__(self, explained: Explained, layout: Layout, zero: int) -> None:
        self._explained = explained
        self._trace = explained.trace
        self._layout = layout
        self._zero = zero
        self._encoder = Encoder()
        self._own: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        self._slices = self._tables()
        self._rows: dict[tuple[Shape, int, int], Rows] = {}
        self._ends = self._end_rows()

    def front(self) -> bytes:
        """Return what stands before the events that ``layout`` yields."""
        start = packet(number(13, 1))  # strings have no numbers yet
        tracks = descriptors(self._layout.tracks, self._trace, self._layout.counters)
        return start + b"".join(map(packet, tracks))

    def back(self) -> bytes:
        """Return what stands behind all events."""
        return b""

    def pieces(self, events: Events) -> Iterator[memoryview | bytes]:
        """Yield events in pieces of bounded size."""
        extra = np.isin(events.shape, _EXTRA)
        base = np.flatnonzero(~extra)
        shape, row = events.shape[base], events.row[base]
        if not len(base):
            return
        own = np.zeros(len(base), np.bool_)
        own[:-1] = np.diff(base) > 1
        own[-1] = base[-1] + 1 < len(extra)
        self._note_own(events, base, own)
        begins, empty = shape.copy(), np.zeros(len(base), np.bool_)
        present = np.zeros(len(base), np.int64)
        marks = np.flatnonzero(shape == Shape.MARK)
        present[marks] = self._present(self._slices[Shape.MARK], row[marks])
        for kind, table in _ENDS.items():
            here = np.flatnonzero(shape == kind)
            if not len(here):
                continue
            slices = self._slices[kind]
            present[here] = self._present(slices, row[here])
            empty[here] = slices.length(row[here]) <= 0
            ending = here[~empty[here]]
            if kind in (Shape.LAUNCHED_KERNEL, Shape.LAUNCHED_OTHER):
                behind = arrivals(self._explained, row[ending]) > slices.start(row[ending])
                begins[ending[behind]] = kind - 1
                yield from self._render_ends(_LATE_ARRIVAL, row[ending[behind]])
                ending = ending[~behind]
            yield from self._render_ends(table, row[ending])
        code = begins.astype(np.int64) + len(Shape) * (_EMPTY * empty + _OWN * own)
        code += len(Shape) * _VARIANTS * present
        codes = np.flatnonzero(np.bincount(code))
        rows = [self._rows_of(*self._told_apart(one)) for one in codes.tolist()]
        index = np.zeros(int(codes[-1]) + 1, np.int32)
        index[codes] = np.arange(len(codes))
        for piece in render(rows, index[code], row, filled=False):
            yield from filter(None, (self._encoder.fresh(), piece))
        self._own.clear()

    def _told_apart(self, code: int) -> tuple[Shape, int, int]:
        """Return shape, variant, and which numbers are present."""
        code, shape = divmod(code, len(Shape))
        present, variant = divmod(code, _VARIANTS)
        return Shape(shape), variant, present

    def _present(self, slices: Slices, rows: I64) -> I64:
        """Return, bit by bit, which numbers each row has."""
        present = np.zeros(len(rows), np.int64)
        for place, arg in enumerate(slices.numbers):
            present |= arg.given(rows).astype(np.int64) << place
        return present

    def _render_ends(self, table: int, rows: I64) -> Iterator[memoryview | bytes]:
        if len(rows):
            shape = np.full(len(rows), table, np.uint8)
            yield from render(self._ends, shape, rows, filled=False)

    def _note_own(self, events: Events, base: I64, own: Bools) -> None:
        """Note the arrows of the rows that have some of their own."""
        devices = self._trace.device.rows
        ends = np.append(base[1:], len(events.row))
        for first, last in zip(base[own].tolist(), ends[own].tolist(), strict=True):
            leaving: list[int] = []
            arriving: list[int] = []
            for place in range(first + 1, last):
                number = int(events.row[place])
                if events.shape[place] == Shape.ARROW_START:
                    leaving.append(number)
                else:
                    kind = leaving if events.shape[place] == Shape.LINK_START else arriving
                    kind.append(devices + number)
            table = 0 if events.shape[first] == Shape.RANGE else 1
            self._own[table, int(events.row[first])] = leaving, arriving

    def _tables(self) -> dict[Shape, Slices]:
        devices = DeviceSlices(self._explained, self._layout)
        ranges = RangeSlices(self._explained).slices(self._layout)
        calls = call_slices(self._explained, self._layout)
        kernels, others = devices.kernels(), devices.others()
        return {
            Shape.RANGE: ranges,
            Shape.MARK: ranges,
            Shape.CALL: calls,
            Shape.LAUNCH: calls,
            Shape.KERNEL: kernels,
            Shape.LAUNCHED_KERNEL: kernels,
            Shape.OTHER_DEVICE: others,
            Shape.LAUNCHED_OTHER: others,
        }

    def _rows_of(self, shape: Shape, variant: int, present: int) -> Rows:
        """Return the rows of a shape, made when they are first needed."""
        wanted = shape, variant, present
        if wanted not in self._rows:
            self._rows[wanted] = self._made(*wanted)
        return self._rows[wanted]

    def _made(self, shape: Shape, variant: int, present: int) -> Rows:
        if shape == Shape.COUNTER:
            samples = self._trace.samples
            return self._encoder.counters(
                lambda rows: counter_uuid(samples["counter"][rows].astype(np.int64)),
                samples["value"],
                samples["time"],
                self._zero,
            )
        arrows = {
            Shape.LAUNCH: flow(self._layout.first_launched),
            Shape.LAUNCHED_KERNEL: flow_end(lambda rows: rows),
            Shape.LAUNCHED_OTHER: flow_end(lambda rows: rows),
        }
        return self._encoder.slices(
            self._slices[shape],
            INSTANT if shape == Shape.MARK else BEGIN,
            self._zero,
            present,
            flows=arrows.get(shape, ()),
            ended=bool(variant & _EMPTY),
            more=self._own_fields(_ENDS[shape]) if variant & _OWN else None,
        )

    def _own_fields(self, table: int) -> Callable[[int], bytes]:
        return lambda row: flow_fields(*self._own[table, row])

    def _end_rows(self) -> list[Rows]:
        tables = [self._slices[shape] for shape in (Shape.RANGE, Shape.CALL, Shape.KERNEL)]
        device = tables[-1]
        arriving = self._encoder.ends(
            device.lane, device.end, self._zero, flow_end(lambda rows: rows)
        )
        ends = [self._encoder.ends(slices.lane, slices.end, self._zero) for slices in tables]
        return [*ends, arriving]
