"""The slices of the device's side: kernels, copies, memsets, graph runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I32, I64, is_constant
from nvtrace.model.explained import Explained
from nvtrace.model.schema import COPY_KINDS, Attribution, DeviceKind
from nvtrace.model.table import Table
from nvtrace.sinks.chrome_layout import Layout
from nvtrace.sinks.chrome_parts import Derived, Source
from nvtrace.sinks.chrome_paths import RangePaths
from nvtrace.sinks.chrome_slices import Description, Given, Slices, times

Bools = npt.NDArray[np.bool_]

_KINDS = {int(kind): kind.name.lower() for kind in DeviceKind}
_ATTRIBUTIONS = {int(how): how.name.lower() for how in Attribution}
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
        self._trace = explained.trace
        self._how = explained.device_how
        self._around, self._captured = explained.device_range, explained.device_capture
        self._lane = layout.device_lane
        self._paths = RangePaths(explained)
        device = self._device = explained.trace.device
        step, correlation, node = explained.device_step, device["correlation"], device["graph_node"]
        self._columns: tuple[Source, ...] = (
            *(device[name] for name in ("short_name", "name", "kind", "copy_kind", "stream")),
            self._how,
            lambda rows: self._paths.codes(self._around[rows]),
            lambda rows: self._paths.codes(self._captured[rows]),
        )
        self._numbers = (
            Given("correlation", (correlation,), correlation),
            Given("step", (step,), step, 0),
            Given("graph_node", (node,), node),
        )
        self._times = times(device["start"], device["end"])

    def kernels(self) -> Slices:
        """Return the slices of kernels, with how they were launched."""
        details = LaunchDetails(self._trace.kernel_details, self._device.rows)
        x, y, z = (details.column(f"grid_{axis}") for axis in "xyz")
        rest = details.deciding(_PER_LAUNCH)

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

        numbers = *self._numbers, Given("grid", (x, y, z), x)
        return Slices((*self._columns, *rest), describe, numbers, self._lane, *self._times)

    def others(self) -> Slices:
        """Return the slices of copies, memsets and graph runs, with bytes and bandwidth."""
        size, (*_, duration) = self._device["bytes"], self._times

        def rate(rows: I64) -> I64:
            """Bytes per ns are GB per s; here thousandths of that."""
            return np.maximum(size[rows], 0) * 1000 // np.maximum(duration(rows), 1)

        numbers = (
            *self._numbers,
            Given("bytes", (size,), size, 0),
            Given(
                "bandwidth_gb_per_s",
                (rate,),
                lambda rows: (size[rows] >= 0) & (duration(rows) > 0),
                thousandths=True,
            ),
        )
        return Slices(self._columns, self._describe, numbers, self._lane, *self._times)

    def _describe(self, row: int) -> Description:
        device, strings, streams = self._device, self._trace.strings, self._trace.streams
        name, full = strings[device["short_name"][row]], strings[device["name"][row]]
        kind, stream = int(device["kind"][row]), int(device["stream"][row])
        number = int(streams["device"][stream])
        around, captured = int(self._around[row]), int(self._captured[row])
        copy = COPY_KINDS.get(int(device["copy_kind"][row])) if kind == DeviceKind.MEMCPY else None
        args = {
            "full_name": full if full != name else None,
            "copy_kind": copy,
            "stream": int(streams["stream"][stream]),
            "context": int(streams["context"][stream]),
            "device": self._trace.devices[number].ordinal if number >= 0 else None,
            "attribution": _ATTRIBUTIONS[self._how[row]],
            "range": self._paths.text(around) if around >= 0 else None,
            "captured_in": self._paths.text(captured) if captured >= 0 else None,
        }
        return Description(name, _KINDS[kind], args)


class LaunchDetails:
    """How kernels were launched, by row of ``device``.

    Args:
        details: the table of that name.
        rows: how many rows of ``device`` there are.
    """

    def __init__(self, details: Table, rows: int) -> None:
        self._details = details
        self._place: I32 = np.full(rows, -1, np.int32)
        self._place[details["row"]] = np.arange(details.rows, dtype=np.int32)
        self._known = (self._place >= 0).view(np.uint8)

    def column(self, name: str) -> Derived:
        """Return a column by row of ``device``, -1 where nothing is known."""
        values = self._details[name]
        if is_constant(values):
            return Derived(self._known, table=np.array([-1, values[0]], values.dtype))
        return Derived(self._place, table=values)

    def deciding(self, names: Sequence[str]) -> list[Source]:
        """Return columns by row of ``device`` that decide what all of these hold."""
        varied = (name for name in names if not is_constant(self._details[name]))
        return [self._known, *map(self.column, varied)]

    def of(self, row: int, names: Sequence[str]) -> list[int]:
        """Return some columns of one row, -1 where nothing is known."""
        place = int(self._place[row])
        return [int(self._details[name][place]) if place >= 0 else -1 for name in names]
