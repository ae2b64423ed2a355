"""Reports of Nsight Systems: each kernel's HLO instruction, with the evidence for it.

XLA emits a range around each program (``XlaModule``) and each piece of it (``Thunk``), and the
adapter keeps the programs themselves beside the report.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.attribution import nearest_of
from nvtrace.analysis.measures import Measures
from nvtrace.analysis.selection import select
from nvtrace.analysis.summaries.hlo import EVIDENCE, Work, instructions_table, phases_table
from nvtrace.model.arrays import factorize
from nvtrace.model.explained import Explained
from nvtrace.report import Report
from nvtrace.trace import Trace

from . import programs, thunks

_NONE, _NAME, _NODE, _THUNK = range(len(EVIDENCE))
_UNKNOWN: dict[str, object] = {"name": "(unknown)"}

Key = tuple[str, int, str]


def device_report(trace: Trace, folder: str | os.PathLike[str]) -> Report:
    """Return the tables ``device_phases`` and ``hlo`` of a report of Nsight Systems.

    Args:
        trace: the report, loaded.
        folder: where the adapter kept the compiled programs of that run.

    Raises:
        SourceError: the folder holds no programs.
    """
    work = kernel_work(trace, programs.load(folder))
    tables = {"device_phases": phases_table(work), "hlo": instructions_table(work)}
    return replace(trace.summary([]), tables=tables)


def kernel_work(trace: Trace, known: programs.Programs) -> Work:
    """Return each kernel, copy and set of a trace with its instruction.

    By the range of the thunk around its launch; for kernels of a graph, around the creation of
    their node; else by the kernel's name, where one instruction alone bears it.
    """
    explained = trace.explain()
    keys = _range_keys(explained)
    device = trace.device
    rows = np.arange(device.rows)
    found = np.full(device.rows, -1, np.int64)
    evidence = np.zeros(device.rows, np.uint8)
    table: dict[Key, int] = {}
    for level, owner in ((_THUNK, explained.device_range), (_NODE, explained.device_capture)):
        open_ = rows[(found < 0) & (owner >= 0)]
        for row in open_.tolist():
            key = keys.get(int(owner[row]))
            if key is not None:
                found[row] = table.setdefault(key, len(table))
                evidence[row] = level
    _by_kernel_name(trace, known, found, evidence, table)
    found[found < 0] = len(table)
    instructions = [_facts(known, key) for key in table] + [_UNKNOWN]
    time = Measures(explained, select(explained)).device_time
    return Work(instructions, found.astype(np.int32), evidence, time, time)


def _range_keys(explained: Explained) -> dict[int, Key]:
    """Return module, program and instruction of each range within a thunk's, by row.

    A program without an id is XLA trying out kernels, and counts as none.
    """
    trace = explained.trace
    names, codes = factorize(trace.ranges["name"])
    parsed = [thunks.parse(name) for name in trace.strings.take(names)]
    is_thunk = _of_kind(parsed, codes, "Thunk")
    is_module = _of_kind(parsed, codes, "XlaModule")
    thunk = nearest_of(is_thunk, explained.range_parent)
    module = nearest_of(is_module, explained.range_parent)
    found: dict[int, Key] = {}
    for row in np.flatnonzero((thunk >= 0) & (module >= 0)).tolist():
        of_thunk, of_module = parsed[codes[thunk[row]]], parsed[codes[module[row]]]
        assert of_thunk is not None
        assert of_module is not None
        program = of_module[1].get("program_id", "")
        if program.isdigit() and "hlo_op" in of_thunk[1]:
            name = of_module[1].get("hlo_module", "")
            found[row] = (name, int(program), of_thunk[1]["hlo_op"])
    return found


def _of_kind(parsed: list[Any], codes: npt.NDArray[Any], kind: str) -> npt.NDArray[np.bool_]:
    wanted = np.array([one is not None and one[0] == kind for one in parsed], np.bool_)
    return wanted[codes] if len(codes) else np.zeros(0, np.bool_)


def _by_kernel_name(
    trace: Trace,
    known: programs.Programs,
    found: npt.NDArray[np.int64],
    evidence: npt.NDArray[np.uint8],
    table: dict[Key, int],
) -> None:
    """Fill in what is still open by the names of kernels that XLA made for one instruction."""
    left = np.flatnonzero(found < 0)
    if not len(left):
        return
    bearers: dict[str, list[Key]] = {}
    for name, program in known.names():
        labels = known.labels(name, program)
        for instruction in labels.by_name if labels is not None else ():
            bearers.setdefault(_flat(instruction), []).append((name, program, instruction))
    for row, kernel in zip(
        left.tolist(), trace.strings.take(trace.device["short_name"][left]), strict=True
    ):
        keys = bearers.get(_flat(kernel), [])
        if len(keys) == 1:
            found[row] = table.setdefault(keys[0], len(table))
            evidence[row] = _NAME


def _flat(name: str) -> str:
    """Return an instruction's name as XLA writes it into a kernel's."""
    return re.sub(r"[.\-]", "_", name)


def _facts(known: programs.Programs, key: Key) -> dict[str, object]:
    name, program, instruction = key
    labels = known.labels(name, program)
    found = None if labels is None else labels.by_name.get(instruction)
    if labels is None or found is None:
        return {"name": instruction, "hlo_module": name}
    return {**programs.facts(found, labels), "name": instruction}
