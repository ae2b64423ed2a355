"""Operators: from Kineto, torch's own tracer, in the process; from emit_nvtx for another tool.

Kineto is started and stopped by the calls beneath torch.profiler, and its events are read once into
columns. torch.profiler would make a Python object of each event, at 50 to 100 us and 3 KiB apiece.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nvtrace.emit import logger
from nvtrace.instrumentation import AdapterOptions
from nvtrace.model.harvest import Harvest
from nvtrace.model.trace import Note

from .events import harvest

NOT_RECORDED = "operators_not_recorded"


class Kineto:
    """torch's own tracer, its CPU side: GPU work is nvtrace's to collect.

    Args:
        options: what to record.
    """

    def __init__(self, options: AdapterOptions) -> None:
        self._options = options
        self._running = False
        self._note: Note | None = None

    def begin(self) -> None:
        """Start recording operators, unless another profiler of torch does.

        Of all threads; with memory, of the calling thread and those that autograd starts for it.
        """
        from torch.autograd import _enable_profiler, _prepare_profiler, _profiler_enabled
        from torch.profiler import ProfilerActivity

        if _profiler_enabled():
            self._note = Note(
                NOT_RECORDED,
                "operators were not recorded: another profiler of torch was running, and there "
                "is one at a time",
            )
            return
        config, activities = self._config(), {ProfilerActivity.CPU}
        with _quiet():
            _prepare_profiler(config, activities)
            _enable_profiler(config, activities)
        self._running = True

    def end(self) -> Harvest:
        """Stop, and return what was recorded."""
        from torch.autograd import _disable_profiler

        if not self._running:
            return Harvest(notes=() if self._note is None else (self._note,))
        self._running = False
        result = _disable_profiler()
        return harvest(result.events(), self._options, result.experimental_event_tree)

    def _config(self) -> Any:
        from torch._C._profiler import _ExperimentalConfig
        from torch.autograd import ProfilerConfig, ProfilerState

        options = self._options
        return ProfilerConfig(
            ProfilerState.KINETO,
            options.record_shapes,
            options.profile_memory,
            False,  # stacks of Python
            options.with_flops,
            False,  # modules of TorchScript
            # of memory torch says nothing where it records all threads
            _ExperimentalConfig(profile_all_threads=not options.profile_memory),
            "",
        )


class EmitNvtx:
    """torch's own NVTX ranges around operators, which builds for CUDA alone can emit.

    Args:
        record_shapes: put the shapes of inputs into the names.
    """

    def __init__(self, record_shapes: bool) -> None:
        self._record_shapes = record_shapes
        self._context: Any = None

    def begin(self) -> None:
        """Start, or say why not; waits for the GPU."""
        import torch

        if torch.version.cuda is None:
            logger.warning(
                "operators are not marked: this build of torch has no CUDA, and so no emit_nvtx; "
                "phases and modules are, and nvtrace.Profiler records operators"
            )
        elif torch.autograd._profiler_enabled():
            logger.warning("operators are not marked: another profiler of torch is running")
        else:
            self._context = torch.autograd.profiler.emit_nvtx(record_shapes=self._record_shapes)
            self._context.__enter__()

    def end(self) -> Harvest:
        """Stop; waits for the GPU. There is nothing to bring home: the tool has it."""
        context, self._context = self._context, None
        if context is not None:
            context.__exit__(None, None, None)
        return Harvest()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Kineto from writing two lines to standard error; it reads this as it first starts."""
    name = "KINETO_LOG_LEVEL"
    before = os.environ.get(name)
    os.environ.setdefault(name, "99")
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
