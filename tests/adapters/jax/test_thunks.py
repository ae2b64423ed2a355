"""Names of XLA's ranges, read from the right."""

from __future__ import annotations

import pytest
from nvtrace.adapters.jax.thunks import parse


@pytest.mark.parametrize(
    ("name", "kind", "facts"),
    [
        ("Thunk:#hlo_op=wrapped_copy#", "Thunk", {"hlo_op": "wrapped_copy"}),
        (
            "TSL:Thunk:#name=jit(_psum)/jit(main)/reduce_sum[axes=(0,)],hlo_op=all-reduce-start#",
            "Thunk",
            {"name": "jit(_psum)/jit(main)/reduce_sum[axes=(0,)]", "hlo_op": "all-reduce-start"},
        ),
        (
            "Thunk:#name=a,b=c/dot[x=1 y=(2, 3)],hlo_op=dot.3,unique_hlo_op_id=17,later=x.y#",
            "Thunk",
            {
                "name": "a,b=c/dot[x=1 y=(2, 3)]",
                "hlo_op": "dot.3",
                "unique_hlo_op_id": "17",
                "later": "x.y",
            },
        ),
        (
            "XlaModule:#prefix=jit(f)/jit(main),hlo_module=jit_f,program_id=3#",
            "XlaModule",
            {"prefix": "jit(f)/jit(main)", "hlo_module": "jit_f", "program_id": "3"},
        ),
        (
            "TSL:XlaCompile:#module=jit__psum,program_id=1#",
            "XlaCompile",
            {"module": "jit__psum", "program_id": "1"},
        ),
    ],
)
def test_names(name: str, kind: str, facts: dict[str, str]) -> None:
    assert parse(name) == (kind, facts)


@pytest.mark.parametrize("name", ["", "forward", "NCCL:ncclGroupEnd", "Thunk:#hlo_op=a", "#x=1#"])
def test_other_names(name: str) -> None:
    assert parse(name) is None
