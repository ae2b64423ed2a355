"""Tables of an Nsight Systems SQLite export, as nsys 2023.4.4 (schema 3.7.2) declares them.

Column names, order, types and constraints are those of ``nsys export --lazy=false --type sqlite``.
Two tables came later and are declared as their first versions have them:
CUPTI_ACTIVITY_KIND_GRAPH_TRACE (schema 3.16.1) and TARGET_INFO_CUDA_DEVICE (3.17.2).

A trace that nvtrace saves has tables of its own beside them, for what that schema has no place for.
"""

from __future__ import annotations

from collections.abc import Mapping

from nvtrace.model.schema import COPY_KINDS
from nvtrace.model.trace import Counter, CpuUsage, Device, Domain, Note, Process, Source

SCHEMA_VERSION = "3.7.2"
PRODUCT_VERSION = "2023.4.4.54"

COLUMNS = {
    "StringIds": """
        id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL
    """,
    "META_DATA_EXPORT": """
        name TEXT NOT NULL, value TEXT
    """,
    "META_DATA_CAPTURE": """
        name TEXT NOT NULL, value TEXT
    """,
    "ANALYSIS_DETAILS": """
        globalVid INTEGER NOT NULL, duration INTEGER NOT NULL, startTime INTEGER NOT NULL,
        stopTime INTEGER NOT NULL
    """,
    "TARGET_INFO_SESSION_START_TIME": """
        utcEpochNs INTEGER, utcTime TEXT, localTime TEXT
    """,
    "PROCESSES": """
        globalPid INTEGER, pid INTEGER, name TEXT
    """,
    "ThreadNames": """
        nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER
    """,
    "TARGET_INFO_GPU": """
        vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT,
        isDiscrete INTEGER, l2CacheSize INTEGER, totalMemory INTEGER, memoryBandwidth INTEGER,
        clockRate INTEGER, smCount INTEGER, pwGpuId INTEGER, uuid TEXT, luid INTEGER,
        chipName TEXT, cuDevice INTEGER, ctxswDevPath TEXT, ctrlDevPath TEXT, revision INTEGER,
        nodeMask INTEGER, constantMemory INTEGER, maxIPC INTEGER, maxRegistersPerBlock INTEGER,
        maxShmemPerBlock INTEGER, maxShmemPerBlockOptin INTEGER, maxShmemPerSm INTEGER,
        maxRegistersPerSm INTEGER, threadsPerWarp INTEGER, asyncEngines INTEGER,
        maxWarpsPerSm INTEGER, maxBlocksPerSm INTEGER, maxThreadsPerBlock INTEGER,
        maxBlockDimX INTEGER, maxBlockDimY INTEGER, maxBlockDimZ INTEGER, maxGridDimX INTEGER,
        maxGridDimY INTEGER, maxGridDimZ INTEGER, computeMajor INTEGER, computeMinor INTEGER,
        smMajor INTEGER, smMinor INTEGER
    """,
    "TARGET_INFO_CUDA_CONTEXT_INFO": """
        nullStreamId INTEGER NOT NULL, hwId INTEGER NOT NULL, vmId INTEGER NOT NULL,
        processId INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
        parentContextId INTEGER, isGreenContext INTEGER
    """,
    "TARGET_INFO_CUDA_STREAM": """
        streamId INTEGER NOT NULL, hwId INTEGER NOT NULL, vmId INTEGER NOT NULL,
        processId INTEGER NOT NULL, contextId INTEGER NOT NULL, priority INTEGER NOT NULL,
        flag INTEGER NOT NULL
    """,
    "ENUM_CUDA_MEMCPY_OPER": """
        id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT
    """,
    "ENUM_CUDA_MEM_KIND": """
        id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT
    """,
    "ENUM_CUDA_DEV_MEM_EVENT_OPER": """
        id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT
    """,
    "NVTX_EVENTS": """
        start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
        category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER,
        textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER,
        doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL,
        jsonTextId INTEGER, jsonText TEXT
    """,
    "CUPTI_ACTIVITY_KIND_RUNTIME": """
        start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
        globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL,
        returnValue INTEGER NOT NULL, callchainId INTEGER
    """,
    "CUPTI_ACTIVITY_KIND_KERNEL": """
        start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL,
        correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
        shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER,
        cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL,
        gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL,
        blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL,
        dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL,
        localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL,
        sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER
    """,
    "CUPTI_ACTIVITY_KIND_MEMCPY": """
        start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL,
        correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL,
        copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER,
        srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER,
        migrationCause INTEGER, graphNodeId INTEGER, virtualAddress INTEGER
    """,
    "CUPTI_ACTIVITY_KIND_MEMSET": """
        start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL,
        correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL,
        bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER
    """,
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": """
        start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL,
        correlationId INTEGER, globalPid INTEGER, syncType INTEGER NOT NULL,
        eventId INTEGER NOT NULL
    """,
    "CUDA_GPU_MEMORY_USAGE_EVENTS": """
        start INTEGER NOT NULL, globalPid INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL, address INTEGER NOT NULL, pc INTEGER NOT NULL,
        bytes INTEGER NOT NULL, memKind INTEGER NOT NULL, memoryOperationType INTEGER NOT NULL,
        name TEXT, correlationId INTEGER, localMemoryPoolAddress INTEGER,
        localMemoryPoolReleaseThreshold INTEGER, localMemoryPoolSize INTEGER,
        localMemoryPoolUtilizedSize INTEGER, importedMemoryPoolAddress INTEGER,
        importedMemoryPoolProcessId INTEGER
    """,
    "CUDA_GRAPH_EVENTS": """
        start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
        globalTid INTEGER, nameId INTEGER NOT NULL, graphNodeId INTEGER NOT NULL,
        originalGraphNodeId INTEGER
    """,
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": """
        start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL,
        correlationId INTEGER, globalPid INTEGER, graphId INTEGER NOT NULL,
        graphExecId INTEGER NOT NULL
    """,
    "TARGET_INFO_CUDA_DEVICE": """
        gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL
    """,
}

SAVED_FORMAT = 1
"""What this version of nvtrace writes into its own tables, and the newest that it reads."""

# Tables whose columns are the fields of the model's records. Here and below, rows are in the order
# of the model, whose row numbers other tables refer to.
OWN_RECORDS: dict[str, type] = {
    "NVTRACE_SOURCES": Source,
    "NVTRACE_NOTES": Note,
    "NVTRACE_CPU": CpuUsage,
    "NVTRACE_PROCESSES": Process,
    "NVTRACE_DEVICES": Device,
    "NVTRACE_DOMAINS": Domain,
    "NVTRACE_COUNTERS": Counter,
}

OWN_COLUMNS = {
    "NVTRACE_TRACE": """
        name TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL
    """,
    "NVTRACE_THREADS": """
        globalTid INTEGER NOT NULL, tid INTEGER NOT NULL
    """,
    "NVTRACE_STREAMS": """
        process INTEGER NOT NULL, device INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL, streamId INTEGER NOT NULL
    """,
    "NVTRACE_CATEGORIES": """
        name TEXT NOT NULL
    """,
    "NVTRACE_SAMPLES": """
        time INTEGER NOT NULL, counter INTEGER NOT NULL, value REAL
    """,
    # ranges whose flags are not 0, or whose payload no column of NVTX_EVENTS takes as it is
    "NVTRACE_RANGES": """
        row INTEGER NOT NULL, flags INTEGER NOT NULL, payloadType INTEGER NOT NULL,
        payload INTEGER NOT NULL
    """,
    # device rows, by place among those of their kind, that bear another name than nsys gives them
    "NVTRACE_NAMES": """
        kind INTEGER NOT NULL, row INTEGER NOT NULL, nameId INTEGER NOT NULL,
        shortNameId INTEGER NOT NULL
    """,
}

MEMSET_NAME = "[CUDA memset]"


def copy_name(kind: int) -> str:
    """Return how nsys names copies of a kind."""
    return f"[CUDA memcpy {COPY_KINDS.get(kind, f'kind {kind}')}]"


def graph_name(graph: int) -> str:
    """Return the name of the runs of a CUDA graph, given its id."""
    return f"[CUDA graph {graph}]"


def create_statement(table: str) -> str:
    """Return the CREATE TABLE statement of a table.

    Args:
        table: one of the keys of `COLUMNS` or `OWN_COLUMNS`.
    """
    columns = COLUMNS.get(table) or OWN_COLUMNS[table]
    return f"CREATE TABLE {table} ({' '.join(columns.split())})"


def insert_statement(table: str, varying: str, constant: Mapping[str, int]) -> str:
    """Return an INSERT statement.

    Args:
        table: its name.
        varying: names of the columns that get a parameter each, separated by blanks; of a column
            written ``name:value``, that value becomes NULL.
        constant: columns that have one value in all rows.
    """
    names, values = [], []
    for column in varying.split():
        name, _, null = column.partition(":")
        names.append(f'"{name}"')
        values.append(f"nullif(?, {null})" if null else "?")
    names += constant
    values += [str(value) for value in constant.values()]
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(values)})"
