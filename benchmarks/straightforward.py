"""What a reader of the nsys manual would write: a yardstick that runs anywhere, not nvtrace.

fetchall of every table, a dictionary from (process, correlation id) to the call, a stack of open
ranges a thread, sums in dictionaries for what nvtrace's eight tables hold, but for what is inferred
across threads, and one json.dump of the timeline with arrows.

    python straightforward.py REPORT.sqlite OUT.json
"""

from __future__ import annotations

import json
import sqlite3
import sys
from bisect import bisect_right
from collections import defaultdict

PROCESS = 0xFF_FF_FF_FF_FF_00_00_00
COPIES = {1: "HtoD", 2: "DtoH", 8: "DtoD"}
PHASES = ("dataloader", "forward", "backward", "optimization")


def main(report: str, out: str) -> None:
    db = sqlite3.connect(f"file:{report}?mode=ro", uri=True)
    strings = dict(db.execute("SELECT id, value FROM StringIds"))
    categories = {
        (thread & PROCESS, domain, number): text
        for thread, domain, number, text in db.execute(
            "SELECT globalTid, domainId, category, text FROM NVTX_EVENTS WHERE eventType = 33"
        )
    }
    ranges = [
        (start, end, thread, style, strings.get(text_id, text),
         categories.get((thread & PROCESS, domain, category), ""))
        for start, end, thread, style, text, text_id, domain, category in db.execute(
            "SELECT start, end, globalTid, eventType, text, textId, domainId, category "
            "FROM NVTX_EVENTS WHERE eventType IN (59, 60) AND end NOT NULL"
        ).fetchall()
    ]  # fmt: skip
    calls = [
        (start, end, thread, correlation, strings[name])
        for start, end, thread, correlation, name in db.execute(
            "SELECT start, end, globalTid, correlationId, nameId FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        ).fetchall()
    ]
    work = [
        (start, end, process, device, stream, correlation, strings[name], "kernel", 0)
        for start, end, process, device, stream, correlation, name in db.execute(
            "SELECT start, end, globalPid, deviceId, streamId, correlationId, demangledName "
            "FROM CUPTI_ACTIVITY_KIND_KERNEL"
        ).fetchall()
    ]
    work += [
        (start, end, process, device, stream, correlation, COPIES.get(kind, "?"), "memcpy", size)
        for start, end, process, device, stream, correlation, kind, size in db.execute(
            "SELECT start, end, globalPid, deviceId, streamId, correlationId, copyKind, bytes "
            "FROM CUPTI_ACTIVITY_KIND_MEMCPY"
        ).fetchall()
    ]
    work += [
        (start, end, process, device, stream, correlation, "memset", "memset", size)
        for start, end, process, device, stream, correlation, size in db.execute(
            "SELECT start, end, globalPid, deviceId, streamId, correlationId, bytes "
            "FROM CUPTI_ACTIVITY_KIND_MEMSET"
        ).fetchall()
    ]
    parents, owners = innermost(ranges, calls)
    by_id = {(call[2] & PROCESS, call[3]): i for i, call in enumerate(calls)}
    launches = [by_id.get((one[2], one[5])) for one in work]
    window = union((one[0], one[1]) for one in ranges if one[5] == "step")
    tables = {
        "kernel": figures((one[6], one[1] - one[0]) for one in work if one[7] == "kernel"),
        "memory": copies(work, calls, launches),
        "calls": figures((call[4], call[1] - call[0]) for call in calls),
        "ranges": by_range(ranges, parents, owners, work, launches),
        "steps": steps(ranges, calls, work, launches),
        "overview": overview(ranges, calls, work, window),
        "device": devices(work, window),
    }
    events = timeline(ranges, calls, work, launches)
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events}, file)
    json.dump({name: [[*key, *row] for key, row in of.items()] for name, of in tables.items()},
              sys.stdout)  # fmt: skip


def innermost(ranges, calls) -> tuple[list[int], dict[int, int]]:
    """The range around each range and each call, by a stack of open ranges for each thread."""
    nested = [(i, one) for i, one in enumerate(ranges) if one[3] == 59]
    events = [(one[0], 0, -one[1], i, one[2]) for i, one in nested]
    events += [(call[0], 1, -call[1], i, call[2]) for i, call in enumerate(calls)]
    events.sort()
    stacks, parents, owners = defaultdict(list), [-1] * len(ranges), {}
    for start, is_call, minus_end, i, thread in events:
        stack = stacks[thread]
        while stack and ranges[stack[-1]][1] < start:
            stack.pop()
        around = -1
        for candidate in reversed(stack):
            if ranges[candidate][1] >= -minus_end:
                around = candidate
                break
        if is_call:
            owners[i] = around
        else:
            parents[i] = around
            stack.append(i)
    return parents, owners


def figures(values) -> dict[tuple[str], list[int]]:
    """Calls, total, minimum and maximum by name."""
    found = {}
    for name, value in values:
        row = found.get((name,))
        if row is None:
            found[(name,)] = [1, value, value, value]
            continue
        row[0] += 1
        row[1] += value
        row[2] = min(row[2], value)
        row[3] = max(row[3], value)
    return found


def copies(work, calls, launches) -> dict[tuple[str], list[int]]:
    """Calls, bytes, time on the device and in the calls that launched them, by kind."""
    found = defaultdict(lambda: [0, 0, 0, 0])
    for one, call in zip(work, launches, strict=True):
        if one[7] != "kernel":
            row = found[(one[6],)]
            row[0] += 1
            row[1] += one[8]
            row[2] += one[1] - one[0]
            row[3] += calls[call][1] - calls[call][0] if call is not None else 0
    return found


def by_range(ranges, parents, owners, work, launches) -> dict[tuple, list[int]]:
    """Time, self time, and GPU work inside and of its own, by process, name, category and style."""
    gpu, own_gpu, kernels, inside = ([0] * len(ranges) for _ in range(4))
    for i, parent in enumerate(parents):
        if parent >= 0:
            inside[parent] += ranges[i][1] - ranges[i][0]
    for one, call in zip(work, launches, strict=True):
        row = owners.get(call, -1)
        if row >= 0:
            own_gpu[row] += one[1] - one[0]
        while row >= 0:
            gpu[row] += one[1] - one[0]
            kernels[row] += one[7] == "kernel"
            row = parents[row]
    found = {}
    for i, (start, end, thread, style, name, category) in enumerate(ranges):
        key = (thread >> 24 & 0xFFFFFF, name, category, style)
        row = found.get(key)
        if row is None:
            row = found[key] = [0, 0, end - start, end - start, 0, 0, 0, 0]
        row[0] += 1
        row[1] += end - start
        row[2] = min(row[2], end - start)
        row[3] = max(row[3], end - start)
        row[4] += end - start - inside[i]
        row[5] += gpu[i]
        row[6] += own_gpu[i]
        row[7] += kernels[i]
    return found


def steps(ranges, calls, work, launches) -> dict[tuple[int, int], list[int]]:
    """Time of each step, and of the GPU work launched in it, by process and place."""
    starts, ends = defaultdict(list), defaultdict(list)
    for start, end, thread, _, _, category in ranges:
        if category == "step":
            starts[thread & PROCESS].append(start)
            ends[thread & PROCESS].append(end)
    found = {
        (process, i): [ends[process][i] - start, 0]
        for process, of in starts.items()
        for i, start in enumerate(of)
    }
    for one, call in zip(work, launches, strict=True):
        if call is not None:
            place = bisect_right(starts[one[2]], calls[call][0]) - 1
            if place >= 0 and calls[call][0] < ends[one[2]][place]:
                found[one[2], place][1] += one[1] - one[0]
    return found


def union(intervals) -> list[tuple[int, int]]:
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def common(one, other) -> int:
    """How long two unions go on together."""
    total = i = j = 0
    while i < len(one) and j < len(other):
        total += max(min(one[i][1], other[j][1]) - max(one[i][0], other[j][0]), 0)
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return total


def overview(ranges, calls, work, window) -> dict[tuple[str], list[int]]:
    """How many of each type of event, and how long any of that type was going on."""
    intervals = defaultdict(list)
    for start, end, _, _, _, category in ranges:
        intervals[category or "user"].append((start, end))
    for start, end, *_ in calls:
        intervals["calls"].append((start, end))
    for one in work:
        intervals[one[7]].append((one[0], one[1]))
    return {(name,): [len(of), common(union(of), window)] for name, of in intervals.items()}


def devices(work, window) -> dict[tuple[int], list[int]]:
    """How long each device was busy, communicated, computed, and did both."""
    busy, moving, computing = (defaultdict(list) for _ in range(3))
    for start, end, _, device, _, _, name, kind, _ in work:
        busy[device].append((start, end))
        if kind == "kernel":
            (moving if "nccl" in name else computing)[device].append((start, end))
    found = {}
    for device in busy:
        moves, computes = union(moving[device]), union(computing[device])
        lengths = [common(one, window) for one in (union(busy[device]), moves, computes)]
        found[(device,)] = [*lengths, common(moves, computes)]
    return found


def timeline(ranges, calls, work, launches) -> list[dict]:
    def slice_of(name, start, end, pid, tid, **args) -> dict:
        span = {"ts": start / 1e3, "dur": (end - start) / 1e3}
        return {"ph": "X", "name": name, "pid": pid, "tid": tid, **span, "args": args}

    events = [
        slice_of(name, start, end, thread >> 24 & 0xFFFFFF, thread & 0xFFFFFF)
        for start, end, thread, _, name, _ in ranges
    ]
    events += [
        slice_of(name, start, end, thread >> 24 & 0xFFFFFF, thread & 0xFFFFFF)
        for start, end, thread, _, name in calls
    ]
    for i, (start, end, _, device, stream, correlation, name, _, _) in enumerate(work):
        lane = {"pid": 1_000_000 + device, "tid": stream}
        events.append(slice_of(name, start, end, **lane, correlation=correlation))
        call = launches[i]
        if call is not None:
            begin, _, thread, *_ = calls[call]
            flow = {"name": "launch", "cat": "launch", "id": i}
            source = {"pid": thread >> 24 & 0xFFFFFF, "tid": thread & 0xFFFFFF}
            events.append({"ph": "s", "ts": begin / 1e3, **source, **flow})
            events.append({"ph": "f", "bp": "e", "ts": start / 1e3, **lane, **flow})
    return events


if __name__ == "__main__":
    main(*sys.argv[1:])
