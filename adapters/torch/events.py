"""From Kineto's events to columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.classification import RULES
from nvtrace.analysis.nesting import Nest
from nvtrace.instrumentation import AdapterOptions
from nvtrace.model.arrays import factorize
from nvtrace.model.harvest import Harvest, HarvestedRanges
from nvtrace.model.schema import RangeKind
from nvtrace.model.strings import Strings

from .memory import EVENT, Memory, allocations

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Columns = dict[str, npt.NDArray[Any]]

# torch.profiler leaves these out of its tables as well
_HIDDEN = {
    EVENT,
    "[OutOfMemory]",
    "profiler::_record_function_enter",
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
    "aten::is_leaf",
    "aten::output_nr",
    "aten::_version",
}
# nvtrace marks these itself
_OURS = ("enumerate(DataLoader)#", "Optimizer.step#", "Optimizer.zero_grad#")
_PLAIN = re.compile(r"aten::|autograd::engine::|torch::autograd::|\w+Backward\d*$")
_BLOCK = 2048
_USER_SCOPE = 7


def harvest(events: list[Any], options: AdapterOptions, tree: Callable[[], list[Any]]) -> Harvest:
    """Return the operators, and the memory they took, as columns.

    Args:
        events: Kineto's; the list is emptied as it is read.
        options: what was asked to be recorded.
        tree: returns the same events as torch's tree of them.
    """
    strings = Strings()
    read = _read(events, strings, options)
    names, start, thread = read["name"], read["start"], read["thread"]
    kept, kind = _kinds(strings, names, read["by_user"])
    end = start + read["duration"]
    once = _once(kept[~read["beside"][kept]], names, thread, start, end)
    kept, kind = kept[once[kept]], kind[once[kept]]
    texts = read["text"][kept]
    found = Harvest(strings=strings)
    if options.profile_memory:
        memory = Memory(np.flatnonzero(names == strings.find(EVENT)), read, strings, tree)
        texts = _with_memory(texts, memory.within(start[kept], end[kept], thread[kept]), strings)
        counters, samples, notes = memory.samples()
        found = replace(
            found, marks=memory.marks(), counters=counters, samples=samples, notes=notes
        )
    ranges = HarvestedRanges(
        start=start[kept],
        end=end[kept],
        name=names[kept],
        kind=kind,
        thread=thread[kept],
        text=texts,
        sequence=read["sequence"][kept],
        beside=read["beside"][kept],
    )
    return replace(found, ranges=ranges)


def _read(events: list[Any], strings: Strings, options: AdapterOptions) -> Columns:
    """Return the columns of all events, and empty the list.

    Block by block, each small enough to stay in the processor's cache from the first question to
    its release: half of the time goes into fetching events from memory.
    """
    blocks = []
    for first in range(0, len(events), _BLOCK):
        block = events[first : first + _BLOCK]
        events[first : first + _BLOCK] = [None] * len(block)
        blocks.append(_columns(block, strings, options))
    events.clear()
    blocks = blocks or [_columns([], strings, options)]
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def _columns(events: list[Any], strings: Strings, options: AdapterOptions) -> Columns:
    texts = list(_asked("name", events))
    rows = {text: strings.intern(text) for text in dict.fromkeys(texts)}
    names = np.fromiter(map(rows.__getitem__, texts), np.int32, len(texts))
    by_user, beside = _rarer(events, names, strings)
    columns: Columns = {
        "name": names,
        "start": _column("start_ns", events),
        "duration": _column("duration_ns", events),
        "thread": _column("device_resource_id", events),
        "sequence": _column("sequence_nr", events),
        "by_user": by_user,
        "beside": beside,
        "text": _texts(events, options, strings),
    }
    if options.profile_memory:
        chosen = np.flatnonzero(names == strings.find(EVENT)).tolist()
        columns["bytes"], columns["place"] = allocations(events, chosen, strings)
    return columns


def _asked(what: str, events: list[Any]) -> Iterator[Any]:
    """Yield what a method of each event returns.

    The function under the method is called in a third of the time that the method takes.
    """
    from torch.autograd import _KinetoEvent

    method = getattr(_KinetoEvent, what)
    return map(getattr(method, "__func__", method), events)


def _column(what: str, events: list[Any]) -> I64:
    return np.fromiter(_asked(what, events), np.int64, len(events))


def _rarer(events: list[Any], names: npt.NDArray[np.int32], strings: Strings) -> tuple[Mask, Mask]:
    """Return which events are users' ranges, and which nest in nothing.

    The latter end in a callback, or on another thread. Most events are torch's own and neither,
    as their names tell; the others are asked.
    """
    distinct, codes = factorize(names)
    doubtful = np.array([_PLAIN.match(name) is None for name in strings.take(distinct)], np.bool_)
    rows = np.flatnonzero(doubtful[codes])
    asked = [events[row] for row in rows.tolist()]
    by_user, beside = np.zeros((2, len(events)), np.bool_)
    by_user[rows] = _column("scope", asked) == _USER_SCOPE
    first = _column("start_thread_id", asked)
    last = _column("end_thread_id", asked)
    beside[rows] = (_column("is_async", asked) != 0) | (first != last)
    return by_user, beside


def _kinds(
    strings: Strings, names: npt.NDArray[np.int32], by_user: Mask
) -> tuple[I64, npt.NDArray[np.uint8]]:
    """Return the events to keep, and of each what it stands for."""
    pairs, codes = factorize(names.astype(np.int64) << 1 | by_user)
    kinds = np.zeros(len(pairs), np.uint8)
    kept = np.zeros(len(pairs), np.bool_)
    for row, pair in enumerate(pairs.tolist()):
        name = strings[pair >> 1]
        kept[row] = name not in _HIDDEN and not name.startswith(_OURS)
        by_rule = (rule.kind for rule in RULES if not rule.guess and rule.matches("", name))
        kinds[row] = next(by_rule, RangeKind.USER if pair & 1 else RangeKind.OPERATOR)
    if not len(pairs):
        return np.empty(0, np.int64), kinds
    rows = np.flatnonzero(kept[codes])
    return rows, kinds[codes[rows]]


def _once(rows: I64, names: npt.NDArray[np.int32], thread: I64, start: I64, end: I64) -> Mask:
    """Return which events are not an operator's one call of itself.

    That is how a Python binding looks, or an overload, that only passes its arguments on.
    torch.profiler's tables count the two as one.
    """
    _, threads = factorize(thread[rows])
    nest = Nest.build(rows, threads, start[rows], end[rows])
    name, parent = names[nest.rows], nest.parent.copy()
    left = np.ones(len(rows), np.bool_)
    while True:
        above = np.maximum(parent, 0)
        children = np.bincount(parent[left & (parent >= 0)], minlength=len(rows))
        same = left & (parent >= 0) & (name[above] == name) & (children[above] == 1)
        if not same.any():
            break
        left &= ~same
        while (moved := (parent >= 0) & ~left[np.maximum(parent, 0)]).any():
            parent[moved] = parent[parent[moved]]
    once = np.ones(len(names), np.bool_)
    once[nest.rows] = left
    return once


def _texts(events: list[Any], options: AdapterOptions, strings: Strings) -> npt.NDArray[np.int32]:
    """Return what differs from call to call, in the words of emit_nvtx."""
    if not (options.record_shapes or options.with_flops):
        return np.full(len(events), -1, np.int32)
    found = []
    for event in events:
        parts = []
        if options.record_shapes and (shapes := event.shapes()):
            parts.append(f"sizes = {shapes}")
        if options.with_flops and (flops := event.flops()):
            parts.append(f"flops = {flops}")
        found.append(strings.intern(", ".join(parts)) if parts else -1)
    return np.array(found, np.int32)


def _with_memory(
    texts: npt.NDArray[np.int32], change: I64, strings: Strings
) -> npt.NDArray[np.int32]:
    """Return texts with the bytes that a call allocated, less those it freed."""
    texts = texts.copy()
    for row in np.flatnonzero(change).tolist():
        before = f"{strings[texts[row]]}, " if texts[row] >= 0 else ""
        texts[row] = strings.intern(f"{before}memory = {int(change[row]):+d} B")
    return texts
