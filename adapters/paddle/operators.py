"""Operators, as Paddle's own tracer records them in this process."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nvtrace.analysis.paddle_names import is_wrapper, shown_name
from nvtrace.instrumentation import AdapterOptions
from nvtrace.model.harvest import Harvest, HarvestedMarks, HarvestedRanges
from nvtrace.model.schema import RangeKind
from nvtrace.model.strings import Strings
from nvtrace.model.trace import Counter, Note

_CPU = 1  # of the tracer's switches: GPU work is left to nvtrace and to nsys

_KINDS = {
    "Operator": RangeKind.OPERATOR,
    "OperatorInner": RangeKind.OPERATOR_INNER,
    "DygraphKernelLaunch": RangeKind.OPERATOR_INNER,
    "StaticKernelLaunch": RangeKind.OPERATOR_INNER,
    "Communication": RangeKind.COMMUNICATION,
}
ALLOCATION = "allocation"
"""The category of marks of allocations: ``allocate cpu``, the bytes as payload."""

_VERBS = {
    "Allocate": "allocate",
    "Free": "free",
    "ReservedAllocate": "reserve",
    "ReservedFree": "release",
}

IN_USE = Note(
    "operators_not_recorded",
    "operators were not recorded: a paddle.profiler.Profiler has Paddle's tracer, of which there "
    "is one: delete that object before nvtrace's Profiler records",
)
NO_SHAPES = Note(
    "shapes_not_recorded",
    "record_shapes: Paddle's tracer filled in no shapes of operators' inputs",
)
NO_FLOPS = Note(
    "flops_not_recorded",
    "with_flops: FLOPs were not recorded: Paddle computes them from the shapes of operators' "
    "inputs, which its tracer does not fill in",
)


class OperatorTracer:
    """Paddle's tracer, from ``start`` to ``stop``. There is one in a process."""

    def __init__(self, options: AdapterOptions) -> None:
        self._options = options
        self._tracer: Any = None

    def start(self) -> None:
        """Start the tracer, unless somebody else has it."""
        from paddle.base import core

        options = core.ProfilerOptions()
        options.trace_switch = _CPU
        self._tracer = core._Profiler.create(options, [])
        if self._tracer is None:
            return
        if self._options.record_shapes or self._options.with_flops:
            core.enable_op_info_recorder()
        if self._options.profile_memory:
            core.enable_memory_recorder()
        self._tracer.prepare()
        self._tracer.start()

    @property
    def running(self) -> bool:
        """Whether this object has the tracer."""
        return self._tracer is not None

    def stop(self) -> Harvest:
        """Stop the tracer, let it go, and return what it recorded."""
        from paddle.base import core

        tracer, self._tracer = self._tracer, None
        if tracer is None:
            return Harvest(notes=(IN_USE,))
        result = tracer.stop()
        if self._options.record_shapes or self._options.with_flops:
            core.disable_op_info_recorder()
        if self._options.profile_memory:
            core.disable_memory_recorder()
        names = {int(tid): name for tid, name in result.get_extra_info().items() if tid.isdigit()}
        return replace(read(result.get_data(), self._options), thread_names=names)


def read(trees: dict[int, Any], options: AdapterOptions) -> Harvest:
    """Return what the tracer's trees of ranges hold, each node read once.

    Args:
        trees: root node by native thread id, as Paddle hands them out.
        options: what was asked of the tracer.
    """
    reading = _Reading(options)
    for thread, root in trees.items():
        reading.add(thread, root)
    return reading.harvest()


@dataclass
class _Reading:
    """The columns that grow while the trees are walked."""

    options: AdapterOptions
    strings: Strings = field(default_factory=Strings)
    # by Paddle's name: (row of strings, kind), None for what is left out
    known: dict[str, tuple[int, int] | None] = field(default_factory=dict)
    rows: array[int] = field(default_factory=lambda: array("q"))
    counters: Strings = field(default_factory=Strings)
    moments: array[int] = field(default_factory=lambda: array("q"))
    levels: array[int] = field(default_factory=lambda: array("q"))
    shaped: bool = False
    counted: bool = False

    def add(self, thread: int, root: Any) -> None:
        add, known, memory = self.rows.extend, self.known, self.options.profile_memory
        inputs = self.options.record_shapes or self.options.with_flops
        pending = [root]
        while pending:
            node = pending.pop()
            if memory:
                for event in node.mem_node:
                    self._add_memory(thread, event)
            for child in node.children_node:
                pending.append(child)
                name = child.name
                try:
                    found = known[name]
                except KeyError:
                    found = known[name] = self._meaning(name, child.type)
                if found is not None:
                    text = self._inputs(child, found) if inputs else -1
                    add((child.start_ns, child.end_ns, found[0], found[1], thread, text))

    def _meaning(self, name: str, kind: Any) -> tuple[int, int] | None:
        """Return what nodes of a name stand for; Paddle gives all of one name one type."""
        meaning = _KINDS.get(kind.name)
        if meaning is None or is_wrapper(name):
            return None
        return self.strings.intern(shown_name(name)), int(meaning)

    def _inputs(self, node: Any, meaning: tuple[int, int]) -> int:
        """Return what is known of an operator's inputs, as a row of strings."""
        if meaning[1] != RangeKind.OPERATOR:
            return -1
        # Paddle's old static programs note them where they infer the shapes of outputs
        told = next((one for one in (node, *node.children_node) if one.input_shapes), None)
        if told is None:
            return -1
        self.shaped = True
        said = [f"shapes = {dict(told.input_shapes)}"] if self.options.record_shapes else []
        if self.options.with_flops:
            from paddle.utils.flops import flops

            count = flops(self.strings[meaning[0]], told.input_shapes, told.attributes)
            if count:  # 0 is what Paddle answers where it has no formula
                self.counted = True
                said.append(f"flops = {count}")
        return self.strings.intern(", ".join(said)) if said else -1

    def _add_memory(self, thread: int, event: Any) -> None:
        place = str(event.place).removeprefix("Place(").removesuffix(")")
        name = self.strings.intern(f"{_VERBS[event.type.name]} {place}")
        at = event.timestamp_ns
        self.moments.extend((at, name, thread, abs(event.increase_bytes)))
        self._add_level(at, f"Memory allocated {place}", event.current_allocated)
        if place != "cpu":  # of the host Paddle keeps no account: less is reserved than allocated
            self._add_level(at, f"Memory reserved {place}", event.current_reserved)

    def _add_level(self, at: int, counter: str, level: int) -> None:
        self.levels.extend((at, self.counters.intern(counter), level))

    def harvest(self) -> Harvest:
        rows = np.array(self.rows, np.int64).reshape(-1, 6)
        ranges = HarvestedRanges(
            start=rows[:, 0],
            end=rows[:, 1],
            name=rows[:, 2].astype(np.int32),
            kind=rows[:, 3].astype(np.uint8),
            thread=rows[:, 4],
            text=rows[:, 5].astype(np.int32),
        )
        notes = []
        if self.options.record_shapes and not self.shaped:
            notes.append(NO_SHAPES)
        if self.options.with_flops and not self.counted:
            notes.append(NO_FLOPS)
        if not self.options.profile_memory:
            return Harvest(self.strings, ranges, notes=tuple(notes))
        moments = np.array(self.moments, np.int64).reshape(-1, 4)
        levels = np.array(self.levels, np.int64).reshape(-1, 3)
        return Harvest(
            self.strings,
            ranges,
            marks=HarvestedMarks(
                time=moments[:, 0],
                name=moments[:, 1].astype(np.int32),
                thread=moments[:, 2],
                payload=moments[:, 3],
                category=ALLOCATION,
            ),
            samples={
                "time": levels[:, 0],
                "counter": levels[:, 1].astype(np.int32),
                "value": levels[:, 2].astype(np.float64),
            },
            counters=tuple(Counter(name, "bytes", process=0) for name in self.counters),
            notes=tuple(notes),
        )
