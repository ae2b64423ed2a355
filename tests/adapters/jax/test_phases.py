"""Phases by op_name and data flow, on programs written by hand and compiled ones."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax_programs import mlp, transformer
from nvtrace.adapters.jax.hlo import Computation, Instruction, Module, read_module
from nvtrace.adapters.jax.phases import Basis, Labels, Phase, label, marked

FORWARD, BACKWARD = "jit(f)/jvp(g)/dot", "jit(f)/transpose(jvp(g))/dot"
REMAT = "jit(f)/transpose(jvp(g))/checkpoint/rematted_computation/dot"
NAMED = "jit(f)/sub"


def module(*computations: list[tuple[Any, ...]]) -> Module:
    """Write a program: each computation a list of (name, opcode, op_name, operands, called).

    Operands are names; ``called`` is the place of a computation. The first one is run.
    """
    ids: dict[str, int] = {}
    found = Module("test", 1, 0, {})
    for place, rows in enumerate(computations):
        computation = Computation(place)
        parameters = 0
        for name, opcode, op_name, operands, *called in rows:
            ids[name] = len(ids) + 1
            one = Instruction(name, opcode, op_name, id=ids[name], called=list(called))
            one.operands = operands
            if opcode == "parameter":
                one.parameter, parameters = parameters, parameters + 1
            computation.instructions.append(one)
        computation.root = ids[rows[-1][0]]
        found.computations[place] = computation
    for one in found.instructions():
        one.operands = [ids[name] for name in one.operands]
    return found


def phases(labels: Labels) -> dict[str, Phase]:
    return {name: found.phase for name, found in labels.by_name.items()}


@pytest.mark.parametrize(
    ("op_name", "phase"),
    [
        (FORWARD, Phase.FORWARD),
        (BACKWARD, Phase.BACKWARD),
        (REMAT, Phase.RECOMPUTE),
        (NAMED, Phase.NONE),
        ("jit(f)/transpose[permutation=(1, 0)]", Phase.NONE),
        ("jit(f)/vmap(jvp(g))/mul", Phase.FORWARD),
        ("", Phase.NONE),
    ],
)
def test_marks(op_name: str, phase: Phase) -> None:
    assert marked(op_name) is phase


STEP = [
    ("w", "parameter", "", []),
    ("x", "parameter", "", []),
    ("prepare", "convert", "jit(f)/convert", ["x"]),
    ("forward", "dot", FORWARD, ["w", "prepare"]),
    ("kept", "copy", "", ["forward"]),
    ("backward", "dot", BACKWARD, ["kept"]),
    ("between", "copy", "", ["backward"]),
    ("scaled", "multiply", NAMED, ["between"]),
    ("backward2", "dot", BACKWARD, ["scaled"]),
    ("gradient", "copy", "", ["backward2"]),
    ("reduced", "all-reduce", "jit(f)/psum", ["gradient"]),
    ("sliced", "slice", "", ["reduced"]),
    ("update", "subtract", NAMED, ["w", "sliced"]),
    ("result", "copy", "", ["update"]),
    ("loss", "reduce", "jit(f)/mean", ["forward"]),
    ("norm", "reduce", "jit(f)/norm", ["w"]),
    ("all", "tuple", "", ["result", "loss", "norm"]),
]


def test_what_carries_no_mark_is_told_by_data_flow() -> None:
    labels = label(module(STEP))
    assert labels.differentiated
    assert phases(labels) == {
        "w": Phase.NONE,
        "x": Phase.NONE,
        "prepare": Phase.NONE,
        "forward": Phase.FORWARD,
        "kept": Phase.FORWARD,  # feeds backward, but depends on forward alone
        "backward": Phase.BACKWARD,
        "between": Phase.BACKWARD,
        "scaled": Phase.BACKWARD,  # named, and yet: it feeds backward
        "backward2": Phase.BACKWARD,
        "gradient": Phase.BACKWARD,  # made by the compiler: that of what it copies
        "reduced": Phase.BACKWARD,
        "sliced": Phase.BACKWARD,
        "update": Phase.OPTIMIZER,
        "result": Phase.OPTIMIZER,
        "loss": Phase.FORWARD,
        "norm": Phase.NONE,
        "all": Phase.OPTIMIZER,
    }
    basis = {name: found.basis for name, found in labels.by_name.items()}
    assert basis["forward"] is Basis.OP_NAME
    assert basis["update"] is Basis.DATA_FLOW
    assert basis["norm"] is Basis.NONE
    assert [name for name, found in labels.by_name.items() if found.collective] == ["reduced"]


def fusion(*members: tuple[str, str, str]) -> Module:
    inner = [("p", "parameter", "", [])]
    for name, opcode, op_name in members:
        inner.append((name, opcode, op_name, [inner[-1][0]]))
    return module(
        [
            ("w", "parameter", "", []),
            ("f", "dot", FORWARD, ["w"]),
            ("b", "dot", BACKWARD, ["f"]),
            ("fused", "fusion", inner[-1][2], ["b"], 1),
            ("after", "dot", BACKWARD, ["fused"]),
        ],
        inner,
    )


def test_a_fusion_is_of_its_latest_phase_and_mixed() -> None:
    found = label(fusion(("m1", "tanh", FORWARD), ("m2", "multiply", BACKWARD))).by_name["fused"]
    assert (found.phase, found.mixed) == (Phase.BACKWARD, True)
    found = label(fusion(("m1", "tanh", BACKWARD), ("m2", "multiply", FORWARD))).by_name["fused"]
    assert (found.phase, found.mixed) == (Phase.BACKWARD, True)
    found = label(fusion(("m1", "tanh", BACKWARD), ("m2", "multiply", REMAT))).by_name["fused"]
    assert (found.phase, found.mixed) == (Phase.BACKWARD, False)


def test_parameters_have_no_say_in_a_fusion() -> None:
    found = label(fusion(("m1", "tanh", REMAT), ("m2", "bitcast", ""), ("m3", "add", REMAT)))
    assert found.by_name["fused"].phase is Phase.RECOMPUTE


def test_reducers_are_no_part_of_the_program() -> None:
    labels = label(
        module(
            [
                ("w", "parameter", "", []),
                ("f", "dot", FORWARD, ["w"]),
                ("sum", "reduce", "", ["f"], 1),
            ],
            [
                ("a", "parameter", "", []),
                ("add", "add", BACKWARD, ["a"]),
            ],
        )
    )
    assert labels.by_name["sum"].phase is Phase.FORWARD


def test_flow_goes_through_loops_calls_and_branches() -> None:
    for opcode, operands in (("while", ["f"]), ("call", ["f"]), ("conditional", ["w", "f"])):
        labels = label(
            module(
                [
                    ("w", "parameter", "", []),
                    ("f", "dot", FORWARD, ["w"]),
                    ("loop", opcode, "", operands, 1),
                    ("b", "dot", BACKWARD, ["loop"]),
                    ("update", "subtract", NAMED, ["b"]),
                ],
                [("p", "parameter", "", []), ("inside", "copy", "", ["p"])],
            )
        )
        assert labels.by_name["inside"].phase is Phase.FORWARD
        assert labels.by_name["update"].phase is Phase.OPTIMIZER


def test_a_computation_called_twice_does_not_hang() -> None:
    labels = label(
        module(
            [
                ("w", "parameter", "", []),
                ("b", "dot", BACKWARD, ["w"]),
                ("one", "call", "", ["b"], 1),
                ("two", "call", "", ["one"], 1),
                ("end", "subtract", NAMED, ["two"]),
            ],
            [("p", "parameter", "", []), ("inside", "copy", "", ["p"])],
        )
    )
    assert labels.by_name["end"].phase is Phase.OPTIMIZER


def test_no_marks_no_phases() -> None:
    labels = label(module([("w", "parameter", "", []), ("f", "dot", "jit(f)/dot", ["w"])]))
    assert not labels.differentiated
    assert set(phases(labels).values()) == {Phase.NONE}


def compiled(step: Any, *arguments: Any) -> Labels:
    executable = jax.jit(step).lower(*arguments).compile()
    (one,) = executable.runtime_executable().hlo_modules()
    return label(read_module(one.as_serialized_hlo_module_proto()))


@pytest.mark.parametrize("program", [mlp, transformer])
def test_updates_of_a_compiled_step_are_the_optimizer(program: Any) -> None:
    step, weights, batch = program()
    found = compiled(step, weights, batch).by_name.values()
    updates = [
        one
        for one in found
        if one.instruction.op_name == "jit(train_step)/sub"
        or one.instruction.op_name == "jit(train_step)/jit(main)/sub"
    ]
    assert len(updates) >= len(weights)
    assert {one.phase for one in updates} == {Phase.OPTIMIZER}
    by_mark = {marked(one.instruction.op_name) for one in found}
    assert by_mark >= {Phase.NONE, Phase.FORWARD, Phase.BACKWARD}
    for one in found:
        if one.instruction.opcode == "dot":
            assert one.phase is marked(one.instruction.op_name)


def test_inference_has_no_phases() -> None:
    labels = compiled(lambda x: jnp.tanh(x @ x), jnp.ones((8, 8)))
    assert not labels.differentiated
