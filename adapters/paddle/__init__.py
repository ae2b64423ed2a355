"""PaddlePaddle: phases, layers, collectives and operators, without a change to the program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nvtrace.instrumentation import AdapterOptions, DidNotEnable
from nvtrace.model.harvest import Harvest

from .guard import guard_tracer
from .hooks import hook_optimizers, hook_phases, hook_waits_and_steps
from .marks import FirstOptimizer, Marks
from .operators import OperatorTracer
from .patches import Patches
from .tool import ToolOperators, attached

_OLDEST = (2, 6)


class PaddleAdapter:
    """Makes Paddle tell its waits for data, its steps, phases and operators."""

    framework = "paddle"

    def __init__(self) -> None:
        self._marks = Marks()
        self._watching = Patches()
        self._marking = Patches()
        self._first_optimizer: FirstOptimizer | None = None
        self._tracer: OperatorTracer | None = None
        self._tool: ToolOperators | None = None

    def watch(self, on_wait: Callable[[int], None], on_step: Callable[[], None]) -> None:
        """Report waits of Paddle's loaders, and the end of each step of the first optimizer.

        Raises:
            DidNotEnable: Paddle is missing, or older than 2.6.
        """
        _check_version()
        self._first_optimizer = FirstOptimizer(on_step)
        hook_waits_and_steps(self._watching, self._marks, on_wait, self._first_optimizer)

    def unwatch(self) -> None:
        """Undo ``watch``."""
        self._watching.restore()

    def install(self, options: AdapterOptions) -> None:
        """Mark phases and collectives, and layers where ``options.modules`` says so."""
        assert self._first_optimizer is not None
        self._marks.modules = options.modules
        hook_optimizers(self._watching, self._marks, self._first_optimizer)
        hook_phases(self._marking, self._marks)
        if options.in_process and options.operators:
            self._tracer = OperatorTracer(options)
        if options.operators and (attached() or not options.in_process):
            self._tool = ToolOperators()
            self._tool.install()

    def begin(self) -> None:
        """Mark from now on; record operators, in this process and for a tool that is attached."""
        if self._tracer is not None:
            self._tracer.start()
            guard_tracer(self._marking, lambda: self._tracer is not None and self._tracer.running)
        if self._tool is not None:
            self._tool.begin()
        self._marks.begin()

    def end(self) -> Harvest:
        """Stop that, and return the operators."""
        self._marks.on = False
        if self._tool is not None:
            self._tool.end()
        harvest = Harvest() if self._tracer is None else self._tracer.stop()
        return replace(harvest, ends_of_data=tuple(self._marks.ends_of_data))

    def uninstall(self) -> None:
        """Undo ``install``."""
        self._marks.on = False
        if self._tool is not None:
            self._tool.uninstall()
        self._tool = self._tracer = None
        self._marking.restore()


def _check_version() -> None:
    try:
        import paddle
    except ImportError as error:
        raise DidNotEnable(
            f"the adapter for Paddle needs paddlepaddle, which cannot be imported here: {error}"
        ) from error
    found = tuple(int(part) for part in paddle.__version__.split(".")[:2] if part.isdigit())
    if found < _OLDEST and found != (0, 0):  # 0.0.0 is what nightly builds call themselves
        raise DidNotEnable(
            f"the adapter for Paddle needs version 2.6 or newer: this is {paddle.__version__}"
        )
