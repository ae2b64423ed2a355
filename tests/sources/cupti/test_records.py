"""Records planted in memory, in the layouts that NVIDIA's own package states, read three ways.

The layouts are the numpy types of cupti-python, the record boundaries those of the real library's
parser, the values random. Sizes are those that CUPTI's documentation gives for each version.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from nvtrace.sources.cupti import decode
from nvtrace.sources.cupti.decode import Decoder
from nvtrace.sources.cupti.layout import FIELDS, KIND_LIMIT, RecordKind
from nvtrace.sources.cupti.library import unreadable
from nvtrace.sources.cupti.shim import Shim

VERSIONS = ("12.8", "13.0", "newest")
LIBRARIES = {
    "12.8": "nvidia/cuda_cupti/lib/libcupti.so.12",
    "13.0": "nvidia/cu13/lib/libcupti.so.13",
    "newest": "nvidia/cu13/lib/libcupti.so.13",
}
# by kind; 12.8 lays its records out as 13.0 does, but for what 13.0 appended to kernels
SIZES = {
    "12.8": {1: 96, 2: 88, 3: 208, 4: 40, 5: 40, 10: 208, 17: 56, 22: 96, 38: 56, 51: 56, 39: 24},
    "13.0": {1: 96, 2: 88, 3: 216, 4: 40, 5: 40, 10: 216, 17: 56, 22: 96, 38: 56, 51: 56, 39: 24},
    "newest": {
        1: 112,
        2: 104,
        3: 248,
        4: 40,
        5: 40,
        10: 248,
        17: 56,
        22: 96,
        38: 56,
        51: 56,
        39: 24,
    },
}
OLD, NEW = ("kernel10", "memcpy6", "memset4"), ("kernel13", "memcpy7", "memset5")
TYPES = {
    binding: {
        RecordKind.KERNEL: kernel,
        RecordKind.CONCURRENT_KERNEL: kernel,
        RecordKind.MEMCPY: memcpy,
        RecordKind.MEMSET: memset,
        RecordKind.MEMCPY_PEER: "memcpy_pto_p4",
        RecordKind.DRIVER: "api",
        RecordKind.RUNTIME: "api",
        RecordKind.OVERHEAD: "overhead3",
        RecordKind.SYNCHRONIZATION: "synchronization2",
        RecordKind.GRAPH_TRACE: "graph_trace2",
    }
    for binding, (kernel, memcpy, memset) in {"13.0": OLD, "newest": NEW}.items()
}
THEIR_NAMES = {
    "callback": "cbid",
    "correlation": "correlation_id",
    "device": "device_id",
    "context": "context_id",
    "stream": "stream_id",
    "graph": "graph_id",
    "graph_node": "graph_node_id",
    "registers": "registers_per_thread",
    "static_shared": "static_shared_memory",
    "dynamic_shared": "dynamic_shared_memory",
    "overhead": "overhead_kind",
    "object": "object_kind",
    "synchronization": "type",
}
DUMP_TYPES = """
import json, sys
import cupti.cupti as cupti
print(json.dumps({name: [[f, t.fields[f][0].str, t.fields[f][1]] for f in t.names] + [t.itemsize]
                  for name in sys.argv[1:] for t in [getattr(cupti, f"activity_{name}_dtype")]}))
"""
PARSE = """
import json, sys
from pathlib import Path
import numpy as np
from nvtrace.sources.cupti.library import Library
library = Library(Path(sys.argv[1]))
records = np.fromfile(sys.argv[2], np.uint64).view(np.uint8)
print(json.dumps([library.version, library.sizes().tolist(), library.offsets(records)]))
"""

Layouts = dict[str, dict[int, np.dtype[Any]]]


def outside(cupti: Path, script: str, *arguments: str, path: str = "") -> Any:
    """What a script prints, in a process of its own with the driver library at hand."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(cupti / "driver"), "PYTHONPATH": path}
    command = [sys.executable, "-c", script, *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture(scope="module")
def layouts(cupti: Path) -> Layouts:
    """NVIDIA's own types of the records, by binding and kind."""
    found: Layouts = {}
    for binding, names in TYPES.items():
        path = f"{cupti / binding}:{cupti / 'support'}"
        dumped = outside(cupti, DUMP_TYPES, *sorted(set(names.values())), path=path)
        types = {}
        for name, (*fields, size) in dumped.items():
            parts = {
                "names": [field[0] for field in fields],
                "formats": [field[1] for field in fields],
                "offsets": [field[2] for field in fields],
                "itemsize": size,
            }
            types[name] = np.dtype(parts)  # type: ignore[call-overload]
        found[binding] = {kind: types[name] for kind, name in names.items()}
    return found


def _field(kind: int, name: str, layout: np.dtype[Any]) -> tuple[str, int]:
    """Where their type has one of our fields, and its type."""
    assert layout.fields is not None
    if (kind, name) == (RecordKind.OVERHEAD, "thread_id"):
        # the second member of the process and thread in their opaque object id
        return "u4", layout.fields["object_id"][1] + 4
    field = layout.fields[name if name in layout.fields else THEIR_NAMES[name]]
    return field[0].str[1:], field[1]


@pytest.mark.parametrize("binding", list(TYPES))
def test_fields_lie_where_cupti_python_has_them(layouts: Layouts, binding: str) -> None:
    for kind, fields in FIELDS.items():
        for name, (offset, code) in fields.items():
            theirs, place = _field(kind, name, layouts[binding][kind])
            assert place == offset, (kind, name)
            # enumerations and pointers are signed there; the bits are the same
            assert theirs[1:] == code[1:], (kind, name)


def planted(
    version: str, layouts: Layouts, count: int
) -> tuple[npt.NDArray[np.uint8], list[tuple[int, int]], dict[int, npt.NDArray[Any]]]:
    """Random records of mixed kinds: bytes, (kind, offset) of each, and values by kind."""
    rng = np.random.default_rng(count)
    sizes = SIZES[version]
    kinds = rng.choice([*FIELDS, 39], count)
    types = layouts["newest" if version == "newest" else "13.0"]
    parts = []
    places = []
    position = 0
    values: dict[int, list[bytes]] = {}
    for kind in kinds.tolist():
        record = rng.bytes(sizes[kind])
        record = int(kind).to_bytes(4, "little") + record[4:]
        values.setdefault(kind, []).append(record)
        parts.append(record)
        places.append((kind, position))
        position += len(record)
    by_kind = {}
    for kind, layout in types.items():
        width = layout.itemsize
        raw = b"".join(record.ljust(width, b"\0")[:width] for record in values[kind])
        by_kind[int(kind)] = np.frombuffer(raw, layout)
    data = np.frombuffer(b"".join(parts), np.uint64).copy().view(np.uint8)
    return data, places, by_kind


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest, cupti: Path) -> str:
    if request.param == "newest" and not (cupti / "driver").is_dir():
        pytest.skip("CUPTI parses nothing from 13.2 on without a driver library: not had here")
    return str(request.param)


@pytest.mark.parametrize("count", [1, 7, 5000])
def test_all_three_ways_agree(
    cupti: Path, layouts: Layouts, shim: Path, version: str, count: int, tmp_path: Path
) -> None:
    many = max(count, len(FIELDS) * 20)  # every kind has to be there for its values
    records, places, values = planted(version, layouts, many)
    records.tofile(tmp_path / "records")
    library = cupti / version / LIBRARIES[version]
    found, sizes, offsets = outside(cupti, PARSE, str(library), str(tmp_path / "records"))
    assert found in (26, 130001) or found >= 130500
    assert {kind: sizes[kind] for kind in SIZES[version]} == SIZES[version]
    assert offsets == [place for _, place in places]
    table = np.array(sizes, np.uint32)
    assert unreadable(table) == []

    for walk in (Shim(shim).walk, decode.walk):
        starts, kinds, end = walk(records, table)
        assert starts.tolist() == offsets
        assert kinds.tolist() == [kind for kind, _ in places]
        assert end == len(records)

    names: list[int] = []
    decoder = Decoder(table, Shim(shim).walk, lambda at: names.append(at) or f"at {at}".encode())  # type: ignore[func-returns-value]
    decoder.add(records)
    assert decoder.unread_bytes == 0
    for kind, fields in FIELDS.items():
        columns = decoder.columns(kind)
        layout = values[kind].dtype
        for name in fields:
            code, place = _field(kind, name, layout)
            raw = values[kind].view(np.uint8).reshape(-1, layout.itemsize)
            wanted = raw[:, place : place + int(code[1])].copy().view(code).ravel()
            got = columns[name]
            if name == "name":
                texts = decoder.names.take(got)
                assert texts == [f"at {at}" for at in wanted.view("u8").tolist()]
            else:
                assert got.view(code).tolist() == wanted.tolist(), (kind, name)


@pytest.mark.parametrize("version", VERSIONS)
def test_reading_stops_at_what_is_unknown(shim: Path, version: str) -> None:
    sizes = np.zeros(KIND_LIMIT, np.uint32)
    for kind, size in SIZES[version].items():
        sizes[kind] = size
    for walk in (Shim(shim).walk, decode.walk):
        for strange in (0, 6, 255, 256, 2**31):
            records = np.zeros(40 + 24 + 40, np.uint8)
            records[[0, 64]] = 5
            records[40:44].view(np.uint32)[0] = strange
            decoder = Decoder(sizes, walk)
            decoder.add(records)
            assert len(decoder.columns(RecordKind.RUNTIME)["start"]) == 1
            assert decoder.unread_bytes == 64
            assert dict(decoder.unknown) == {strange: 1}
        cut = np.zeros(40 + 32, np.uint8)  # the second record is cut short
        cut[[0, 40]] = 5
        starts, _, end = walk(cut, sizes)
        assert (starts.tolist(), end) == ([0], 40)
        assert walk(np.zeros(0, np.uint8), sizes)[2] == 0


OBJECTS = """
from cupti import cupti
from nvtrace.sources.cupti import decode
from nvtrace.sources.cupti.layout import FIELDS
from nvtrace.sources.cupti.library import Library, mapped

cupti.get_timestamp()
library = Library(mapped()[0])
sizes = library.sizes()
rng = np.random.default_rng(5)
name = ctypes.create_string_buffer("_ZN3app4stepIfEEvPT_i".encode())
objects = []
cupti.activity_register_callbacks(lambda: (1 << 20, 0), objects.extend)
kinds = rng.choice([1, 2, 3, 4, 5, 10, 17, 22, 38, 51], int(os.environ["TEST_COUNT"]))
decoder = decode.Decoder(sizes)
for kind in kinds.tolist():
    record = np.frombuffer(rng.bytes(int(sizes[kind])), np.uint8).copy()
    record[:4].view("<u4")[0] = kind
    if kind in (3, 10):
        record[104:112].view("<u8")[0] = ctypes.addressof(name)
    decoder.add(record)
    library.handle.double_record(record.ctypes.data_as(ctypes.c_void_p))
library.handle.cuptiActivityFlushAll(1)
theirs = {kind: [one for one in objects if int(one.kind) == kind] for kind in FIELDS}
compared, wrong = 0, []
names = json.loads(os.environ["TEST_NAMES"])
for kind, fields in FIELDS.items():
    columns = decoder.columns(kind)
    assert len(columns["start"]) == len(theirs[kind]), kind
    for field in fields:
        if (kind, field) == (17, "thread_id"):
            continue  # opaque in their objects
        for one, value in zip(theirs[kind], columns[field].tolist()):
            got = getattr(one, names.get(field, field) if not hasattr(one, field) else field)
            if field == "name":
                value = decoder.names[value]
            else:  # some that are signed here are not there, and the other way round
                bits = 2 ** (8 * int(fields[field][1][1]))
                got, value = int(got) % bits, value % bits
            compared += 1
            if got != value:
                wrong.append([kind, field, str(got), str(value)])
print(json.dumps([len(objects), compared, wrong[:20]]))
"""


def test_cupti_pythons_objects_say_the_same(double: Callable[..., Any]) -> None:
    environment = {"TEST_COUNT": "600", "TEST_NAMES": json.dumps(THEIR_NAMES)}
    objects, compared, wrong = double(OBJECTS, **environment)
    assert wrong == []
    assert objects == 600
    assert compared > 600 * 5
