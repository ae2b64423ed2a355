"""Which forward range made each backward range, told by PyTorch's sequence numbers.

An operator that will be differentiated takes a number, and the node of autograd's graph that it
makes bears it: both are recorded, as payload or in emit_nvtx's text. Numbers count per thread, so
of several operators with a node's number, the latest that starts before the node made it; that is
what torch.profiler takes, too.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.intervals import grouped_keys_of
from nvtrace.model.arrays import I64
from nvtrace.model.explained import Explained
from nvtrace.model.schema import PayloadType, RangeKind, RangeStyle
from nvtrace.model.trace import TraceData

NODE = "autograd::engine::evaluate_function: "
"""What the name of a range begins with in which autograd runs a node."""

_SEQUENCE = re.compile(r", seq = (\d+)")  # as torch's emit_nvtx writes it


class Links(NamedTuple):
    """Pairs of ranges.

    Attributes:
        forward: rows of ``ranges``, of shape (n,).
        backward: the row of ``ranges`` that each made, ascending.
    """

    forward: I64
    backward: I64


def is_node(trace: TraceData) -> npt.NDArray[np.bool_]:
    """Return for each string whether it names a range in which autograd runs a node."""
    return np.array([text.startswith(NODE) for text in trace.strings], np.bool_)


def sequence_numbers(trace: TraceData) -> I64:
    """Return the sequence number of each range, -1 none."""
    ranges = trace.ranges
    operators = [RangeKind.OPERATOR.name.lower(), RangeKind.OPERATOR_INNER.name.lower()]
    wanted = np.array([name in operators for name in trace.categories] + [False], np.bool_)
    own = wanted[ranges["category"]] & (ranges["payload_type"] == PayloadType.INT)
    found = [_SEQUENCE.search(text) for text in trace.strings]
    written = np.array([int(match[1]) if match else -1 for match in found], np.int64)
    return np.where(own, ranges["payload"], written[ranges["name"]])


def forward_backward(explained: Explained) -> Links:
    """Return which forward range made each backward range.

    The backward range is autograd's function inside its node, ``AddmmBackward0``, or the node where
    that was not recorded. Those whose forward range was not recorded are left out.
    """
    trace = explained.trace
    ranges = trace.ranges
    nodes = is_node(trace)[ranges["name"]] if trace.ranges.rows else np.empty(0, np.bool_)
    if not nodes.any():
        return Links(np.empty(0, np.int64), np.empty(0, np.int64))
    sequence = sequence_numbers(trace)
    numbered = (sequence >= 0) & (ranges["style"] == RangeStyle.PUSH_POP)
    parent = explained.range_parent
    functions = numbered & ~nodes & (parent >= 0) & nodes[parent]
    functions &= sequence == sequence[parent]
    function_of = np.full(ranges.rows, -1, np.int64)
    inner = np.flatnonzero(functions)[::-1]
    function_of[parent[inner]] = inner  # of several the first, which is written last
    node = np.flatnonzero(nodes & numbered)
    backward = np.where(function_of[node] >= 0, function_of[node], node)
    forward = np.flatnonzero(numbered & ~nodes & ~functions)
    made_by = _latest_before(trace, sequence, forward, backward)
    known = made_by >= 0
    order = np.argsort(backward[known], kind="stable")
    return Links(made_by[known][order], backward[known][order])


def _latest_before(trace: TraceData, sequence: I64, among: I64, rows: I64) -> I64:
    """Return for each of ``rows`` the latest earlier range of its process and number, -1 none."""
    if not len(among):
        return np.full(len(rows), -1)
    ranges = trace.ranges
    process = trace.threads["process"].astype(np.int64)[ranges["thread"]]
    _, codes = np.unique(process << 48 | (sequence + 1), return_inverse=True)
    start = ranges["start"]
    keys, wanted = grouped_keys_of((codes[among], start[among]), (codes[rows], start[rows]))
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys[order], wanted) - 1
    found = among[order][np.maximum(place, 0)]
    return np.where((place >= 0) & (codes[found] == codes[rows]), found, -1)
