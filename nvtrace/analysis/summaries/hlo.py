"""Views of compiled programs: device time by phase, and by HLO instruction.

Adapters write what is known of an instruction as JSON into the text of its ranges: ``hlo_module``,
``opcode``, ``op_name``, ``source``, ``phase``, ``phase_by``, ``mixed`` and ``collective``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.intervals import count_by, sum_by
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.summaries.columns import count, percent, share, text, time
from nvtrace.model.arrays import distinct, factorize
from nvtrace.model.schema import RangeKind, RangeStyle
from nvtrace.model.trace import TraceData
from nvtrace.report import ReportTable

I64 = npt.NDArray[np.int64]
Facts = Mapping[str, Any]

EVIDENCE = ("none", "kernel name", "graph node", "thunk")
"""What tells which instruction a piece of device work was, from the weakest to the strongest."""

_KEY = '"hlo_module"'
_PHASES = {
    "forward": "Forward",
    "backward": "Backward",
    "recompute": "Recompute",
    "optimizer": "Optimizer",
    "collective": "Communication",
    "compute": "Compute",
    "": "Unattributed",
}
_NONE_HERE = (
    "no operators of compiled programs here: record with nvtrace.Profiler and the adapter jax, or "
    "see nvtrace.adapters.jax.device_report for reports of Nsight Systems"
)


class Work(NamedTuple):
    """Pieces of device work, and the instructions they were.

    Attributes:
        instructions: facts, with ``name`` for the instruction's own.
        instruction: row of ``instructions`` of each piece.
        evidence: place in EVIDENCE of each piece.
        total: its length, ns.
        own: without the pieces inside it, ns.
    """

    instructions: Sequence[Facts]
    instruction: npt.NDArray[np.int32]
    evidence: npt.NDArray[np.uint8]
    total: I64
    own: I64

    def by_instruction(self, key: str) -> npt.NDArray[Any]:
        """Return a fact of each instruction, "" where it has none."""
        found = np.empty(len(self.instructions), object)
        found[:] = [one.get(key) or "" for one in self.instructions]
        return found


def has_programs(trace: TraceData) -> bool:
    """Return whether an adapter wrote what it knows of compiled programs."""
    texts = distinct(trace.ranges["text"])
    return any(_KEY in one for one in trace.strings.take(texts[texts >= 0][:64]))


def device_phases_view(measures: Measures) -> ReportTable:
    """Return device time by phase of training, inferred from the compiled programs."""
    return phases_table(work_of(measures))


def hlo_view(measures: Measures) -> ReportTable:
    """Return one row an HLO instruction."""
    return instructions_table(work_of(measures))


def work_of(measures: Measures) -> Work:
    """Return the operators of a CPU, or the kernels within ranges of operators, of a trace."""
    explained, trace = measures.explained, measures.trace
    texts, codes = factorize(trace.ranges["text"])
    facts = [_facts(one) for one in trace.strings.take(texts)]
    known = np.array([one is not None for one in facts], np.bool_)
    told = known[codes] if len(codes) else np.zeros(0, np.bool_)
    told &= explained.range_kind == RangeKind.OPERATOR
    owner = explained.device_range
    device = np.flatnonzero(measures.selection.device & (owner >= 0))
    device = device[told[owner[device]]]
    if len(device):
        rows = owner[device]
        total = own = measures.device_time[device]
    else:
        rows = np.flatnonzero(told & measures.selection.ranges).astype(np.int32)
        beside = trace.ranges["style"][rows] != RangeStyle.PUSH_POP
        total = measures.range_time(rows)
        own = np.where(beside, total, explained.range_self[rows])
    pairs, instruction = factorize(
        trace.ranges["name"][rows].astype(np.int64) * max(len(texts), 1) + codes[rows]
    )
    names = trace.strings.take((pairs // max(len(texts), 1)).astype(np.int32))
    instructions = [
        {**(facts[pair % len(texts)] or {}), "name": name}
        for name, pair in zip(names, pairs.tolist(), strict=True)
    ]
    evidence = np.full(len(rows), EVIDENCE.index("thunk"), np.uint8)
    return Work(instructions, instruction, evidence, total, own)


def _facts(written: str) -> dict[str, Any] | None:
    if _KEY not in written:
        return None
    import json  # here: few reports are of XLA

    try:
        found = json.loads(written)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def phases_table(work: Work) -> ReportTable:
    """Return device time by phase. Phases add up to the whole."""
    phase = work.by_instruction("phase")
    phase[work.by_instruction("collective") == True] = "collective"  # noqa: E712 (an array)
    by = work.by_instruction("phase_by")
    mixed = work.by_instruction("mixed") == True  # noqa: E712 (an array)
    mixed &= phase != "collective"
    keys = list(_PHASES)
    place = np.array([keys.index(one) if one in _PHASES else len(keys) - 1 for one in phase], int)
    codes = place[work.instruction] if len(place) else work.instruction
    whole = int(work.own.sum())
    calls = count_by(codes, len(keys))
    times = sum_by(codes, work.own, len(keys))
    columns = {"mixed": _time_where(mixed, work, codes)}
    for title in ("op_name", "data flow"):
        columns[title] = _time_where((by == title) & (phase != "collective"), work, codes)
    inner = keys.index("recompute")
    for values in (calls, times, *columns.values()):
        values[keys.index("backward")] += values[inner]
    shown = np.flatnonzero(calls)
    return ReportTable(
        "device_phases",
        "Device Phase Summary (inferred from HLO)",
        (
            text("phase", "Phase", [list(_PHASES.values())[row] for row in shown.tolist()]),
            count("calls", "Operators", calls[shown]),
            time("time_ns", "Time", times[shown]),
            percent("ratio", "Ratio (%)", share(times, whole)[shown]),
            time("op_name_ns", "By op_name", columns["op_name"][shown]),
            time("data_flow_ns", "By data flow", columns["data flow"][shown]),
            time("mixed_ns", "In mixed fusions", columns["mixed"][shown]),
        ),
        indent=(shown == inner).astype(np.int64),
        notes=_phase_notes(work, columns, whole, inner) if whole else (),
        empty=_NONE_HERE,
        whole=True,
    )


def _time_where(chosen: npt.NDArray[np.bool_], work: Work, codes: npt.NDArray[Any]) -> I64:
    mask = chosen[work.instruction] if len(chosen) else np.zeros(0, np.bool_)
    return sum_by(codes[mask], work.own[mask], len(_PHASES))


def _phase_notes(work: Work, columns: Mapping[str, I64], whole: int, inner: int) -> tuple[str, ...]:
    def of(key: str) -> float:
        values = columns[key]
        return 100 * int(values.sum() - values[inner]) / whole

    named, flow, mixed = of("op_name"), of("data flow"), of("mixed")
    found = [
        "Device time, no host ranges: a compiled step runs as one program, and its phases are told "
        "by JAX's marks in op_name and by data flow. Recompute is a part of Backward.",
        f"Of the time, {named:.1f} % is labelled by op_name and {flow:.1f} % by data flow; "
        f"{mixed:.1f} % is in fusions of several phases, each counted in the latest of them.",
    ]
    by_evidence = np.bincount(work.evidence, work.own, len(EVIDENCE))
    told = [
        f"{EVIDENCE[row]} {100 * by_evidence[row] / whole:.1f} %"
        for row in range(len(EVIDENCE) - 1, -1, -1)
        if by_evidence[row]
    ]
    found.append(f"Instructions are told by: {', '.join(told)}.")
    return tuple(found)


def instructions_table(work: Work) -> ReportTable:
    """Return one row a module and instruction, and evidence where that differs."""
    width = len(EVIDENCE)
    keys, codes = factorize(work.instruction.astype(np.int64) * width + work.evidence)
    order = np.argsort(-sum_by(codes, work.own, len(keys)), kind="stable")
    chosen = [work.instructions[row] for row in (keys[order] // width).tolist()]
    own = sum_by(codes, work.own, len(keys))[order]

    def fact(key: str) -> list[str | None]:
        return [str(one[key]) if one.get(key) else None for one in chosen]

    return ReportTable(
        "hlo",
        "HLO Instruction Summary",
        (
            text("name", "Name", fact("name")),
            text("module", "Module", fact("hlo_module")),
            text("opcode", "Opcode", fact("opcode")),
            text("op_name", "op_name", fact("op_name")),
            text("source", "Source", fact("source"), shown=False),
            text("phase", "Phase", fact("phase")),
            text("phase_by", "Phase by", fact("phase_by"), shown=False),
            text("evidence", "Evidence", [EVIDENCE[row] for row in (keys[order] % width).tolist()]),
            count("calls", "Calls", count_by(codes, len(keys))[order]),
            time("total_ns", "Total", sum_by(codes, work.total, len(keys))[order]),
            time("self_ns", "Self", own),
            percent("ratio", "Ratio (%)", share(own, int(own.sum()))),
        ),
        notes=(
            "Ratios are of the sum of Self. A fusion is one row: the operations in it have no "
            "times of their own.",
        ),
        empty=_NONE_HERE,
    )
