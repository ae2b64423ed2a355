"""TorchAdapter: puts the hooks in place, and takes them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from nvtrace.instrumentation import AdapterOptions, DidNotEnable
from nvtrace.model.harvest import Harvest
from nvtrace.model.trace import Note

from .backward import patch_backward
from .forward import ForwardMarks
from .loaders import patch_loader
from .marking import Marking, close_abandoned
from .modules import Modules
from .operators import EmitNvtx, Kineto
from .optimizers import Boundary, StepHooks, patch_beside, patch_scaler

OLDEST = (2, 4)


class _Undoable(Protocol):
    def undo(self) -> None:
        """Take out what was put in."""


class TorchAdapter:
    """Marks phases, modules and operators of PyTorch, without a change to the program."""

    framework = "torch"

    def __init__(self) -> None:
        self._watching: list[_Undoable] = []
        self._installed: list[_Undoable] = []
        self._marking = Marking()
        self._modules = False
        self._tracer: Kineto | EmitNvtx | None = None

    def watch(self, on_wait: Callable[[int], None], on_step: Callable[[], None]) -> None:
        """Measure waits for data, and find where steps end: where the first optimizer's do.

        Raises:
            DidNotEnable: torch is missing or too old.
        """
        _require_torch()
        boundary = Boundary(on_step)
        self._watching.append(patch_loader(self._marking, on_wait))
        self._watching.append(StepHooks(self._marking, boundary))
        self._watching.append(patch_scaler(self._marking, boundary))

    def unwatch(self) -> None:
        """Undo `watch`."""
        _undo(self._watching)

    def install(self, options: AdapterOptions) -> None:
        """Mark phases, and modules where asked for."""
        modules = Modules(self._marking) if options.modules else None
        self._modules = options.modules
        self._marking.begin()
        try:
            self._installed.append(ForwardMarks(modules))
            self._installed += patch_backward(self._marking)
            self._installed += patch_beside(self._marking)
        except BaseException:
            self.uninstall()
            raise
        self._marking.on = True
        self._tracer = None
        if options.operators:
            in_process = options.in_process
            self._tracer = Kineto(options) if in_process else EmitNvtx(options.record_shapes)

    def begin(self) -> None:
        """Start recording operators."""
        self._marking.begin()
        if self._tracer is not None:
            self._tracer.begin()

    def end(self) -> Harvest:
        """Stop, and return operators and what is to be said about the window."""
        harvest = Harvest() if self._tracer is None else self._tracer.end()
        return replace(
            harvest,
            notes=(*harvest.notes, *self._notes()),
            ends_of_data=tuple(self._marking.ends_of_data),
        )

    def uninstall(self) -> None:
        """Undo `install`."""
        self._marking.on = False
        close_abandoned()
        _undo(self._installed)

    def _notes(self) -> list[Note]:
        marking, notes = self._marking, []
        if marking.skipped:
            notes.append(
                Note(
                    "steps_skipped",
                    f"GradScaler skipped {marking.skipped} of {marking.steps} optimizer steps: "
                    "gradients were infinite or not a number",
                )
            )
        if 0 < marking.steps < marking.backwards:
            notes.append(
                Note(
                    "gradient_accumulation",
                    f"{marking.backwards} backward passes for {marking.steps} optimizer steps: "
                    "gradients were accumulated",
                )
            )
        if self._modules and marking.compiled:
            notes.append(
                Note(
                    "compiled_modules",
                    "modules inside what torch.compile compiled are not marked: their operations "
                    "are fused across modules",
                )
            )
        return notes


def _undo(hooks: list[_Undoable]) -> None:
    while hooks:
        hooks.pop().undo()


def _require_torch() -> None:
    try:
        import torch
    except ImportError as error:
        raise DidNotEnable(f"the adapter for torch cannot import it: {error}") from error
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise DidNotEnable(
            f"the adapter for torch needs torch {wanted} or newer: this is {torch.__version__}"
        )
