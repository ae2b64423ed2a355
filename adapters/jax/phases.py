"""Phases of training inside one compiled program, from op_name and data flow.

JAX's transformations leave their names in op_name: ``jvp(`` around the forward pass,
``transpose(`` around the backward pass, ``rematted_computation`` around what checkpointing computes
again. What carries no mark, the optimizer above all, is told by what it depends on and what depends
on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from .flow import Flow
from .hlo import Instruction, Module

_COLLECTIVES = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
)


# what takes no time in a fusion has no say in its phase
_IDLE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast"}


class Phase(IntEnum):
    """A part of a training step; the later in the step, the larger."""

    NONE = 0
    FORWARD = 1
    RECOMPUTE = 2
    BACKWARD = 3
    OPTIMIZER = 4


class Basis(IntEnum):
    """What a phase rests on."""

    NONE = 0
    DATA_FLOW = 1
    OP_NAME = 2


@dataclass(frozen=True, slots=True)
class Label:
    """What is known of one instruction.

    Attributes:
        instruction: the instruction.
        phase: the latest of a fusion's members.
        basis: what the phase rests on.
        mixed: the members are of several phases, recomputation counted as backward.
        collective: it communicates.
    """

    instruction: Instruction
    phase: Phase
    basis: Basis
    mixed: bool
    collective: bool


@dataclass(frozen=True)
class Labels:
    """The instructions of a module.

    Attributes:
        module: its name.
        differentiated: the program holds automatic differentiation; without, it has no phases.
        by_name: by the instruction's name, those inside fusions too.
    """

    module: str
    differentiated: bool
    by_name: dict[str, Label]


def is_collective(instruction: Instruction) -> bool:
    """Return whether an instruction communicates with other devices."""
    return instruction.opcode.removesuffix("-start").removesuffix("-done") in _COLLECTIVES


def marked(op_name: str) -> Phase:
    """Return the phase that JAX's own marks in an op_name state."""
    if "rematted_computation" in op_name:
        return Phase.RECOMPUTE
    if "transpose(" in op_name:
        return Phase.BACKWARD
    return Phase.FORWARD if "jvp(" in op_name else Phase.NONE


def label(module: Module) -> Labels:
    """Return what each instruction of a module belongs to."""
    flow = Flow(module)
    phases = [marked(node.op_name) for node in flow.nodes]
    basis = [Basis.OP_NAME if phase else Basis.NONE for phase in phases]
    differentiated = any(phases)
    if differentiated:
        _infer(flow, phases, basis)
    rows = {node.id: row for row, node in enumerate(flow.nodes)}
    found = {}
    for row, node in enumerate(flow.nodes):
        members = [row, *(rows[one.id] for one in _members(module, node))]
        decisive = max(members, key=lambda member: (phases[member], basis[member]))
        kinds = {Phase.BACKWARD if phases[m] is Phase.RECOMPUTE else phases[m] for m in members}
        found[node.name] = Label(
            node,
            phases[decisive],
            basis[decisive],
            len(kinds - {Phase.NONE}) > 1,
            any(is_collective(flow.nodes[member]) for member in members),
        )
    return Labels(module.name, differentiated, found)


def _members(module: Module, node: Instruction) -> list[Instruction]:
    """Return what runs inside an instruction as one piece of work."""
    if node.opcode not in ("fusion", "async-start"):
        return []
    inner = [one for computation in module.expanded(node) for one in computation.instructions]
    working = [one for one in inner if one.opcode not in _IDLE]
    return [*working, *(member for one in inner for member in _members(module, one))]


def _infer(flow: Flow, phases: list[Phase], basis: list[Basis]) -> None:
    """Give phases to what carries no mark."""
    backward = [row for row, phase in enumerate(phases) if phase >= Phase.RECOMPUTE]
    forward = [row for row, phase in enumerate(phases) if phase is Phase.FORWARD]
    after_backward, before_backward = flow.after(backward), flow.before(backward)
    after_forward = flow.after(forward)
    for row in flow.order():
        if basis[row]:
            continue
        node = flow.nodes[row]
        named = bool(node.op_name) and not is_collective(node)
        if after_backward[row] and before_backward[row]:
            phases[row] = Phase.BACKWARD
        elif after_backward[row] and named:
            phases[row] = Phase.OPTIMIZER
        elif after_backward[row]:
            phases[row] = max((phases[one] for one in flow.producers[row]), default=Phase.NONE)
        elif after_forward[row]:
            phases[row] = Phase.FORWARD
        if phases[row]:
            basis[row] = Basis.DATA_FLOW
