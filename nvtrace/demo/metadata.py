"""The tables that say what was captured, where and by whom: nothing, nowhere, nobody."""

from __future__ import annotations

from nvtrace.demo.catalog import (
    COPY_KINDS,
    MAIN,
    MEMORY_KINDS,
    MEMORY_OPERATIONS,
    STREAMS,
    THREADS,
)
from nvtrace.demo.events import VM, global_pid, process_id, thread_ids
from nvtrace.demo.writer import Writer
from nvtrace.model.nsys_ddl import PRODUCT_VERSION, SCHEMA_VERSION

SYNTHETIC = "nvtrace demo (synthetic)"

_START = 1_704_067_200_000_000_000  # 2024-01-01T00:00:00Z
_MEMORY_BYTES = 24 * 1024**3


def write_metadata(writer: Writer, ranks: int, duration_ns: int) -> None:
    """Write every table that holds no events.

    Args:
        writer: the report.
        ranks: number of processes and devices.
        duration_ns: length of the capture.
    """
    _write_session(writer, duration_ns)
    for table, rows in (
        ("ENUM_CUDA_MEMCPY_OPER", COPY_KINDS),
        ("ENUM_CUDA_MEM_KIND", MEMORY_KINDS),
        ("ENUM_CUDA_DEV_MEM_EVENT_OPER", MEMORY_OPERATIONS),
    ):
        writer.insert_rows(table, "id name label", rows)
    for rank in range(ranks):
        _write_process(writer, rank)
        _write_device(writer, rank)


def _write_session(writer: Writer, duration_ns: int) -> None:
    major, minor, micro = SCHEMA_VERSION.split(".")
    exported = {
        "EXPORT_PRODUCT_NAME": SYNTHETIC,
        "EXPORT_PRODUCT_VERSION": PRODUCT_VERSION,
        "EXPORT_SCHEMA_VERSION": SCHEMA_VERSION,
        "EXPORT_SCHEMA_VERSION_MAJOR": major,
        "EXPORT_SCHEMA_VERSION_MINOR": minor,
        "EXPORT_SCHEMA_VERSION_MICRO": micro,
        "EXPORT_PARAM_LAZY": "false",
        "EXPORT_PARAM_TIME_SHIFT": "0",
    }
    captured = (
        ("SYNTHETIC", f"{SYNTHETIC}: generated, no program ran"),
        ("CAPTURE_EVENT_TYPE", "Cuda"),
        ("CAPTURE_EVENT_TYPE", "NvtxEvents"),
    )
    writer.insert_rows("META_DATA_EXPORT", "name value", exported.items())
    writer.insert_rows("META_DATA_CAPTURE", "name value", captured)
    writer.insert_rows(
        "ANALYSIS_DETAILS",
        "globalVid duration startTime stopTime",
        [(VM, duration_ns, 0, duration_ns)],
    )
    utc = "2024-01-01T00:00:00"
    writer.insert_rows(
        "TARGET_INFO_SESSION_START_TIME", "utcEpochNs utcTime localTime", [(_START, utc, utc)]
    )


def _write_process(writer: Writer, rank: int) -> None:
    pid = process_id(rank)
    writer.insert_rows("PROCESSES", "globalPid pid name", [(global_pid(rank), pid, SYNTHETIC)])
    names = [writer.string(SYNTHETIC if i == MAIN else name) for i, (_, name) in enumerate(THREADS)]
    threads = zip(names, thread_ids(rank).tolist(), strict=True)
    writer.insert_rows("ThreadNames", "nameId globalTid priority", ((n, t, 20) for n, t in threads))


def _write_device(writer: Writer, rank: int) -> None:
    pid = process_id(rank)
    device = {
        "vmId": VM,
        "id": rank,
        "name": "Synthetic GPU",
        "busLocation": f"0000:{rank + 1:02x}:00.0",
        "isDiscrete": 1,
        "totalMemory": _MEMORY_BYTES,
        "memoryBandwidth": 900_000_000_000,
        "clockRate": 1_500_000_000,
        "smCount": 96,
        "uuid": f"00000000-0000-0000-0000-{rank + 1:012x}",
        "chipName": "SYNTHETIC",
        "cuDevice": rank,
        "threadsPerWarp": 32,
        "maxWarpsPerSm": 64,
        "maxBlocksPerSm": 32,
        "maxThreadsPerBlock": 1024,
        "computeMajor": 8,
        "computeMinor": 0,
    }
    writer.insert_rows("TARGET_INFO_GPU", " ".join(device), [tuple(device.values())])
    writer.insert_rows("TARGET_INFO_CUDA_DEVICE", "gpuId cudaId pid", [(rank, rank, pid)])
    writer.insert_rows(
        "TARGET_INFO_CUDA_CONTEXT_INFO",
        "nullStreamId hwId vmId processId deviceId contextId parentContextId isGreenContext",
        [(STREAMS[0], 0, 1, pid, rank, 1, 0, 0)],
    )
    writer.insert_rows(
        "TARGET_INFO_CUDA_STREAM",
        "streamId hwId vmId processId contextId priority flag",
        ((stream, 0, 1, pid, 1, 0, 1) for stream in STREAMS),
    )
