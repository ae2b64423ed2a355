"""Counters of an nsys export: GPU memory in use, and sampled GPU metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import factorize
from nvtrace.model.trace import Counter
from nvtrace.sources.columns import Coded
from nvtrace.sources.nsys_identity import Identities
from nvtrace.sources.table_reader import TableReader

I64 = npt.NDArray[np.int64]
Columns = dict[str, npt.NDArray[Any]]

_MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"
_METRICS = "GPU_METRICS"
# kinds of memory that lie on the device: device, array, static device
_ON_DEVICE = (2, 3, 5)
_ALLOCATION = 0


def samples(reader: TableReader, identities: Identities) -> tuple[Columns, list[Counter]]:
    """Return the columns of SAMPLES, times the file's own, and the counters they are of."""
    counters: list[Counter] = []
    parts = [_memory(reader, identities, counters), _metrics(reader, counters)]
    parts = [part for part in parts if part]
    if not parts:
        return {}, []
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, counters


def _memory(reader: TableReader, identities: Identities, counters: list[Counter]) -> Columns:
    """Return memory in use on each device by each process, from allocations and frees."""
    if "start" not in reader.columns(_MEMORY):
        return {}
    wanted = {"start": 0, "globalPid": 0, "deviceId": 0, "bytes": 0}
    wanted |= {"memKind": _ON_DEVICE[0], "memoryOperationType": _ALLOCATION}
    rows = reader.integers(_MEMORY, wanted)
    kept = np.flatnonzero(np.isin(rows["memKind"], _ON_DEVICE))
    kept = kept[np.argsort(rows["start"][kept], kind="stable")]
    process = identities.processes(Coded.of(rows["globalPid"]))[kept]
    device = rows["deviceId"][kept]
    change = np.where(
        rows["memoryOperationType"][kept] == _ALLOCATION, rows["bytes"][kept], -rows["bytes"][kept]
    )
    keys, codes = factorize(process.astype(np.int64) * 4096 + device)
    value = np.zeros(len(kept))
    for code, key in enumerate(keys.tolist()):
        here = codes == code
        # memory that was allocated before the capture is freed in it: the level is relative then
        level = np.cumsum(change[here])
        value[here] = level - min(int(level.min(initial=0)), 0)
        owner, ordinal = divmod(key, 4096)
        counters.append(
            Counter("GPU memory", "bytes", device=identities.device(owner, ordinal), process=owner)
        )
    return {"time": rows["start"][kept], "counter": codes, "value": value}


def _metrics(reader: TableReader, counters: list[Counter]) -> Columns:
    """Return sampled hardware metrics, each a counter of its own."""
    named = {"typeId", "typeName", "metricId", "metricName"}
    if not {"timestamp", "typeId", "metricId", "value"} <= set(reader.columns(_METRICS)):
        return {}
    rows = reader.integers(_METRICS, {"timestamp": 0, "typeId": 0, "metricId": 0, "value": 0})
    names: dict[tuple[int, int], str] = {}
    if named <= set(reader.columns("TARGET_INFO_GPU_METRICS")):
        listed = reader.rows(
            "TARGET_INFO_GPU_METRICS", ("typeId", "metricId", "typeName", "metricName")
        )
        for kind, metric, kind_name, name in listed:
            names[kind, metric] = f"{name} ({kind_name})"
    types, type_codes = factorize(rows["typeId"])
    metrics, metric_codes = factorize(rows["metricId"])
    keys, codes = factorize(type_codes.astype(np.int64) * max(len(metrics), 1) + metric_codes)
    first = len(counters)
    for key in keys.tolist():
        kind, metric = int(types[key // len(metrics)]), int(metrics[key % len(metrics)])
        counters.append(Counter(names.get((kind, metric), f"GPU metric {metric}"), ""))
    return {
        "time": rows["timestamp"],
        "counter": codes + first,
        "value": rows["value"].astype(np.float64),
    }
