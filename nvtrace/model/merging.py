"""Several traces as one: ids namespaced, clocks aligned where both traces know the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import time_order
from nvtrace.model.strings import Strings
from nvtrace.model.table import Table
from nvtrace.model.trace import Device, Note, Process, Recorded, TraceData

Rows = npt.NDArray[np.int32]

_ALIGNED = Note(
    "clocks_aligned",
    "the files were put on one clock by the wall time at which each capture began: between "
    "machines it is as good as their clocks agree",
)
_NOT_ALIGNED = Note(
    "clocks_not_aligned",
    "a file does not say when its capture began, so each file starts at 0: do not compare times "
    "between files",
)


def merge(traces: Sequence[TraceData]) -> TraceData:
    """Return the events of all ``traces`` on one clock.

    Clocks are aligned by the Unix time of each trace's zero. Where one is unknown, every trace
    starts at 0 and a note says so. Devices with one UUID become one.
    """
    if len(traces) == 1:
        return traces[0]
    origins = [trace.origin_unix_ns for trace in traces]
    known = [origin for origin in origins if origin is not None]
    aligned = len(known) == len(traces)
    zero = min(known) if aligned else 0
    offsets = [(origin or 0) - zero if aligned else 0 for origin in origins]
    strings = Strings()
    categories = Strings()
    devices: list[Device] = []
    parts = [
        _Part(trace, offset, strings, categories, devices, _before(traces, place))
        for place, (trace, offset) in enumerate(zip(traces, offsets, strict=True))
    ]
    first = traces[0]
    return TraceData(
        ranges=_sorted(_joined(first.ranges, [part.ranges() for part in parts])),
        calls=_sorted(_joined(first.calls, [part.calls() for part in parts])),
        **_device_and_details(first, parts),
        graph_nodes=_joined(first.graph_nodes, [part.graph_nodes() for part in parts]),
        samples=_joined(first.samples, [part.samples() for part in parts]),
        streams=_joined(first.streams, [part.streams() for part in parts]),
        threads=_joined(first.threads, [part.threads() for part in parts]),
        strings=strings,
        domains=tuple(
            domain._replace(process=domain.process + part.base["processes"])
            for part in parts
            for domain in part.trace.domains
        ),
        categories=tuple(categories),
        processes=tuple(process for part in parts for process in part.processes()),
        devices=tuple(devices),
        cpu=tuple(usage for trace in traces for usage in trace.cpu),
        counters=tuple(counter for part in parts for counter in part.counters()),
        sources=tuple(
            source._replace(offset_ns=source.offset_ns + offset)
            for trace, offset in zip(traces, offsets, strict=True)
            for source in trace.sources
        ),
        notes=_notes(traces, aligned),
        recorded=_recorded(traces),
        origin_unix_ns=zero if aligned else None,
        shift_ns=0,
        capture_start=min(
            trace.capture_start + offset for trace, offset in zip(traces, offsets, strict=True)
        ),
    )


def _notes(traces: Sequence[TraceData], aligned: bool) -> tuple[Note, ...]:
    notes = [_ALIGNED if aligned else _NOT_ALIGNED]
    unrecorded = [trace.sources[0].name for trace in traces if not trace.recorded.device]
    if unrecorded and len(unrecorded) < len(traces):
        notes.append(
            Note(
                "file_without_gpu_activity",
                f"{', '.join(unrecorded)}: GPU activity was not recorded, so GPU figures leave "
                "these processes out",
            )
        )
    named = [
        one._replace(message=f"{trace.sources[0].name}: {one.message}")
        for trace in traces
        for one in trace.notes
    ]
    return *notes, *named


def _recorded(traces: Sequence[TraceData]) -> Recorded:
    kinds = Recorded._fields
    return Recorded(
        **{kind: any(getattr(trace.recorded, kind) for trace in traces) for kind in kinds}
    )


def _before(traces: Sequence[TraceData], place: int) -> dict[str, int]:
    earlier = traces[:place]
    return {
        "processes": sum(len(trace.processes) for trace in earlier),
        "threads": sum(trace.threads.rows for trace in earlier),
        "streams": sum(trace.streams.rows for trace in earlier),
        "domains": sum(len(trace.domains) for trace in earlier),
        "counters": sum(len(trace.counters) for trace in earlier),
    }


class _Part:
    """One trace with its rows renumbered for the whole."""

    def __init__(
        self,
        trace: TraceData,
        offset: int,
        strings: Strings,
        categories: Strings,
        devices: list[Device],
        base: dict[str, int],
    ) -> None:
        self.trace = trace
        self.base = base
        self._offset = offset
        self._strings = strings.intern_all(trace.strings)
        self._categories = categories.intern_all(trace.categories)
        self._devices = np.array(
            [_device_row(devices, device, base["processes"]) for device in trace.devices], np.int32
        )

    def _moved(self, table: Table, **maps: int | Rows) -> dict[str, npt.NDArray[Any]]:
        """Return the columns: times shifted, rows of other tables renumbered, -1 staying -1."""
        columns: dict[str, npt.NDArray[Any]] = {}
        for name, values in table.items():
            if name in ("start", "end", "time"):
                columns[name] = values + self._offset
            elif name in maps:
                to = maps[name]
                if isinstance(to, int):
                    columns[name] = np.where(values >= 0, values + to, values)
                else:
                    columns[name] = np.where(values >= 0, to[values], values) if len(to) else values
            else:
                columns[name] = values
        return columns

    def ranges(self) -> dict[str, npt.NDArray[Any]]:
        return self._moved(
            self.trace.ranges,
            name=self._strings,
            text=self._strings,
            domain=self.base["domains"],
            category=self._categories,
            thread=self.base["threads"],
            end_thread=self.base["threads"],
        )

    def calls(self) -> dict[str, npt.NDArray[Any]]:
        return self._moved(
            self.trace.calls,
            name=self._strings,
            thread=self.base["threads"],
            process=self.base["processes"],
        )

    def device(self) -> dict[str, npt.NDArray[Any]]:
        return self._moved(
            self.trace.device,
            name=self._strings,
            short_name=self._strings,
            stream=self.base["streams"],
            process=self.base["processes"],
        )

    def graph_nodes(self) -> dict[str, npt.NDArray[Any]]:
        return self._moved(
            self.trace.graph_nodes, thread=self.base["threads"], process=self.base["processes"]
        )

    def samples(self) -> dict[str, npt.NDArray[Any]]:
        return self._moved(self.trace.samples, counter=self.base["counters"])

    def streams(self) -> dict[str, npt.NDArray[Any]]:
        return self._moved(self.trace.streams, device=self._devices, process=self.base["processes"])

    def threads(self) -> dict[str, npt.NDArray[Any]]:
        return self._moved(self.trace.threads, process=self.base["processes"], name=self._strings)

    def processes(self) -> list[Process]:
        recorded = self.trace.recorded.device
        return [one._replace(device_recorded=recorded) for one in self.trace.processes]

    def counters(self) -> list[Any]:
        return [
            counter._replace(
                device=int(self._devices[counter.device]) if counter.device >= 0 else -1,
                process=counter.process + self.base["processes"] if counter.process >= 0 else -1,
            )
            for counter in self.trace.counters
        ]


def _device_row(devices: list[Device], device: Device, processes: int) -> int:
    if device.uuid:
        for row, known in enumerate(devices):
            if known.uuid == device.uuid:
                return row
    moved = device._replace(process=device.process + processes) if device.process >= 0 else device
    devices.append(moved)
    return len(devices) - 1


def _joined(like: Table, parts: list[dict[str, npt.NDArray[Any]]]) -> Table:
    return Table.concatenate(like.spec, parts)


def _sorted(table: Table) -> Table:
    return table.take(time_order(table))


def _device_and_details(first: TraceData, parts: list[_Part]) -> dict[str, Table]:
    device = _joined(first.device, [part.device() for part in parts])
    order = time_order(device)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    details = []
    before = 0
    for part in parts:
        columns = dict(part.trace.kernel_details)
        columns["row"] = place[columns["row"] + before]
        details.append(columns)
        before += part.trace.device.rows
    joined = _joined(first.kernel_details, details)
    by_row = joined.take(np.argsort(joined["row"], kind="stable"))
    return {"device": device.take(order), "kernel_details": by_row}
