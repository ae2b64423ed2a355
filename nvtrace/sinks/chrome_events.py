"""The events of a timeline, each shape a template of constant bytes, numbers and texts."""

from __future__ import annotations

import json
import math

import numpy as np

from nvtrace.model.arrays import I32, I64
from nvtrace.model.explained import Explained
from nvtrace.model.schema import PayloadType, RangeFlag, RangeKind
from nvtrace.sinks.chrome_device import DeviceEvents
from nvtrace.sinks.chrome_layout import Layout, Shape
from nvtrace.sinks.chrome_parts import head, lasting, members, placed
from nvtrace.sinks.chrome_rows import Number, Part, Rows, Text, Thousandths, When, quoted, text_by
from nvtrace.sinks.chrome_tracks import counter_owner


class Events:
    """Makes the rows of every shape of event.

    Args:
        explained: what to write.
        layout: lanes and the shapes in use.
        arrow_end: when the arrow to each device row arrives, ns.
        zero: the time, in ns, that the file counts from.
    """

    def __init__(self, explained: Explained, layout: Layout, arrow_end: I64, zero: int) -> None:
        self._explained = explained
        self._trace = explained.trace
        self._layout = layout
        self._arrow_end = arrow_end
        self._zero = zero

    def shapes(self) -> list[Rows]:
        """Return the rows of each Shape, in the order of its values; none of shapes not in use."""
        used = set(np.unique(self._layout.shape).tolist())
        made: dict[Shape, Rows] = {}
        if used & {Shape.RANGE, Shape.MARK}:
            made[Shape.RANGE], made[Shape.MARK] = self._ranges()
        if Shape.CALL in used:
            made[Shape.CALL] = self._calls()
        if used & {Shape.KERNEL, Shape.OTHER_DEVICE}:
            device = DeviceEvents(self._explained, self._layout, self._zero)
            made[Shape.KERNEL], made[Shape.OTHER_DEVICE] = device.kernels(), device.others()
        if Shape.ARROW_START in used:
            made[Shape.ARROW_START], made[Shape.ARROW_END] = self._arrows()
        if Shape.COUNTER in used:
            made[Shape.COUNTER] = self._counters()
        return [made.get(shape, Rows()) for shape in Shape]

    def _ranges(self) -> tuple[Rows, Rows]:
        """Return the rows of ranges and of marks."""
        explained, ranges = self._explained, self._trace.ranges
        step, end_thread = explained.range_step, ranges["end_thread"]
        elsewhere = b',"end_thread":', Number(self._trace.threads["tid"], end_thread)
        args: tuple[Part, ...] = (
            self._heads(ranges["name"], "range"),
            self._range_facts(),
            b',"depth":',
            Number(explained.range_depth),
            When(step >= 0, (b',"step":', Number(step))),
            When(end_thread != ranges["thread"], elsewhere),
            text_by([ranges["payload_type"], ranges["payload"]], self._payload),
            self._given("attributes", explained.range_attributes),
            self._given("text", ranges["text"]),
            b'},"ph":',
        )
        where = self._placed(self._layout.range_lane, ranges["start"])
        lasting_rows = Rows(*args, b'"X"', *where, *lasting(ranges["start"], ranges["end"]))
        return lasting_rows, Rows(*args, b'"i","s":"t"', *where, b"}")

    def _range_facts(self) -> Text:
        explained, ranges = self._explained, self._trace.ranges

        def fragment(row: int) -> bytes:
            flags = explained.range_flags[row]
            domain, category = int(ranges["domain"][row]), int(ranges["category"][row])
            color = int(ranges["color"][row])
            return members(
                {
                    "kind": RangeKind(explained.range_kind[row]).name.lower(),
                    "guessed": bool(explained.range_guessed[row]),
                    "domain": self._trace.domains[domain].name if domain >= 0 else None,
                    "category": self._trace.categories[category] if category >= 0 else None,
                    "color": f"#{color & 0xFFFFFF:06x}" if color else None,
                    **{flag.name.lower(): bool(flags & flag) for flag in RangeFlag if flag.name},
                }
            )

        columns = [ranges[name] for name in ("domain", "category", "color")]
        derived = [explained.range_kind, explained.range_guessed.view(np.uint8)]
        return text_by([*columns, *derived, explained.range_flags], fragment)

    def _payload(self, row: int) -> bytes:
        ranges = self._trace.ranges
        kind, value = ranges["payload_type"][row], ranges["payload"][row : row + 1]
        if kind == PayloadType.NONE:
            return b""
        dtype = {PayloadType.INT: np.int64, PayloadType.UINT: np.uint64}.get(kind, np.float64)
        number = value.view(dtype)[0].item()
        return (
            b',"payload":' + json.dumps(number if math.isfinite(number) else str(number)).encode()
        )

    def _given(self, key: str, texts: I32) -> Text:
        """Return a member of ``args``, absent where its row of strings is -1."""
        start, strings = b',"' + key.encode() + b'":', self._trace.strings
        return text_by(
            [texts], lambda row: start + quoted(strings[texts[row]]) if texts[row] >= 0 else b""
        )

    def _heads(self, names: I32, category: str) -> Text:
        strings = self._trace.strings
        return text_by([names], lambda row: head(strings[names[row]], category))

    def _calls(self) -> Rows:
        calls = self._trace.calls
        step, correlation = self._explained.call_step, calls["correlation"]
        return Rows(
            self._heads(calls["name"], "cuda"),
            b'"thread":',
            Number(self._trace.threads["tid"], calls["thread"]),
            When(correlation > 0, (b',"correlation":', Number(correlation))),
            When(step >= 0, (b',"step":', Number(step))),
            b'},"ph":"X"',
            *self._placed(self._layout.call_lane, calls["start"]),
            *lasting(calls["start"], calls["end"]),
        )

    def _arrows(self) -> tuple[Rows, Rows]:
        """Return the rows of the starts and of the ends, one of each a device row."""
        trace, call = self._trace, self._explained.device_call
        start, lane = trace.calls["start"][call], self._layout.call_lane[call]
        # A viewer joins all that bear one id, so ids count device rows, over all processes.
        identity = Number(np.arange(1, trace.device.rows + 1))
        common: tuple[Part, ...] = (
            b',\n{"name":"launch","cat":"launch","id":',
            identity,
            b',"ph":',
        )
        arrival = self._placed(self._layout.device_lane, self._arrow_end)
        return (
            Rows(*common, b'"s"', *self._placed(lane, start), b"}"),
            Rows(*common, b'"f","bp":"e"', *arrival, b"}"),
        )

    def _counters(self) -> Rows:
        samples, counters = self._trace.samples, self._trace.counters
        pids = np.zeros(len(counters), np.int64)
        for row in range(len(counters)):
            pids[row] = self._layout.tracks.pids.get(counter_owner(self._trace, row), 0)

        def fragment(row: int) -> bytes:
            counter = counters[samples["counter"][row]]
            label = f"{counter.name} ({counter.unit})" if counter.unit else counter.name
            return b',\n{"name":' + quoted(label) + b',"args":{"value":'

        value = samples["value"]
        return Rows(
            text_by([samples["counter"]], fragment),
            text_by([value.view(np.int64)], lambda row: repr(float(value[row])).encode()),
            b'},"ph":"C","pid":',
            Number(pids[samples["counter"]]),
            b',"ts":',
            Thousandths(samples["time"] - self._zero),
            b"}",
        )

    def _placed(self, lane: I64, time: I64) -> tuple[Part, ...]:
        return placed(self._layout.tracks, lane, time - self._zero)
