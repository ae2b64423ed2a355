"""Parts that events of several shapes share."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from nvtrace.sinks.chrome_rows import Choice, Part, Thousandths, quoted
from nvtrace.sinks.chrome_texts import Source
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


def placed(tracks: Tracks, lane: Source, time: Source) -> tuple[Part, ...]:
    """Return lane and time (ns) of events."""
    numbers = zip(tracks.pid.tolist(), tracks.tid.tolist(), strict=True)
    texts = [b',"pid":%d,"tid":%d' % pair for pair in numbers]
    width = max(map(len, texts), default=1)
    lanes = Choice(np.array([text.ljust(width) for text in texts], f"V{width}"), lane)
    return lanes, b',"ts":', Thousandths(time)
