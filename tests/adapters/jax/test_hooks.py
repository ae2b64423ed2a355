"""What a program does on the host: found, named, nested, and left as it was."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from capturing import listed, profiler
from nvtrace.adapters.jax import jit as early_jit

import nvtrace

HOST = ("dataloader", "dispatch", "compile", "h2d", "d2h", "sync")


@pytest.fixture(autouse=True)
def _compiled_before() -> None:
    """Let what the tests do beside their own functions be compiled by now."""
    float(jnp.zeros(3).sum() + jnp.ones(3)[0])


def recorded(*, operators: bool = False, **options: Any) -> Any:
    return profiler(adapters=["jax"], operators=operators, **options)


def host(trace: nvtrace.Trace | None) -> list[tuple[int, str, str]]:
    """Depth, kind and name of host work, in order."""
    rows = [row for row in listed(trace, marks=False) if row["kind"] in HOST]
    return [(row["depth"], row["kind"], row["name"]) for row in rows]


def test_a_first_call_traces_lowers_and_compiles() -> None:
    def train(x: Any) -> Any:
        return x * 2

    x = jnp.ones(3)
    with recorded() as profile:
        step = jax.jit(train)
        for _ in range(2):
            step(x)
            profile.step()
    assert [row for row in host(profile.trace) if row[1] != "sync"] == [
        (0, "dispatch", "jit:train"),
        (1, "compile", "trace train"),
        (1, "compile", "lower train"),
        (1, "compile", "compile train"),
        (0, "dispatch", "jit:train"),
    ]


def test_functions_inside_a_traced_one_are_no_calls() -> None:
    x = jnp.ones(3)
    with recorded() as profile:
        inner = jax.jit(lambda x: x + 1)

        @jax.jit
        def outer(x: Any) -> Any:
            return jax.device_put(inner(inner(x)))

        outer(x)
    kinds = [(kind, name) for _, kind, name in host(profile.trace)]
    assert [name for kind, name in kinds if kind == "dispatch"] == ["jit:outer"]
    assert next(name for kind, name in kinds if kind == "compile") == "trace outer"
    assert "h2d" not in dict(kinds)


def test_an_error_in_tracing_closes_what_it_opened() -> None:
    def fails(x: Any) -> Any:
        raise RuntimeError("planted")

    x = jnp.ones(3)
    with recorded() as profile:
        with pytest.raises(RuntimeError, match="planted"):
            jax.jit(fails)(x)
        jax.device_put(np.ones(3))
    rows = listed(profile.trace, marks=False)
    assert [row["name"] for row in rows if row["kind"] == "h2d"] == ["device_put"]
    assert not any(row["unfinished"] for row in rows)
    assert [row["depth"] for row in rows if row["name"] == "device_put"] == [0]


def test_transfers_and_waits() -> None:
    double = early_jit(lambda x: x * 2)
    double(jnp.ones(3))
    with recorded() as profile:
        x = jax.device_put(np.ones(3))
        y = double(x)
        jax.block_until_ready(y)
        jax.block_until_ready([y, double(x)])
        y.block_until_ready()
        float(double(x)[0])
    names = [name for _, kind, name in host(profile.trace) if kind not in ("dispatch", "compile")]
    settled = [name for name in names if name not in ("wait for array", "wait for result")]
    assert settled == ["device_put", *["block_until_ready"] * 3, "array to host"]


@pytest.mark.parametrize(
    "read",
    [
        float,
        int,
        bool,
        lambda x: x.item(),
        lambda x: x.tolist(),
        jax.device_get,
        str,
        lambda x: f"{x:.2f}",
    ],
)
def test_hidden_reads_are_copies_to_the_host(read: Any) -> None:
    x = jnp.float32(1.5) * 2
    x.block_until_ready()
    with recorded() as profile:
        read(x)
        assert float(x) == 3
    copies = [name for _, kind, name in host(profile.trace) if kind == "d2h"]
    assert "array to host" in copies


def test_a_sleep_in_the_loader_is_found_there() -> None:
    around: list[int] = []

    def batches() -> Any:
        for _ in range(3):
            time.sleep(0.04)
            yield np.ones(3, np.float32)

    def watched() -> Any:
        batch = iter(nvtrace.dataloader(batches()))
        while True:
            start = time.time_ns()
            found = next(batch, None)
            around.append(time.time_ns() - start)
            if found is None:
                return
            yield found

    with recorded() as profile:
        step = jax.jit(lambda x: x + 1)
        for batch in watched():
            step(batch)
            profile.step()
    steps = profile.trace.summary("host_steps")["host_steps"]
    assert steps["step"].tolist() == ["all", "0", "1", "2"]
    waits = steps["dataloader_ns"][1:]
    assert (waits >= 39e6).all()
    assert (waits <= around[:3]).all()


def test_the_parts_of_a_step_add_up_to_it() -> None:
    with recorded() as profile:
        step = jax.jit(lambda x: jnp.tanh(x @ x))
        for _ in range(4):
            float(step(jax.device_put(np.ones((64, 64), np.float32)))[0, 0])
            profile.step()
    rows = listed(profile.trace, marks=False)
    wall = [row["duration_ns"] for row in rows if row["kind"] == "step"]
    table = profile.trace.summary("host_steps")["host_steps"]
    assert table["wall_ns"].tolist() == [sum(wall), *wall]
    parts = [key for key in list(table.keys()) if key.endswith("_ns") and key != "wall_ns"]
    assert (sum(table[key] for key in parts) == table["wall_ns"]).all()
    assert all((table[key] >= 0).all() for key in parts)
    assert table["compile_ns"][1] > 0
    assert table["compile_ns"][-1] == 0
    # the tree of ranges, walked one by one: what lies in no range of these kinds is Other
    for number, row in enumerate(one for one in rows if one["kind"] == "step"):
        inside = [
            one
            for one in rows
            if one["kind"] in HOST
            and one["depth"] == 0
            and row["start_ns"] <= one["start_ns"]
            and one["end_ns"] <= row["end_ns"]
        ]
        other = row["duration_ns"] - sum(one["duration_ns"] for one in inside)
        assert table["other_ns"][number + 1] == other


def test_jitted_functions_keep_what_they_are() -> None:
    def f(x: Any, flag: bool = True) -> Any:
        """Says what f does."""
        return x + 1 if flag else x

    with recorded():
        wrapped = jax.jit(f, static_argnames="flag")

        class Model:
            @jax.jit
            def twice(self: Any) -> Any:
                return 2

    plain = jax.jit(f, static_argnames="flag")
    assert wrapped.__wrapped__ is f
    assert (wrapped.__name__, wrapped.__doc__) == ("f", "Says what f does.")
    assert wrapped.lower(1.0).as_text() == plain.lower(1.0).as_text()
    assert wrapped.eval_shape(1.0) == plain.eval_shape(1.0)
    assert float(jax.grad(wrapped)(2.0)) == 1
    assert jax.vmap(wrapped)(jnp.arange(3)).tolist() == [1, 2, 3]
    assert jax.jit(wrapped)(1.0) == 2
    assert isinstance(wrapped, jax.stages.Wrapped)
    assert Model.twice.__name__ == "twice"
    assert wrapped(1.0, flag=False) == 1
    with pytest.raises(AttributeError):
        wrapped.no_such_thing  # noqa: B018 (asked for to see it fail)


def test_results_are_the_same_with_hooks_and_without() -> None:
    def run() -> float:
        step = jax.jit(lambda w, x: (w - 0.1 * jnp.tanh(x @ w).sum(), (x @ w).sum()))
        w = jnp.linspace(0, 1, 16).reshape(4, 4)
        for _ in range(3):
            w, loss = step(w, jax.device_put(np.ones((2, 4), np.float32)))
        return float(loss)

    plain = run()
    with recorded(operators=True):
        assert run() == plain


def test_annotations_of_steps_end_steps() -> None:
    step = early_jit(lambda x: x + 1)
    x = step(jnp.ones(3))
    with recorded() as profile:
        for number in range(3):
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                x = step(x)
    assert [row["step"] for row in listed(profile.trace) if row["kind"] == "step"] == [0, 1, 2]


def test_loads_from_the_compilation_cache_are_marked(tmp_path: Any) -> None:
    options = {
        "jax_compilation_cache_dir": str(tmp_path),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in options}
    from jax.experimental.compilation_cache import compilation_cache

    x = jnp.ones((7, 7))
    try:
        for name, value in options.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        jax.jit(lambda x: jnp.tanh(x) @ x + 3)(x)
        jax.clear_caches()
        with recorded() as profile:
            jax.jit(lambda x: jnp.tanh(x) @ x + 3)(x)
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
    marks = [row for row in listed(profile.trace) if row["name"].startswith("loaded from")]
    assert [row["category"] for row in marks] == ["compile"]


def test_a_profiler_and_instrument_at_once_mark_nothing_twice() -> None:
    x = jnp.ones(3)
    with nvtrace.instrument("jax"), recorded() as profile:
        jax.jit(lambda x: x - 1)(x)
        jax.block_until_ready(jax.device_put(np.ones(3)))
    kinds = [kind for _, kind, _ in host(profile.trace)]
    assert kinds.count("compile") == 3
    assert kinds.count("h2d") == 1
    assert kinds.count("dispatch") == 1
