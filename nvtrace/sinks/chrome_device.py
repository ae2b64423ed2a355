"""The events of the device's side: kernels, copies, memsets, graph runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nvtrace.model.explained import Explained
from nvtrace.model.schema import COPY_KINDS, Attribution, DeviceKind
from nvtrace.sinks.chrome_layout import Layout
from nvtrace.sinks.chrome_parts import head, lasting, members, placed
from nvtrace.sinks.chrome_paths import RangePaths
from nvtrace.sinks.chrome_rows import Number, Part, Rows, Text, Thousandths, When, text_by

I32 = npt.NDArray[np.int32]


class DeviceEvents:
    """Makes the rows of device events; ``zero`` is the time, in ns, that the file counts from."""

    def __init__(self, explained: Explained, layout: Layout, zero: int) -> None:
        self._explained = explained
        self._trace = explained.trace
        device = self._device = explained.trace.device
        step, correlation, node = explained.device_step, device["correlation"], device["graph_node"]
        self._front: tuple[Part, ...] = (
            self._heads(),
            self._streams(),
            When(correlation > 0, (b',"correlation":', Number(correlation))),
            When(step >= 0, (b',"step":', Number(step))),
            When(node > 0, (b',"graph_node":', Number(node))),
        )
        self._back: tuple[Part, ...] = (
            *self._attribution(),
            b'},"ph":"X"',
            *placed(layout.tracks, layout.device_lane, device["start"] - zero),
            *lasting(device["start"], device["end"]),
        )

    def kernels(self) -> Rows:
        """Return the rows of kernels, with how they were launched."""
        details = self._trace.kernel_details

        def column(name: str) -> I32:
            values = np.full(self._device.rows, -1, np.int32)
            values[details["row"]] = details[name]
            return values

        def triple(name: str) -> When:
            x, y, z = (column(f"{name}_{axis}") for axis in "xyz")
            numbers = Number(x), b",", Number(y), b",", Number(z)
            return When(x > 0, (b',"' + name.encode() + b'":[', *numbers, b"]"))

        registers = column("registers")
        static, dynamic = column("static_shared"), column("dynamic_shared")
        return Rows(
            *self._front,
            triple("grid"),
            triple("block"),
            When(registers > 0, (b',"registers_per_thread":', Number(registers))),
            When(static >= 0, (b',"static_shared_bytes":', Number(static))),
            When(dynamic >= 0, (b',"dynamic_shared_bytes":', Number(dynamic))),
            *self._back,
        )

    def others(self) -> Rows:
        """Return the rows of copies, memsets and graph runs, with bytes and bandwidth."""
        size, duration = self._device["bytes"], self._device["end"] - self._device["start"]
        timed = (size >= 0) & (duration > 0)
        # Bytes per ns are GB per s.
        rate = np.where(timed, size * 1000 // np.maximum(duration, 1), 0)
        return Rows(
            *self._front,
            When(size >= 0, (b',"bytes":', Number(size))),
            When(timed, (b',"bandwidth_gb_per_s":', Thousandths(rate))),
            *self._back,
        )

    def _heads(self) -> Text:
        device, strings = self._device, self._trace.strings

        def fragment(row: int) -> bytes:
            name, full = strings[device["short_name"][row]], strings[device["name"][row]]
            kind = DeviceKind(device["kind"][row])
            copy_kind = COPY_KINDS.get(int(device["copy_kind"][row]))
            args = {
                "full_name": full if full != name else None,
                "copy_kind": copy_kind if kind == DeviceKind.MEMCPY else None,
            }
            given = members(args)
            return head(name, kind.name.lower()) + given + (b"," if given else b"")

        names = ("short_name", "name", "kind", "copy_kind")
        return text_by([device[name] for name in names], fragment)

    def _streams(self) -> Text:
        streams, devices = self._trace.streams, self._trace.devices

        def fragment(row: int) -> bytes:
            device = int(streams["device"][row])
            args = {name: int(streams[name][row]) for name in ("stream", "context")}
            return members(args | ({"device": devices[device].ordinal} if device >= 0 else {}))

        table = np.empty(streams.rows, dtype=object)
        table[:] = [fragment(row) for row in range(streams.rows)]
        return Text(table, self._device["stream"])

    def _attribution(self) -> tuple[Text, ...]:
        explained = self._explained
        paths = RangePaths(explained)
        codes = np.append(paths.code, np.int32(-1))  # the last, -1, is read where there is no range

        def how(row: int) -> bytes:
            name = Attribution(explained.device_how[row]).name.lower()
            return b',"attribution":"' + name.encode() + b'"'

        def path(key: bytes, path: I32) -> Text:
            start = b',"' + key + b'":"'
            return text_by(
                [path],
                lambda row: start + paths.text(int(path[row])) + b'"' if path[row] >= 0 else b"",
            )

        return (
            text_by([explained.device_how], how),
            path(b"range", codes[explained.device_range]),
            path(b"captured_in", codes[explained.device_capture]),
        )
