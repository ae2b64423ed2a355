"""The events of the device's side: kernels, copies, memsets, graph runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nvtrace.model.arrays import I32, I64
from nvtrace.model.explained import Explained
from nvtrace.model.schema import COPY_KINDS, Attribution, DeviceKind
from nvtrace.model.table import Table
from nvtrace.sinks.chrome_layout import Layout
from nvtrace.sinks.chrome_parts import head, members, placed
from nvtrace.sinks.chrome_paths import RangePaths
from nvtrace.sinks.chrome_rows import Number, Part, Rows, Thousandths, When
from nvtrace.sinks.chrome_texts import Source, Texts

# Of a launch, what its kernel decides as a rule; the grid goes with the size of the data.
_PER_LAUNCH = (
    "block_x",
    "block_y",
    "block_z",
    "registers",
    "static_shared",
    "dynamic_shared",
)


class DeviceEvents:
    """Makes the rows of device events; ``zero`` is the time, in ns, that the file counts from."""

    def __init__(self, explained: Explained, layout: Layout, zero: int) -> None:
        self._explained = explained
        self._trace = explained.trace
        self._paths = RangePaths(explained)
        device = self._device = explained.trace.device
        step, correlation, node = explained.device_step, device["correlation"], device["graph_node"]
        self._text_columns: tuple[Source, ...] = (
            *(device[name] for name in ("short_name", "name", "kind", "copy_kind", "stream")),
            explained.device_how,
            lambda rows: self._paths.codes(explained.device_range[rows]),
            lambda rows: self._paths.codes(explained.device_capture[rows]),
        )
        self._front: tuple[Part, ...] = (
            When(lambda rows: correlation[rows] > 0, (b',"correlation":', Number(correlation))),
            When(lambda rows: step[rows] >= 0, (b',"step":', Number(step))),
            When(lambda rows: node[rows] > 0, (b',"graph_node":', Number(node))),
        )
        start, end = device["start"], device["end"]
        self._back: tuple[Part, ...] = (
            b'},"ph":"X"',
            *placed(layout.tracks, layout.device_lane, lambda rows: start[rows] - zero),
            b',"dur":',
            Thousandths(lambda rows: end[rows] - start[rows]),
            b"}",
        )

    def kernels(self, arrival: tuple[Part, ...]) -> tuple[Rows, Rows]:
        """Return the rows of kernels, with how they were launched, without and with an arrow."""
        details = LaunchDetails(self._trace.kernel_details)
        x, y, z = (details.column(f"grid_{axis}") for axis in "xyz")
        grid = Number(x), b",", Number(y), b",", Number(z)
        parts: tuple[Part, ...] = (
            *self._front,
            When(lambda rows: x(rows) > 0, (b',"grid":[', *grid, b"]")),
            *self._back,
        )
        rest = [details.column(name) for name in _PER_LAUNCH]

        def fragment(row: int) -> bytes:
            here = np.array([row])
            block_x, block_y, block_z, registers, static, dynamic = (
                int(column(here)[0]) for column in rest
            )
            args = {
                "block": [block_x, block_y, block_z] if block_x > 0 else None,
                "registers_per_thread": registers if registers > 0 else None,
                "static_shared_bytes": static if static >= 0 else None,
                "dynamic_shared_bytes": dynamic if dynamic >= 0 else None,
            }
            launch = members(args)
            return self._fragment(row) + (b"," if launch else b"") + launch

        text = Texts([*self._text_columns, *rest], fragment)
        return Rows(text, *parts), Rows(text, *parts, *arrival)

    def others(self, arrival: tuple[Part, ...]) -> tuple[Rows, Rows]:
        """Return the rows of copies, memsets and graph runs, with bytes and bandwidth."""
        device = self._device
        size = device["bytes"]

        def duration(rows: I64) -> I64:
            return device["end"][rows] - device["start"][rows]

        # Bytes per ns are GB per s.
        rate = Thousandths(lambda rows: size[rows] * 1000 // np.maximum(duration(rows), 1))
        parts: tuple[Part, ...] = (
            *self._front,
            When(lambda rows: size[rows] >= 0, (b',"bytes":', Number(size))),
            When(
                lambda rows: (size[rows] >= 0) & (duration(rows) > 0),
                (b',"bandwidth_gb_per_s":', rate),
            ),
            *self._back,
        )
        text = Texts(self._text_columns, self._fragment)
        return Rows(text, *parts), Rows(text, *parts, *arrival)

    def _fragment(self, row: int) -> bytes:
        device, strings, explained = self._device, self._trace.strings, self._explained
        name, full = strings[device["short_name"][row]], strings[device["name"][row]]
        kind = DeviceKind(device["kind"][row])
        copy_kind = COPY_KINDS.get(int(device["copy_kind"][row]))
        streams, stream = self._trace.streams, int(device["stream"][row])
        number = int(streams["device"][stream])
        args = {
            "full_name": full if full != name else None,
            "copy_kind": copy_kind if kind == DeviceKind.MEMCPY else None,
            "stream": int(streams["stream"][stream]),
            "context": int(streams["context"][stream]),
            "device": self._trace.devices[number].ordinal if number >= 0 else None,
            "attribution": Attribution(explained.device_how[row]).name.lower(),
        }
        ranges = {"range": explained.device_range, "captured_in": explained.device_capture}
        paths = (
            b',"%b":"%b"' % (key.encode(), self._paths.text(int(range_of[row])))
            for key, range_of in ranges.items()
            if range_of[row] >= 0
        )
        return head(name, kind.name.lower()) + members(args) + b"".join(paths)


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
