"""The slices of the host's side: ranges and calls."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I64
from nvtrace.model.explained import Explained
from nvtrace.model.schema import PayloadType, RangeFlag, RangeKind
from nvtrace.sinks.chrome_layout import Layout
from nvtrace.sinks.chrome_slices import Description, Given, Slices, times

Bools = npt.NDArray[np.bool_]

# Larger ones, which are rare, go with the description: formats have room for 56 bits at once.
_LARGEST = 2**56 - 1
_KINDS = {int(kind): kind.name.lower() for kind in RangeKind}
_FLAGS = {name.lower(): int(flag) for name, flag in RangeFlag.__members__.items()}


class RangeSlices:
    """Describes ranges, and marks, which are ranges without length."""

    def __init__(self, explained: Explained) -> None:
        self._explained = explained
        self._trace = explained.trace

    def slices(self, layout: Layout) -> Slices:
        """Return the slices of ranges."""
        explained, ranges = self._explained, self._trace.ranges
        step, tids = explained.range_step, self._trace.threads["tid"]
        end_thread, counted = ranges["end_thread"], self._counts(slice(None))
        numbers = [Given("step", (step,), step, 0)]
        if (elsewhere := end_thread != ranges["thread"]).any():
            numbers.append(Given("end_thread", (lambda rows: tids[end_thread[rows]],), elsewhere))
        if counted.any():
            numbers.append(Given("payload", (ranges["payload"],), counted))
        return Slices(
            (
                *(ranges[name] for name in ("name", "domain", "category", "color", "text")),
                explained.range_kind,
                explained.range_guessed.view(np.uint8),
                explained.range_flags,
                explained.range_depth,
                explained.range_attributes,
                ranges["payload_type"],
                np.where(counted, 0, ranges["payload"]),
            ),
            self.describe,
            tuple(numbers),
            layout.range_lane,
            *times(ranges["start"], ranges["end"]),
        )

    def _counts(self, rows: I64 | slice) -> Bools:
        """Return whose payload is a whole number that is neither negative nor very large."""
        kind, value = (self._trace.ranges[name][rows] for name in ("payload_type", "payload"))
        whole = (kind == PayloadType.UINT) | (kind == PayloadType.INT)
        counts: Bools = whole & (value >= 0) & (value <= _LARGEST)
        return counts

    def describe(self, row: int) -> Description:
        """Return the description of a range."""
        explained, trace = self._explained, self._trace
        ranges, strings = trace.ranges, trace.strings
        flags = int(explained.range_flags[row])
        domain, category = int(ranges["domain"][row]), int(ranges["category"][row])
        color = int(ranges["color"][row])
        attributes, text = int(explained.range_attributes[row]), int(ranges["text"][row])
        args = {
            "kind": _KINDS[explained.range_kind[row]],
            "guessed": bool(explained.range_guessed[row]),
            "domain": trace.domains[domain].name if domain >= 0 else None,
            "category": trace.categories[category] if category >= 0 else None,
            "color": f"#{color & 0xFFFFFF:06x}" if color else None,
            **{name: bool(flags & flag) for name, flag in _FLAGS.items()},
            "depth": int(explained.range_depth[row]),
            "payload": self._other_payload(row),
            "attributes": strings[attributes] if attributes >= 0 else None,
            "text": strings[text] if text >= 0 else None,
        }
        return Description(strings[ranges["name"][row]], "range", args)

    def _other_payload(self, row: int) -> int | float | str | None:
        """Return the payload of a range where it is no number that ``_counts`` accepts."""
        ranges = self._trace.ranges
        kind, value = ranges["payload_type"][row], ranges["payload"][row]
        if kind == PayloadType.NONE or self._counts(np.array([row]))[0]:
            return None
        if kind in (PayloadType.INT, PayloadType.UINT):
            return int(value) if kind == PayloadType.INT else int(value.view(np.uint64))
        number = float(value.view(np.float64))
        return number if math.isfinite(number) else str(number)


def call_slices(explained: Explained, layout: Layout) -> Slices:
    """Return the slices of calls."""
    trace = explained.trace
    calls, step, correlation = trace.calls, explained.call_step, trace.calls["correlation"]

    def describe(row: int) -> Description:
        thread = int(trace.threads["tid"][calls["thread"][row]])
        return Description(trace.strings[calls["name"][row]], "cuda", {"thread": thread})

    return Slices(
        (calls["name"], calls["thread"]),
        describe,
        (
            Given("correlation", (correlation,), correlation),
            Given("step", (step,), step, 0),
        ),
        layout.call_lane,
        *times(calls["start"], calls["end"]),
    )
