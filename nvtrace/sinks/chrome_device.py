"""The slices of the device's side: kernels, copies, memsets, graph runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nvtrace.model.arrays import I32, I64
from nvtrace.model.explained import Explained
from nvtrace.model.schema import COPY_KINDS, Attribution, DeviceKind
from nvtrace.model.table import Table
from nvtrace.sinks.chrome_layout import Layout
from nvtrace.sinks.chrome_paths import RangePaths
from nvtrace.sinks.chrome_slices import Description, Given, Slices, times
from nvtrace.sinks.chrome_texts import Source

# Of a launch, what its kernel decides as a rule; the grid goes with the size of the data.
_PER_LAUNCH = (
    "block_x",
    "block_y",
    "block_z",
    "registers",
    "static_shared",
    "dynamic_shared",
)


class DeviceSlices:
    """Describes the rows of ``device``."""

    def __init__(self, explained: Explained, layout: Layout) -> None:
        self._explained = explained
        self._trace = explained.trace
        self._lane = layout.device_lane
        self._paths = RangePaths(explained)
        device = self._device = explained.trace.device
        step, correlation, node = explained.device_step, device["correlation"], device["graph_node"]
        self._columns: tuple[Source, ...] = (
            *(device[name] for name in ("short_name", "name", "kind", "copy_kind", "stream")),
            explained.device_how,
            lambda rows: self._paths.codes(explained.device_range[rows]),
            lambda rows: self._paths.codes(explained.device_capture[rows]),
        )
        self._numbers = (
            Given("correlation", (correlation,), lambda rows: correlation[rows] > 0),
            Given("step", (step,), lambda rows: step[rows] >= 0),
            Given("graph_node", (node,), lambda rows: node[rows] > 0),
        )
        self._times = times(device["start"], device["end"])

    def kernels(self) -> Slices:
        """Return the slices of kernels, with how they were launched."""
        details = LaunchDetails(self._trace.kernel_details)
        x, y, z = (details.column(f"grid_{axis}") for axis in "xyz")
        rest = [details.column(name) for name in _PER_LAUNCH]

        def describe(row: int) -> Description:
            block_x, block_y, block_z, registers, static, dynamic = details.of(row, _PER_LAUNCH)
            what = self._describe(row)
            args = {
                "block": [block_x, block_y, block_z] if block_x > 0 else None,
                "registers_per_thread": registers if registers > 0 else None,
                "static_shared_bytes": static if static >= 0 else None,
                "dynamic_shared_bytes": dynamic if dynamic >= 0 else None,
            }
            return Description(what.name, what.category, {**what.args, **args})

        numbers = *self._numbers, Given("grid", (x, y, z), lambda rows: x(rows) > 0)
        return Slices((*self._columns, *rest), describe, numbers, self._lane, *self._times)

    def others(self) -> Slices:
        """Return the slices of copies, memsets and graph runs, with bytes and bandwidth."""
        size, (start, end) = self._device["bytes"], self._times

        def duration(rows: I64) -> I64:
            return end(rows) - start(rows)

        def rate(rows: I64) -> I64:
            """Bytes per ns are GB per s; here thousandths of that."""
            return np.maximum(size[rows], 0) * 1000 // np.maximum(duration(rows), 1)

        numbers = (
            *self._numbers,
            Given("bytes", (size,), lambda rows: size[rows] >= 0),
            Given(
                "bandwidth_gb_per_s",
                (rate,),
                lambda rows: (size[rows] >= 0) & (duration(rows) > 0),
                thousandths=True,
            ),
        )
        return Slices(self._columns, self._describe, numbers, self._lane, *self._times)

    def _describe(self, row: int) -> Description:
        device, strings, explained = self._device, self._trace.strings, self._explained
        name, full = strings[device["short_name"][row]], strings[device["name"][row]]
        kind = DeviceKind(device["kind"][row])
        copy_kind = COPY_KINDS.get(int(device["copy_kind"][row]))
        streams, stream = self._trace.streams, int(device["stream"][row])
        number = int(streams["device"][stream])
        around, captured = (
            int(ranges[row]) for ranges in (explained.device_range, explained.device_capture)
        )
        args = {
            "full_name": full if full != name else None,
            "copy_kind": copy_kind if kind == DeviceKind.MEMCPY else None,
            "stream": int(streams["stream"][stream]),
            "context": int(streams["context"][stream]),
            "device": self._trace.devices[number].ordinal if number >= 0 else None,
            "attribution": Attribution(explained.device_how[row]).name.lower(),
            "range": self._paths.text(around) if around >= 0 else None,
            "captured_in": self._paths.text(captured) if captured >= 0 else None,
        }
        return Description(name, kind.name.lower(), args)


class LaunchDetails:
    """How kernels were launched, by row of ``device``."""

    def __init__(self, details: Table) -> None:
        rows = details["row"]
        self._details = details
        self._order = None if (rows[1:] > rows[:-1]).all() else np.argsort(rows)
        self._rows = rows if self._order is None else rows[self._order]
        self._last: tuple[I64, I64] | None = None

    def column(self, name: str) -> Callable[[I64], I32]:
        """Return the way to read a column, which gives -1 where nothing is known."""
        values = self._details[name]

        def read(rows: I64) -> I32:
            place = self._places(rows)
            if not len(values):
                return np.full(len(rows), -1, np.int32)
            return np.where(place >= 0, values.take(place, mode="clip"), np.int32(-1))

        return read

    def of(self, row: int, names: Sequence[str]) -> list[int]:
        """Return some columns of one row, -1 where nothing is known."""
        # of the column's own type, or the search would turn all others into the row's
        place = int(np.searchsorted(self._rows, self._rows.dtype.type(row)))
        if place == len(self._rows) or self._rows[place] != row:
            return [-1] * len(names)
        if self._order is not None:
            place = int(self._order[place])
        return [int(self._details[name][place]) for name in names]

    def _places(self, rows: I64) -> I64:
        """Return the rows of ``details``, -1 none. The same rows are asked for many times over."""
        if self._last is None or self._last[0] is not rows:
            self._last = rows, self._find(rows)
        return self._last[1]

    def _find(self, rows: I64) -> I64:
        rows = rows.astype(self._rows.dtype)  # or the search would turn all others into int64
        low = int(np.searchsorted(self._rows, rows.min()))
        high = int(np.searchsorted(self._rows, rows.max(), side="right"))
        if low == high:
            return np.full(len(rows), -1)
        near = self._rows[low:high]
        place = np.minimum(np.searchsorted(near, rows), len(near) - 1)
        known = near[place] == rows
        place += low
        return np.where(known, place if self._order is None else self._order[place], -1)
