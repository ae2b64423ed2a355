"""The rows of Perfetto's own format: each event a text, constant bytes and numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nvtrace.sinks.chrome_parts import Part, Source, plus, values_of
from nvtrace.sinks.chrome_rows import Rows
from nvtrace.sinks.chrome_slices import Given, RowsOf, Slices
from nvtrace.sinks.chrome_texts import Texts, rounded
from nvtrace.sinks.perfetto_tracks import lane_uuid
from nvtrace.sinks.perfetto_wire import (
    Fixed64,
    Interned,
    Varint,
    annotation,
    fixed,
    key,
    length,
    message,
    number,
    repeated,
    width_for,
)

# Fields of TracePacket, TrackEvent and DebugAnnotation.
_PACKET, _TIME, _SEQUENCE, _EVENT, _FLAGS = 1, 8, 10, 11, 13
_ANNOTATION, _TYPE, _NAME, _TRACK, _CATEGORY = 4, 9, 10, 11, 3
_FLOW, _FLOW_END, _COUNTER_VALUE = 47, 48, 44
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4

_LENGTH_WIDTH = 4  # bytes of a length that is not known from the start
SEQUENCE = number(_SEQUENCE, 1)
NEEDS_STATE = number(_FLAGS, 2)


class Encoder:
    """Encodes events, and keeps count of the strings they stand for by number."""

    def __init__(self) -> None:
        self._names = Interned(2)
        self._categories = Interned(1)
        self._keys = Interned(3)
        self._strings = Interned(29)
        self._annotations: dict[tuple[str, str], bytes] = {}

    def fresh(self) -> bytes:
        """Return the packet that events encoded since the last call need before them."""
        parts = (self._names, self._categories, self._keys, self._strings)
        fields = b"".join(part.fresh() for part in parts)
        return packet(message(12, fields) + NEEDS_STATE) if fields else b""

    def slices(
        self,
        slices: Slices,
        kind: int,
        zero: int,
        present: int,
        *,
        flows: tuple[Part, ...] = (),
        ended: bool = False,
        more: Callable[[int], bytes] | None = None,
    ) -> Rows:
        """Return the rows of the beginnings of slices.

        Args:
            slices: what they are.
            kind: BEGIN or INSTANT.
            zero: the time, in ns, that the file counts from.
            present: bit by bit, which of the slices' numbers all of the rows have.
            flows: fields of arrows.
            ended: whether their end follows at once, at the same time.
            more: returns further fields of a row, which has a text of its own then.
        """
        numbers = [
            part
            for place, arg in enumerate(slices.numbers)
            if present >> place & 1
            for part in self._given(arg)
        ]
        event = (*track(slices.lane), *numbers, *flows)
        time = at(slices.start, zero)
        parts = event + time
        if ended:
            parts += self._end_parts(slices.lane, slices.start, zero)

        def fragment(row: int) -> bytes:
            what = slices.describe(row)
            fields = number(_NAME, self._names.number(what.name))
            fields += number(_CATEGORY, self._categories.number(what.category))
            for name, value in what.given.items():
                fields += self._annotation(name, value)
            fields += more(row) if more else b""
            return opening(kind, fields, width(event), width(time))

        own: tuple[Source, ...] = (lambda rows: rows,) if more else ()
        return Rows(Texts((*slices.columns, *own), fragment), *parts)

    def ends(self, lane: RowsOf, end: RowsOf, zero: int, flows: tuple[Part, ...] = ()) -> Rows:
        """Return the rows of the ends of slices."""
        event, time = (*track(lane), *flows), at(end, zero)
        start = opening(END, b"", width(event), width(time))
        return Rows(Texts([np.zeros_like], lambda row: start), *event, *time)

    def counters(self, counter: RowsOf, values: Source, times: Source, zero: int) -> Rows:
        """Return the rows of counters' values."""
        event = (key(_TRACK), Varint(counter, 4), fixed(_COUNTER_VALUE), Fixed64(values))
        time = at(times, zero)
        start = opening(COUNTER, b"", width(event), width(time))
        return Rows(Texts([np.zeros_like], lambda row: start), *event, *time)

    def _annotation(self, name: str, value: object) -> bytes:
        """Return the field of an arg, which as a rule was made before."""
        what = name, repr(value)
        found = self._annotations.get(what)
        if found is None:
            content = annotation(self._keys, self._strings, name, value)
            found = self._annotations[what] = message(_ANNOTATION, content)
        return found

    def _end_parts(self, lane: RowsOf, end: RowsOf, zero: int) -> tuple[Part, ...]:
        event, time = track(lane), at(end, zero)
        content = number(_TYPE, END)
        inner = length(_EVENT, len(content) + width(event)) + content
        size = len(SEQUENCE) + len(inner) + width(event) + width(time)
        return length(_PACKET, size) + SEQUENCE + inner, *event, *time

    def _given(self, arg: Given) -> tuple[Part, ...]:
        """Return the parts of an arg."""
        values = [_column(source, arg.thousandths) for source in arg.values]
        inner = [part for column, tag in values for part in (tag, column)]
        if len(values) > 1:
            inner = [
                part
                for column, tag in values
                for part in (length(12, len(tag) + width((column,))) + tag, column)
            ]
        name = number(1, self._keys.number(arg.key))
        size = len(name) + width(tuple(inner))
        return length(_ANNOTATION, size) + name, *inner


def _column(source: Source, thousandths: bool) -> tuple[Varint | Fixed64, bytes]:
    """Return a column of values of annotations, and what stands before each."""
    if thousandths:
        return Fixed64(lambda rows: values_of(source, rows) / 1000), fixed(5)
    if callable(source):
        return Varint(source, 8), key(3)
    return Varint(source, width_for(int(source.max(initial=0)))), key(3)


def opening(kind: int, fields: bytes, event: int, time: int) -> bytes:
    """Return the start of a packet with an event, up to what differs from row to row.

    Args:
        kind: of the event.
        fields: those that come next; none stands for a string by number.
        event: bytes of the event behind them.
        time: bytes of the packet behind the event.
    """
    front = SEQUENCE + (NEEDS_STATE if fields else b"")
    before = 2 * (1 + _LENGTH_WIDTH) + len(front)
    total = rounded(before + 2 + len(fields))  # what Texts would fill up with blanks
    fields = repeated(_TYPE, kind, total - before - len(fields)) + fields
    inner = length(_EVENT, len(fields) + event, _LENGTH_WIDTH) + fields
    return length(_PACKET, len(front) + len(inner) + event + time, _LENGTH_WIDTH) + front + inner


def packet(content: bytes) -> bytes:
    """Return a packet of the one sequence that there is."""
    return message(_PACKET, content + SEQUENCE)


def track(lane: RowsOf) -> tuple[Part, ...]:
    """Return the field with the track of an event."""
    return key(_TRACK), Varint(plus(lane, lane_uuid(0)), 4)


def at(time: Source, zero: int) -> tuple[Part, ...]:
    """Return the field with the time of an event."""
    return key(_TIME), Varint(plus(time, -zero), 8)


def flow(number_of: Source) -> tuple[Part, ...]:
    """Return the field of an arrow that leaves."""
    return fixed(_FLOW), Fixed64(plus(number_of, 1))


def flow_end(number_of: Source) -> tuple[Part, ...]:
    """Return the field of an arrow that arrives."""
    return fixed(_FLOW_END), Fixed64(plus(number_of, 1))


def flow_fields(leaving: list[int], arriving: list[int]) -> bytes:
    """Return the fields of some arrows."""
    return b"".join(
        fixed(field) + (one + 1).to_bytes(8, "little")
        for field, ones in ((_FLOW, leaving), (_FLOW_END, arriving))
        for one in ones
    )


def width(parts: tuple[Part, ...]) -> int:
    """Return how many bytes parts have."""
    total = 0
    for part in parts:
        if isinstance(part, bytes):
            total += len(part)
        elif isinstance(part, Varint):
            total += part.width
        elif isinstance(part, Fixed64):
            total += 8
    return total
