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
from nvtrace.sinks.chrome_texts import Texts


class DeviceEvents:
    """Makes the rows of device events; ``zero`` is the time, in ns, that the file counts from."""

    def __init__(self, explained: Explained, layout: Layout, zero: int) -> None:
        self._explained = explained
        self._trace = explained.trace
        self._paths = RangePaths(explained)
        device = self._device = explained.trace.device
        step, correlation, node = explained.device_step, device["correlation"], device["graph_node"]
        self._text = Texts(
            [
                *(device[name] for name in ("short_name", "name", "kind", "copy_kind", "stream")),
                explained.device_how,
                lambda rows: self._paths.codes(explained.device_range[rows]),
                lambda rows: self._paths.codes(explained.device_capture[rows]),
            ],
            self._fragment,
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

        def triple(name: str) -> When:
            x, y, z = (details.column(f"{name}_{axis}") for axis in "xyz")
            numbers = Number(x), b",", Number(y), b",", Number(z)
            return When(lambda rows: x(rows) > 0, (f',"{name}":['.encode(), *numbers, b"]"))

        def single(column: str, key: bytes, least: int) -> When:
            value = details.column(column)
            return When(lambda rows: value(rows) >= least, (b',"' + key + b'":', Number(value)))

        parts: tuple[Part, ...] = (
            *self._front,
            triple("grid"),
            triple("block"),
            single("registers", b"registers_per_thread", 1),
            single("static_shared", b"static_shared_bytes", 0),
            single("dynamic_shared", b"dynamic_shared_bytes", 0),
            *self._back,
        )
        return Rows(self._text, *parts), Rows(self._text, *parts, *arrival)

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
        return Rows(self._text, *parts), Rows(self._text, *parts, *arrival)

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
        low, high = np.searchsorted(self._rows, [rows.min(), rows.max() + 1]).tolist()
        if low == high:
            return np.full(len(rows), -1)
        near = self._rows[low:high]
        place = np.minimum(np.searchsorted(near, rows), len(near) - 1)
        known = near[place] == rows
        place += low
        return np.where(known, place if self._order is None else self._order[place], -1)
