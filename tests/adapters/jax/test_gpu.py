"""GPU planes of a session, written by hand after public files; no GPU has been asked yet."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from nvtrace.adapters.jax import operators, xspace
from nvtrace.adapters.jax.session import Capture
from wire_bytes import message

from nvtrace import capture as building
from nvtrace.emit.recording import Recording
from nvtrace.model.schema import DeviceKind

OFFSET = 1_000_000


class Plane:
    """Builds a plane: names of events and of facts get numbers as they are met."""

    def __init__(self, name: str) -> None:
        self.name, self.lines = name, []
        self.kinds: dict[str, int] = {}
        self.facts: dict[str, int] = {}

    def line(self, id: int, name: str, *events: tuple[str, int, int, dict[str, Any]]) -> None:
        rows = []
        for kind, start, end, facts in events:
            stats = [
                message(
                    (1, self.facts.setdefault(key, len(self.facts) + 1)),
                    (4, value) if isinstance(value, int) else (5, value.encode()),
                )
                for key, value in facts.items()
            ]
            number = self.kinds.setdefault(kind, len(self.kinds) + 1)
            times = [(1, number), (2, start * 1000), (3, (end - start) * 1000)]
            rows.append((4, message(*times, *((4, one) for one in stats))))
        self.lines.append(message((1, id), (2, name.encode()), *rows))

    def bytes(self) -> bytes:
        def table(names: dict[str, int]) -> list[bytes]:
            return [
                message((1, number), (2, message((1, number), (2, name.encode()))))
                for name, number in names.items()
            ]

        return message(
            (2, self.name.encode()),
            *((3, line) for line in self.lines),
            *((4, kind) for kind in table(self.kinds)),
            *((5, fact) for fact in table(self.facts)),
        )


def session() -> Capture:
    host = Plane("/host:CPU")
    host.line(
        77,
        "python",
        ("cuLaunchKernel", 100, 110, {"correlation_id": 5}),
        ("cuMemcpyHtoDAsync", 200, 215, {"correlation_id": 6}),
        ("cuGraphLaunch", 300, 310, {"correlation_id": 7}),
    )
    gpu = Plane("/device:GPU:1")
    hlo = {"hlo_module": "jit_step", "program_id": 3}
    shape = "regs:32 static_shared:0 dynamic_shared:128 grid:108,2,1 block:256,1,1 occ_pct:100"
    gpu.line(
        1,
        "Stream #20(Compute)",
        (
            "gemm",
            400,
            900,
            {"correlation_id": 5, "hlo_op": "dot.1", "kernel_details": shape, **hlo},
        ),
        ("loop", 900, 950, {"correlation_id": 7, "hlo_op": "fusion.1", **hlo}),
        ("loop", 950, 970, {"correlation_id": 7, "hlo_op": "fusion.2", **hlo}),
    )
    size = "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"
    copied = ("MemcpyH2D", 220, 300, {"correlation_id": 6, "memcpy_details": size})
    gpu.line(2, "Stream #21(MemcpyH2D)", copied)
    gpu.line(9, "XLA Ops", ("dot.1", 400, 900, {}))
    planes = xspace.read(message((1, host.bytes()), (1, gpu.bytes())))
    return Capture(planes, OFFSET, 1, 77, threading.get_native_id(), 0)


def test_kernels_copies_and_launches() -> None:
    found = operators.harvest(session())
    trace = building.build(Recording([], [], start_ns=OFFSET, end_ns=OFFSET + 2000), None, [found])
    device = trace.device
    assert trace.recorded.kernels
    assert trace.origin_unix_ns == OFFSET + 100
    kinds = [DeviceKind(kind) for kind in device["kind"].tolist()]
    assert kinds == [DeviceKind.MEMCPY, *[DeviceKind.KERNEL] * 3]
    assert trace.strings.take(device["name"]) == ["MemcpyH2D", "gemm", "loop", "loop"]
    assert (device["end"] - device["start"]).tolist() == [80, 500, 50, 20]
    assert device["start"].tolist() == [120, 300, 800, 850]
    assert device["bytes"].tolist() == [4096, -1, -1, -1]
    assert device["copy_kind"].tolist() == [1, 0, 0, 0]
    assert trace.streams["stream"].tolist() == [21, 20]
    assert [one.ordinal for one in trace.devices] == [1]
    assert {name: int(values[0]) for name, values in trace.kernel_details.items()} == {
        "row": 1,
        "grid_x": 108,
        "grid_y": 2,
        "grid_z": 1,
        "block_x": 256,
        "block_y": 1,
        "block_z": 1,
        "registers": 32,
        "static_shared": 0,
        "dynamic_shared": 128,
    }
    assert trace.calls.rows == 3
    assert set(trace.threads["tid"].tolist()) == {threading.get_native_id()}


def test_work_is_the_instruction_s_where_a_launch_ran_one() -> None:
    found = operators.harvest(session())
    trace = building.build(Recording([], [], start_ns=OFFSET, end_ns=OFFSET + 2000), None, [found])
    table = trace.summary("hlo")["hlo"]
    assert [(row["name"], row["module"], row["total_ns"]) for row in table] == [
        ("dot.1", "jit_step", 500)
    ]
    operator = trace.summary("operator")["operator"].rows()[0]
    assert (operator["name"], operator["gpu_total_ns"]) == ("dot.1", 500)


def test_a_session_of_a_cpu_has_no_gpu_work() -> None:
    host = Plane("/host:CPU")
    host.line(1, "python", ("PjitFunction(f)", 0, 10, {}))
    planes = xspace.read(message((1, host.bytes())))
    found = operators.harvest(Capture(planes, 0, 1, 1, 1, 0))
    assert found.device is None
    assert np.array_equal(found.ranges.end, [10])
