"""The events of a timeline, each shape a text, constant bytes and numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I64
from nvtrace.model.explained import Explained
from nvtrace.model.schema import PayloadType, RangeFlag, RangeKind
from nvtrace.sinks.chrome_choice import arrivals
from nvtrace.sinks.chrome_device import DeviceEvents
from nvtrace.sinks.chrome_layout import Layout, Shape
from nvtrace.sinks.chrome_parts import head, members, placed
from nvtrace.sinks.chrome_rows import Number, Part, Rows, Thousandths, When, quoted
from nvtrace.sinks.chrome_texts import Texts
from nvtrace.sinks.chrome_tracks import counter_owner

Bools = npt.NDArray[np.bool_]
RowsOf = Callable[[I64], I64]


class EventRows:
    """Makes the rows of every shape of event.

    Args:
        explained: what to write.
        layout: lanes and the shapes in use.
        links: rows of ``ranges`` that arrows join.
        zero: the time, in ns, that the file counts from.
    """

    def __init__(
        self, explained: Explained, layout: Layout, links: tuple[I64, I64], zero: int
    ) -> None:
        self._explained = explained
        self._trace = explained.trace
        self._layout = layout
        self._links = links
        self._zero = zero

    def shapes(self) -> list[Rows]:
        """Return the rows of each Shape, in the order of its values."""
        made = {Shape.ARROW_START: self._arrow_starts(), Shape.COUNTER: self._counters()}
        made[Shape.RANGE], made[Shape.MARK] = self._ranges()
        made[Shape.CALL], made[Shape.LAUNCH] = self._calls()
        made[Shape.LINK_START], made[Shape.LINK_END] = self._between_ranges()
        device = DeviceEvents(self._explained, self._layout, self._zero)
        arrival = self._arrival()
        made[Shape.KERNEL], made[Shape.LAUNCHED_KERNEL] = device.kernels(arrival)
        made[Shape.OTHER_DEVICE], made[Shape.LAUNCHED_OTHER] = device.others(arrival)
        return [made[shape] for shape in Shape]

    def _ranges(self) -> tuple[Rows, Rows]:
        """Return the rows of ranges and of marks."""
        ranges, explained = self._trace.ranges, self._explained
        text = Texts(
            [
                *(ranges[name] for name in ("name", "domain", "category", "color", "text")),
                explained.range_kind,
                explained.range_guessed.view(np.uint8),
                explained.range_flags,
                explained.range_depth,
                explained.range_attributes,
                ranges["payload_type"],
                lambda rows: np.where(self._counts(rows), 0, ranges["payload"][rows]),
            ],
            self._range_text,
        )
        step, tids, start = explained.range_step, self._trace.threads["tid"], ranges["start"]
        args: tuple[Part, ...] = (
            When(lambda rows: step[rows] >= 0, (b',"step":', Number(step))),
            When(
                lambda rows: ranges["end_thread"][rows] != ranges["thread"][rows],
                (b',"end_thread":', Number(lambda rows: tids[ranges["end_thread"][rows]])),
            ),
            When(self._counts, (b',"payload":', Number(ranges["payload"].view(np.uint64)))),
            b'},"ph":',
        )
        where = placed(
            self._layout.tracks, self._layout.range_lane, lambda rows: start[rows] - self._zero
        )
        length = Thousandths(lambda rows: ranges["end"][rows] - start[rows])
        lasting = Rows(text, *args, b'"X"', *where, b',"dur":', length, b"}")
        return lasting, Rows(text, *args, b'"i","s":"t"', *where, b"}")

    def _counts(self, rows: I64) -> Bools:
        """Return whose payload is a whole number that is not negative."""
        kind, value = (self._trace.ranges[name][rows] for name in ("payload_type", "payload"))
        counts: Bools = (kind == PayloadType.UINT) | ((kind == PayloadType.INT) & (value >= 0))
        return counts

    def _range_text(self, row: int) -> bytes:
        explained, trace = self._explained, self._trace
        ranges = trace.ranges
        flags = explained.range_flags[row]
        domain, category = int(ranges["domain"][row]), int(ranges["category"][row])
        color = int(ranges["color"][row])
        attributes, text = int(explained.range_attributes[row]), int(ranges["text"][row])
        args = {
            "kind": RangeKind(explained.range_kind[row]).name.lower(),
            "guessed": bool(explained.range_guessed[row]),
            "domain": trace.domains[domain].name if domain >= 0 else None,
            "category": trace.categories[category] if category >= 0 else None,
            "color": f"#{color & 0xFFFFFF:06x}" if color else None,
            **{flag.name.lower(): bool(flags & flag) for flag in RangeFlag if flag.name},
            "depth": int(explained.range_depth[row]),
            "payload": self._other_payload(row),
        }
        given = {"attributes": attributes, "text": text}
        texts = (b',"%b":' % key.encode() + quoted(trace.strings[value])
                 for key, value in given.items() if value >= 0)  # fmt: skip
        return head(trace.strings[ranges["name"][row]], "range") + members(args) + b"".join(texts)

    def _other_payload(self, row: int) -> int | float | str | None:
        """Return the payload of a range where it is a negative number or has a fraction."""
        kind, value = (self._trace.ranges[name][row] for name in ("payload_type", "payload"))
        if kind == PayloadType.INT:
            return int(value) if value < 0 else None
        if kind != PayloadType.FLOAT:
            return None
        number = float(value.view(np.float64))
        return number if math.isfinite(number) else str(number)

    def _calls(self) -> tuple[Rows, Rows]:
        """Return the rows of calls without and with an arrow."""
        calls, strings, threads = self._trace.calls, self._trace.strings, self._trace.threads
        step, correlation = self._explained.call_step, calls["correlation"]

        def fragment(row: int) -> bytes:
            thread = int(threads["tid"][calls["thread"][row]])
            return head(strings[calls["name"][row]], "cuda") + members({"thread": thread})

        where = self._on_call(lambda rows: rows)
        parts: tuple[Part, ...] = (
            When(lambda rows: correlation[rows] > 0, (b',"correlation":', Number(correlation))),
            When(lambda rows: step[rows] >= 0, (b',"step":', Number(step))),
            b'},"ph":"X"',
            *where,
            b',"dur":',
            Thousandths(lambda rows: calls["end"][rows] - calls["start"][rows]),
            b"}",
        )
        text = Texts([calls["name"], calls["thread"]], fragment)
        return Rows(text, *parts), Rows(
            text, *parts, *_departure(self._layout.first_launched, where)
        )

    def _on_call(self, call_of: RowsOf) -> tuple[Part, ...]:
        layout, start = self._layout, self._trace.calls["start"]
        return placed(
            layout.tracks,
            lambda rows: layout.call_lane(call_of(rows)),
            lambda rows: start[call_of(rows)] - self._zero,
        )

    def _arrow_starts(self) -> Rows:
        """Return the rows of arrows that start beside the first one of their call."""
        call = self._explained.device_call
        where = self._on_call(lambda rows: call[rows].astype(np.int64))
        first, *rest = _departure(lambda rows: rows, where)
        assert isinstance(first, bytes)
        return Rows(Texts([np.zeros_like], lambda row: first), *rest)

    def _arrival(self) -> tuple[Part, ...]:
        """Return the parts of an arrow's end, in the row of what it points at."""
        where = placed(
            self._layout.tracks,
            self._layout.device_lane,
            lambda rows: arrivals(self._explained, rows) - self._zero,
        )
        return *_arrow(lambda rows: rows), b'"f","bp":"e"', *where, b"}"

    def _between_ranges(self) -> tuple[Rows, Rows]:
        """Return the rows of both ends of arrows from forward to backward ranges."""
        start = self._trace.ranges["start"]
        # behind the numbers of the arrows to device rows
        identity = Number(lambda rows: rows + self._trace.device.rows + 1)

        def end(kind: bytes, ranges: I64) -> Rows:
            where = placed(
                self._layout.tracks,
                lambda rows: self._layout.range_lane(ranges[rows]),
                lambda rows: start[ranges[rows]] - self._zero,
            )
            head = b',\n{"name":"fwdbwd","cat":"fwdbwd","ph":' + kind + b',"id":'
            return Rows(Texts([np.zeros_like], lambda row: head), identity, *where, b"}")

        return end(b'"s"', self._links[0]), end(b'"f","bp":"e"', self._links[1])

    def _counters(self) -> Rows:
        samples, counters = self._trace.samples, self._trace.counters
        pids = np.zeros(len(counters), np.int64)
        for row in range(len(counters)):
            pids[row] = self._layout.tracks.pids.get(counter_owner(self._trace, row), 0)

        def fragment(row: int) -> bytes:
            counter = counters[samples["counter"][row]]
            label = f"{counter.name} ({counter.unit})" if counter.unit else counter.name
            value = repr(float(samples["value"][row])).encode()
            return b',\n{"name":' + quoted(label) + b',"args":{"value":' + value

        return Rows(
            Texts([samples["counter"], samples["value"].view(np.int64)], fragment),
            b'},"ph":"C","pid":',
            Number(lambda rows: pids[samples["counter"][rows]]),
            b',"ts":',
            Thousandths(lambda rows: samples["time"][rows] - self._zero),
            b"}",
        )


def _arrow(device: RowsOf) -> tuple[Part, ...]:
    """Return what both ends of an arrow begin with.

    A viewer joins all that bear one id, so ids count device rows, over all processes.
    """
    identity = Number(lambda rows: device(rows) + 1)
    return b',\n{"name":"launch","cat":"launch","id":', identity, b',"ph":'


def _departure(device: RowsOf, where: tuple[Part, ...]) -> tuple[Part, ...]:
    return *_arrow(device), b'"s"', *where, b"}"
