"""Callbacks that drive a Profiler from a loop one does not write: HF Trainer's and Lightning's.

The classes are made when first asked for, as each derives from its framework's own.
"""

from __future__ import annotations

from typing import Any

from nvtrace.errors import MissingDependency
from nvtrace.profiler import Profiler

__all__ = ["LightningCallback", "TrainerCallback"]  # noqa: F822 (made by __getattr__)


def __getattr__(name: str) -> Any:
    makers = {"LightningCallback": _lightning, "TrainerCallback": _trainer}
    if name not in makers:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = makers[name]()
    made.__qualname__ = name
    globals()[name] = made
    return made


class _Driver:
    """Starts a Profiler, steps it and stops it, each as long as it is for this callback to do.

    Args:
        profiler: to drive; by default a new one.
        options: of the new Profiler.
    """

    def __init__(self, profiler: Profiler | None = None, **options: Any) -> None:
        super().__init__()
        self.profiler = Profiler(**options) if profiler is None else profiler
        self._running = False

    def _start(self) -> None:
        if not self._running:
            self.profiler.start()
            self._running = True

    def _step(self) -> None:
        if self._running:
            self.profiler.step()

    def _stop(self) -> None:
        if self._running:
            self._running = False
            self.profiler.stop()


def _trainer() -> type:
    try:
        import transformers
    except ImportError as error:
        raise MissingDependency("TrainerCallback needs transformers: pip install it") from error

    class TrainerCallback(_Driver, transformers.TrainerCallback):  # type: ignore[misc]
        """For ``transformers.Trainer(callbacks=[...])``: one step an optimizer step.

        Args:
            profiler: to drive; by default a new one.
            options: of the new Profiler.
        """

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            """Start the Profiler."""
            self._start()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            """End a step."""
            self._step()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            """Stop the Profiler."""
            self._stop()

    return TrainerCallback


def _lightning() -> type:
    try:
        import lightning.pytorch as pl
    except ImportError:
        try:
            import pytorch_lightning as pl
        except ImportError as error:
            raise MissingDependency("LightningCallback needs lightning: pip install it") from error

    class LightningCallback(_Driver, pl.Callback):  # type: ignore[misc]
        """For ``lightning.Trainer(callbacks=[...])``: one step an optimizer step.

        Args:
            profiler: to drive; by default a new one.
            options: of the new Profiler.
        """

        _global_step = 0

        def on_train_start(self, trainer: Any, *_: Any) -> None:
            """Start the Profiler."""
            self._global_step = trainer.global_step
            self._start()

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            """End a step where the optimizer took one: batches may be accumulated."""
            if trainer.global_step > self._global_step:
                self._global_step = trainer.global_step
                self._step()

        def on_train_end(self, *_: Any) -> None:
            """Stop the Profiler."""
            self._stop()

        def on_exception(self, *_: Any) -> None:
            """Stop the Profiler: what was recorded is delivered."""
            self._stop()

    return LightningCallback
