"""From the events of a recording to ranges."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.emit.recording import BESIDE, MARK, RecordedThread, Recording, Said
from nvtrace.model.schema import PayloadType, RangeFlag, RangeStyle
from nvtrace.model.strings import Strings

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Ranges and marks as columns, in no order.

    Attributes:
        label: number of the label.
        start: Unix time, ns.
        end: Unix time, ns.
        thread: native thread id.
        end_thread: native thread id.
        style: RangeStyle.
        flags: RangeFlag.
    """

    label: I64
    start: I64
    end: I64
    thread: I64
    end_thread: I64
    style: npt.NDArray[np.uint8]
    flags: npt.NDArray[np.uint8]


def rows(recording: Recording) -> Rows:
    """Return everything that was recorded. What was open at the end ends there, flagged."""
    parts = [part for thread in recording.threads if thread.events for part in _of_thread(thread)]
    parts += _beside(recording)
    label, start, end, thread, end_thread, style, flags = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    return Rows(
        label=label,
        start=start,
        end=np.maximum(start, end),  # the wall clock may have been set back
        thread=thread,
        end_thread=end_thread,
        style=style,
        flags=flags,
    )


def pair(codes: I64) -> tuple[I64, I64, I64]:
    """Return which event ends which range.

    Args:
        codes: label of a push, ~label of a pop, in order: shape (n,).

    Returns:
        Positions of the pushes that were closed, of the pops that closed them, and of the pushes
        that were not, outermost first. A pop takes the latest open push of its label; one that
        finds none was of a range opened before, and is nothing here.
    """
    opening = codes >= 0
    level = np.cumsum(np.where(opening, 1, -1)) + ~opening
    if len(level) and (level.min() < 1 or level.max() > np.iinfo(np.int16).max):
        return _pair_one_by_one(codes)
    # within a level pushes and pops take turns
    order = np.argsort(level.astype(np.int16), kind="stable")
    pushes = np.flatnonzero(opening[order])
    nexts = np.minimum(pushes + 1, len(order) - 1)
    paired = (level[order[nexts]] == level[order[pushes]]) & (nexts > pushes)
    first, second = order[pushes[paired]], order[nexts[paired]]
    if (codes[first] != ~codes[second]).any():
        return _pair_one_by_one(codes)
    return first, second, np.sort(order[pushes[~paired]])


def label_columns(
    labels: Sequence[Said], strings: Strings, categories: Strings, domains: dict[str, int]
) -> dict[str, npt.NDArray[Any]]:
    """Return what the labels say as columns, to be taken by number; new texts are interned."""
    payloads = [_payload(said[4]) for said in labels]
    return {
        "name": strings.intern_all(said[0] for said in labels),
        "domain": np.array(
            [domains.setdefault(said[1], len(domains)) for said in labels], np.int32
        ),
        "category": categories.intern_all(said[2] for said in labels),
        "color": np.array([said[3] for said in labels], np.uint32),
        "payload_type": np.array([kind for kind, _ in payloads], np.uint8),
        "payload": np.array([bits for _, bits in payloads], np.int64),
    }


def _payload(value: float | None) -> tuple[PayloadType, int]:
    if value is None:
        return PayloadType.NONE, 0
    if isinstance(value, int):
        return PayloadType.INT, value
    return PayloadType.FLOAT, struct.unpack("<q", struct.pack("<d", value))[0]


def _pair_one_by_one(codes: I64) -> tuple[I64, I64, I64]:
    """The same where ranges were closed out of order."""
    first, second = [], []
    stack: list[tuple[int, int]] = []
    for place, code in enumerate(codes.tolist()):
        if code >= 0:
            stack.append((code, place))
            continue
        for depth in range(len(stack) - 1, -1, -1):
            if stack[depth][0] == ~code:
                first.append(stack.pop(depth)[1])
                second.append(place)
                break
    left = [place for _, place in stack]
    return np.array(first, np.int64), np.array(second, np.int64), np.array(left, np.int64)


def _of_thread(thread: RecordedThread) -> list[_Part]:
    events = np.frombuffer(thread.events, np.int64).reshape(-1, 2)
    codes, times = events[:, 0], events[:, 1]
    first, second, left = pair(codes)
    who = thread.tid, thread.tid, RangeStyle.PUSH_POP
    return [
        _part(codes[first], times[first], times[second], *who, 0),
        _part(codes[left], times[left], thread.until_ns, *who, RangeFlag.UNFINISHED),
    ]


def _beside(recording: Recording) -> list[_Part]:
    closed = np.array(recording.beside, np.int64).reshape(-1, BESIDE)
    handle, label, start, thread, end, end_thread = closed.T
    style = np.where(handle == MARK, RangeStyle.MARK, RangeStyle.START_END)
    running = np.array(recording.running, np.int64).reshape(-1, 3).T
    flags = RangeStyle.START_END, RangeFlag.UNFINISHED
    return [
        _part(label, start, end, thread, end_thread, style, 0),
        _part(running[0], running[1], recording.end_ns, running[2], running[2], *flags),
    ]


_Part = tuple[npt.NDArray[Any], ...]
_TYPES = (np.int64, np.int64, np.int64, np.int64, np.int64, np.uint8, np.uint8)


def _part(label: I64, *others: npt.ArrayLike) -> _Part:
    """Return the columns of `Rows` for some ranges; single values are for each of them."""
    columns = zip((label, *others), _TYPES, strict=True)
    return tuple(np.broadcast_to(np.asarray(one, kind), label.shape) for one, kind in columns)
