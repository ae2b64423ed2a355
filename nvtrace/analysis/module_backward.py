"""Modules in the backward pass, found through sequence numbers.

A node of autograd's graph bears the number of the forward operator that made it. So the module that
called the operator is known, with no hook in the backward pass, which would cost far more and
change the graph. Consecutive nodes of a module become one range, ``NAME (backward)``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.classification import DOMAIN
from nvtrace.analysis.intervals import grouped_keys_of
from nvtrace.analysis.links import NODE, is_node, sequence_numbers
from nvtrace.analysis.nesting import Nest
from nvtrace.model import schema
from nvtrace.model.arrays import stable_order
from nvtrace.model.schema import RangeKind, RangeStyle
from nvtrace.model.table import Table
from nvtrace.model.trace import TraceData

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

DERIVED = "by sequence number"
_ACCUMULATE = NODE + "torch::autograd::AccumulateGrad"


def with_backward_modules(trace: TraceData) -> TraceData:
    """Return the trace with a range for what each marked module did in the backward pass.

    A trace without marked modules, without operators, or with these ranges comes back as it is.
    """
    ranges, strings = trace.ranges, trace.strings
    modules = _modules(trace)
    if not len(modules) or strings.find(DERIVED) >= 0:
        return trace
    nodes = np.flatnonzero(is_node(trace)[ranges["name"]])
    if not len(nodes):
        return trace
    nest = _nest(ranges, nodes)
    module_nest = _nest(ranges, modules)
    module = _module_of(trace, nest, module_nest)
    derived = _runs(trace, nest, module_nest, module)
    if not derived.rows:
        return trace
    # first, so that a range of one node comes before that node and is its parent
    joined = Table.concatenate(schema.RANGES, [derived, ranges])
    order = stable_order(joined["start"], -joined["end"])
    return replace(trace, ranges=joined.take(order))


def _modules(trace: TraceData) -> I64:
    """Return the rows of modules that were marked."""
    ranges = trace.ranges
    category = RangeKind.MODULE.name.lower()
    if category not in trace.categories:
        return np.empty(0, np.int64)
    own = np.array([domain.name == DOMAIN for domain in trace.domains], np.bool_)
    found = ranges["category"] == trace.categories.index(category)
    found &= ranges["style"] == RangeStyle.PUSH_POP
    return np.flatnonzero(found & own[ranges["domain"]])


def _nest(ranges: Table, rows: I64) -> Nest:
    return Nest.build(rows, ranges["thread"][rows], ranges["start"][rows], ranges["end"][rows])


def _module_of(trace: TraceData, nest: Nest, modules: Nest) -> I64:
    """Return for each node the position of its module in ``modules``, -1 none.

    Of the operators before a node that bear its number the last is the one that made it. What runs
    inside a node made it only where it is recomputed, by a module again.
    """
    ranges = trace.ranges
    sequence = sequence_numbers(trace)
    position = np.full(ranges.rows, -1, np.int64)
    position[modules.rows] = np.arange(len(modules.rows))
    forward = np.flatnonzero((sequence >= 0) & (ranges["style"] == RangeStyle.PUSH_POP))
    where = ranges["thread"][forward], ranges["start"][forward], ranges["end"][forward]
    around = modules.innermost(*where)
    made = (around >= 0) | (nest.innermost(*where) < 0)
    forward, around = forward[made], around[made]
    process = trace.threads["process"].astype(np.int64)
    number = process[ranges["thread"]] << 48 | (sequence + 1)
    _, codes = np.unique(number, return_inverse=True)
    keys, wanted = grouped_keys_of(
        (codes[forward], ranges["start"][forward]), (codes[nest.rows], nest.start)
    )
    order = np.argsort(keys, kind="stable")
    found = np.searchsorted(keys[order], wanted, side="left") - 1
    last = forward[order][np.maximum(found, 0)] if len(forward) else np.zeros_like(nest.rows)
    same = (found >= 0) & (codes[last] == codes[nest.rows]) & (sequence[nest.rows] >= 0)
    owner = around[order][np.maximum(found, 0)] if len(forward) else np.full_like(nest.rows, -1)
    module = np.where(same & (owner >= 0), position[np.maximum(owner, 0)], -1)
    return _with_accumulation(trace, nest, module)


def _with_accumulation(trace: TraceData, nest: Nest, module: I64) -> I64:
    """Return modules where accumulation of a gradient goes with the node before it."""
    texts = trace.strings
    named = np.array([text.startswith(_ACCUMULATE) for text in texts], np.bool_)
    accumulates = named[trace.ranges["name"][nest.rows]]
    place = np.arange(len(module))
    source = np.maximum.accumulate(np.where(accumulates, 0, place))
    same = nest.thread[source] == nest.thread
    return np.where(accumulates & ~same, -1, module[source])


def _runs(trace: TraceData, nest: Nest, modules: Nest, module: I64) -> Table:
    """Return a range for each run of nodes of one module call, outer modules first."""
    order = stable_order(nest.thread, nest.parent, nest.start)
    module, thread, parent = module[order], nest.thread[order], nest.parent[order]
    start, end = nest.start[order], nest.end[order]
    depth = modules.depth
    own_depth = np.where(module >= 0, depth[np.maximum(module, 0)], -1)
    levels, above = [], np.full(len(module), -1, np.int64)
    for level in range(int(own_depth.max(initial=-1)), -1, -1):
        inherited = np.where(above >= 0, modules.parent[np.maximum(above, 0)], -1)
        above = np.where(own_depth == level, module, inherited)
        levels.append(above)
    parts = []
    for at_level in reversed(levels):
        changed = np.ones(len(at_level), np.bool_)
        changed[1:] = at_level[1:] != at_level[:-1]
        changed[1:] |= (thread[1:] != thread[:-1]) | (parent[1:] != parent[:-1])
        first = np.flatnonzero(changed)
        last = np.append(first[1:], len(at_level)) - 1
        kept = at_level[first] >= 0
        first, last = first[kept], last[kept]
        rows = modules.rows[at_level[first]]
        parts.append(_ranges(trace, rows, thread[first], start[first], end[last]))
    return Table.concatenate(schema.RANGES, parts)


def _ranges(trace: TraceData, modules: I32, thread: I32, start: I64, end: I64) -> Table:
    ranges, strings = trace.ranges, trace.strings
    names = [f"{name} (backward)" for name in strings.take(ranges["name"][modules])]
    text = strings.intern(DERIVED)
    return Table(
        schema.RANGES,
        {
            **{name: column[modules] for name, column in ranges.items()},
            "start": start,
            "end": end,
            "name": strings.intern_all(names),
            "thread": thread,
            "end_thread": thread,
            "flags": np.zeros(len(start), np.uint8),
            "text": np.full(len(start), text, np.int32),
        },
    )
