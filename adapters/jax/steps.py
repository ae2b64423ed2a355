"""Where steps end: JAX returns before the device is done, so a step's time needs a wait.

At the end of a step its predecessor's smallest result is waited for: the device is never more than
a step behind, nor ever idle for the sake of the clock. At the edges of what is measured, and after
a step that compiled, the step's own result is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import perf_counter_ns
from typing import Any

from nvtrace.model.schema import RangeKind

from ..patching import Patch
from .marking import Mark, here, marked, marking

# more than one, as results may be donated to the next step
_KEPT = 4

LAGGED = (
    "batch_cost: each step's end waits for the result of the step before, the edges for their own"
)
DISPATCH = "batch_cost: dispatch only, nothing waits for the device"
NO_CALL = (
    "batch_cost: dispatch only, for no jitted call was seen: jit after the Profiler's start, or "
    "with nvtrace.adapters.jax.jit"
)
_DONATED = "; {:,} steps were not waited for, as all their results were donated"


class Results:
    """Waits for what jitted calls of this thread returned.

    Args:
        waits: False to measure dispatch instead.
    """

    def __init__(self, *, waits: bool) -> None:
        from jax._src.array import ArrayImpl

        self._waits = waits
        self._array = ArrayImpl
        self._before: list[Any] = []
        self._donated = 0
        self._ended_ns = 0
        self._mark = Mark("wait for result", RangeKind.SYNC)

    @property
    def rule(self) -> str:
        """What batch_cost rests on."""
        if not self._waits:
            return DISPATCH
        if not marking.calls:
            return NO_CALL
        return LAGGED + (_DONATED.format(self._donated) if self._donated else "")

    def settle(self, *, whole: bool) -> int:
        """Wait at the end of a step.

        Args:
            whole: wait for the step that ends, not the one before.

        Returns:
            Where no call came since the last step: how long after its end the device went on with
            it, ns; as far as that can be told, else 0.
        """
        result, here.result = here.result, None
        if not self._waits:
            return 0
        latest = self._smallest(result)
        if whole and not latest:
            return self._finish()
        waited_for = latest if whole else self._before
        there = [leaf for leaf in waited_for if not leaf.is_deleted()]
        if there:
            self._wait(there[0])
        elif waited_for:
            self._donated += 1
        self._before = [] if whole else latest
        here.finished_ns = 0
        here.unfinished = next((leaf for leaf in self._before if not leaf.is_ready()), None)
        self._ended_ns = perf_counter_ns()
        return 0

    def _finish(self) -> int:
        """Wait for the rest of the last step, unless the program has."""
        leaf, here.unfinished = here.unfinished, None
        finished, here.finished_ns = here.finished_ns, 0
        self._before = []
        if leaf is not None and not leaf.is_deleted() and not leaf.is_ready():
            self._wait(leaf)
            finished = perf_counter_ns()
        return finished - self._ended_ns if finished else 0

    def _wait(self, leaf: Any) -> None:
        # a computation that failed raises where the program itself reads its result
        with suppress(Exception):
            marked(self._mark, leaf.block_until_ready)

    def _smallest(self, result: Any) -> list[Any]:
        from jax.tree_util import tree_leaves

        leaves = [leaf for leaf in tree_leaves(result) if isinstance(leaf, self._array)]
        there = [leaf for leaf in leaves if not leaf.is_deleted()]
        return sorted(there, key=lambda leaf: leaf.size)[:_KEPT]


def patch_step_annotation(on_step: Callable[[], None]) -> Patch:
    """Take the end of a jax.profiler.StepTraceAnnotation for the end of a step."""
    from jax.profiler import StepTraceAnnotation

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def __exit__(annotation: Any, *error: Any) -> Any:
            result = original(annotation, *error)
            on_step()
            return result

        return __exit__

    return Patch(StepTraceAnnotation, "__exit__", make)
