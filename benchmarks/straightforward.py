"""What a reader of the nsys manual would write: a yardstick that runs anywhere, not nvtrace.

fetchall of every table, a dictionary from (process, correlation id) to the call, a stack of open
ranges a thread, sums in dictionaries, and one json.dump of the timeline with arrows.

    python straightforward.py REPORT.sqlite OUT.json
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections import defaultdict

PROCESS = 0xFF_FF_FF_FF_FF_00_00_00


def main(report: str, out: str) -> None:
    db = sqlite3.connect(f"file:{report}?mode=ro", uri=True)
    strings = dict(db.execute("SELECT id, value FROM StringIds"))
    ranges = db.execute(
        "SELECT start, end, globalTid, text, textId FROM NVTX_EVENTS "
        "WHERE eventType = 59 AND end NOT NULL"
    ).fetchall()
    calls = db.execute(
        "SELECT start, end, globalTid, correlationId, nameId FROM CUPTI_ACTIVITY_KIND_RUNTIME"
    ).fetchall()
    kernels = db.execute(
        "SELECT start, end, globalPid, deviceId, streamId, correlationId, demangledName "
        "FROM CUPTI_ACTIVITY_KIND_KERNEL"
    ).fetchall()
    owners = innermost(ranges, calls)
    by_id = {(call[2] & PROCESS, call[3]): i for i, call in enumerate(calls)}
    sums = defaultdict(lambda: [0, 0])
    for start, end, process, _, _, correlation, name in kernels:
        owner = owners.get(by_id.get((process, correlation)))
        range_name = strings.get(ranges[owner][4], ranges[owner][3]) if owner is not None else None
        for key in (("kernel", strings[name]), ("range", range_name)):
            sums[key][0] += 1
            sums[key][1] += end - start
    events = timeline(strings, ranges, calls, kernels, by_id)
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events}, file)
    json.dump([[*key, *value] for key, value in sums.items()], sys.stdout)


def innermost(ranges, calls) -> dict[int | None, int]:
    """The innermost range around each call, by a stack of open ranges for each thread."""
    events = [(start, 0, -end, i, thread) for i, (start, end, thread, *_) in enumerate(ranges)]
    events += [(start, 1, -end, i, thread) for i, (start, end, thread, *_) in enumerate(calls)]
    events.sort()
    stacks, owners = defaultdict(list), {}
    for start, is_call, minus_end, i, thread in events:
        stack = stacks[thread]
        while stack and ranges[stack[-1]][1] < start:
            stack.pop()
        if not is_call:
            stack.append(i)
            continue
        for candidate in reversed(stack):
            if ranges[candidate][1] >= -minus_end:
                owners[i] = candidate
                break
    return owners


def timeline(strings, ranges, calls, kernels, by_id) -> list[dict]:
    def slice_of(name, start, end, pid, tid, **args) -> dict:
        span = {"ts": start / 1e3, "dur": (end - start) / 1e3}
        return {"ph": "X", "name": name, "pid": pid, "tid": tid, **span, "args": args}

    events = [
        slice_of(strings.get(text_id, text), start, end, thread >> 24 & 0xFFFFFF, thread & 0xFFFFFF)
        for start, end, thread, text, text_id in ranges
    ]
    events += [
        slice_of(strings[name], start, end, thread >> 24 & 0xFFFFFF, thread & 0xFFFFFF)
        for start, end, thread, _, name in calls
    ]
    for i, (start, end, process, device, stream, correlation, name) in enumerate(kernels):
        lane = {"pid": 1_000_000 + device, "tid": stream}
        events.append(slice_of(strings[name], start, end, **lane, correlation=correlation))
        call = by_id.get((process, correlation))
        if call is not None:
            begin, _, thread, *_ = calls[call]
            flow = {"name": "launch", "cat": "launch", "id": i}
            source = {"pid": thread >> 24 & 0xFFFFFF, "tid": thread & 0xFFFFFF}
            events.append({"ph": "s", "ts": begin / 1e3, **source, **flow})
            events.append({"ph": "f", "bp": "e", "ts": start / 1e3, **lane, **flow})
    return events


if __name__ == "__main__":
    main(*sys.argv[1:])
