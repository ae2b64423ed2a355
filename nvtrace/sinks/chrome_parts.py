"""Parts that events of several shapes share."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from nvtrace.model.arrays import I64
from nvtrace.sinks.chrome_rows import Number, Part, Thousandths, quoted
from nvtrace.sinks.chrome_tracks import Tracks


def head(name: str, category: str) -> bytes:
    """Return the start of an event, up to the members of its ``args``.

    It starts with a comma, since every event follows another.
    """
    return b',\n{"name":' + quoted(name) + b',"cat":"' + category.encode() + b'","args":{'


def members(args: Mapping[str, object]) -> bytes:
    """Return the members of a JSON object, but those that are empty, False or None."""
    given = {k: v for k, v in args.items() if v is not None and v is not False and v != ""}
    return b",".join(
        quoted(key) + b":" + (quoted(v) if isinstance(v, str) else json.dumps(v).encode())
        for key, v in given.items()
    )


def placed(tracks: Tracks, lane: I64, time: I64) -> tuple[Part, ...]:
    """Return lane and time (ns) of events."""
    where = b',"pid":', Number(tracks.pid, lane), b',"tid":', Number(tracks.tid, lane)
    return *where, b',"ts":', Thousandths(time)


def lasting(start: I64, end: I64) -> tuple[Part, ...]:
    """Return the duration (ns) of events, and their end."""
    return b',"dur":', Thousandths(np.maximum(end - start, 0)), b"}"
