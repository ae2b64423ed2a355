"""JaxAdapter: puts the hooks in place, and takes them out."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from nvtrace.emit import logger
from nvtrace.errors import NvtraceError
from nvtrace.instrumentation import AdapterOptions, DidNotEnable
from nvtrace.model.harvest import Harvest
from nvtrace.model.trace import Note

from . import programs
from .calls import patch_jit, patch_transfers
from .compiling import Compilations
from .marking import here, marking
from .session import Session, SessionFailed, under_nsys
from .steps import Results, patch_step_annotation

OLDEST = (0, 6)
NOT_RECORDED = "operators_not_recorded"


class _Undoable(Protocol):
    def undo(self) -> None:
        """Take out what was put in."""


class JaxAdapter:
    """Marks calls, compilations, transfers and waits of JAX, and records operators.

    Attributes:
        waits: a step's end waits for results, so that batch_cost holds the device's time; set it to
            False on the class to measure dispatch instead.
    """

    framework = "jax"
    waits = True

    def __init__(self) -> None:
        self._watching: list[_Undoable] = []
        self._on = False
        self._options = AdapterOptions()
        self._results: Results | None = None
        self._session: Session | None = None
        self._notes: list[Note] = []

    @property
    def rule(self) -> str:
        """What batch_cost rests on, in one line."""
        return "" if self._results is None else self._results.rule

    def watch(self, on_wait: Callable[[int], None], on_step: Callable[[], None]) -> None:
        """Wrap what jax.jit makes from now on, transfers and waits, and listen to compilations.

        Args:
            on_wait: not called: JAX has no loader; wrap yours in nvtrace.dataloader.
            on_step: called at the end of each jax.profiler.StepTraceAnnotation.

        Raises:
            DidNotEnable: jax is missing or too old.
        """
        _require_jax()
        here.result = here.unfinished = None
        marking.calls = 0
        marking.compiled.clear()
        self._results = Results(waits=self.waits)
        self._watching += [
            patch_jit(),
            *patch_transfers(),
            Compilations(),
            patch_step_annotation(on_step),
        ]
        marking.watching += 1

    def unwatch(self) -> None:
        """Undo `watch`."""
        if self._watching:
            marking.watching -= 1
            here.result = here.unfinished = None
            while self._watching:
                self._watching.pop().undo()

    def install(self, options: AdapterOptions) -> None:
        """Mark calls, transfers and waits."""
        self._options = options
        self._notes.clear()
        marking.on += 1
        self._on = True

    def begin(self) -> None:
        """Wait for the device, and open a profiler session of JAX where it is in nobody's way."""
        self.settle(whole=True)
        if not self._options.operators or not self._options.in_process:
            return
        if under_nsys():
            self._note("Nsight Systems records this process, and GPU work goes to one tool alone")
            return
        if self._options.device_collected and _on_gpu():
            self._note(
                "nvtrace collects GPU work itself, and one of the two can; "
                "targets=[ProfilerTarget.CPU] leaves it to JAX"
            )
            return
        try:
            self._session = Session()
        except SessionFailed as error:
            self._note(str(error))

    def end(self) -> Harvest:
        """Wait for the device, and return the operators recorded."""
        self.settle(whole=True)
        session, self._session = self._session, None
        harvest = Harvest()
        if session is not None:
            from .operators import harvest as decode

            try:
                harvest = decode(session.stop())
            except NvtraceError as error:
                self._note(str(error))
        if under_nsys() or programs.FOLDER in os.environ:
            self._keep_programs()
        return replace(harvest, notes=(*harvest.notes, *self._notes))

    def uninstall(self) -> None:
        """Undo `install`."""
        marking.on -= self._on
        self._on = False

    def settle(self, *, whole: bool) -> int:
        """Wait at the end of a step.

        Args:
            whole: wait for the step's own result, not for that of the one before.

        Returns:
            How long the device went on after the last step's end, ns, where none has begun since.
        """
        return 0 if self._results is None else self._results.settle(whole=whole)

    def compiled(self) -> list[str]:
        """Return the functions compiled since the last call, each once."""
        found = list(dict.fromkeys(marking.compiled))
        marking.compiled.clear()
        return found

    def _keep_programs(self) -> None:
        folder = Path(os.environ.get(programs.FOLDER) or f"nvtrace-hlo.{os.getpid()}")
        try:
            count = programs.save(folder)
        except NvtraceError as error:
            logger.warning("%s", error)
            return
        logger.info("kept %d compiled programs in %s", count, folder)

    def _note(self, why: str) -> None:
        self._notes.append(Note(NOT_RECORDED, f"operators of JAX were not recorded: {why}"))


def _on_gpu() -> bool:
    """Whether JAX runs, or is going to run, on anything but the CPU; starts no backend."""
    import jax
    from jax._src import xla_bridge

    if not xla_bridge.backends_are_initialized():
        return bool(jax.config.jax_platforms != "cpu")
    return bool(jax.default_backend() != "cpu")


def _require_jax() -> None:
    try:
        import jax
    except ImportError as error:
        raise DidNotEnable(
            f"the adapter jax needs jax, which cannot be imported: {error}"
        ) from error
    version = tuple(int(part) for part in jax.__version__.split(".")[:2])
    if version < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise DidNotEnable(
            f"the adapter jax needs jax {wanted} or newer: this is {jax.__version__}"
        )
