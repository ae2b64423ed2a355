"""Framework adapters: what one is, and how they are found."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Protocol, runtime_checkable

from nvtrace import dataloaders
from nvtrace.emit import Calls, Emitter, Label, logger, switch
from nvtrace.errors import NvtraceError, UsageError
from nvtrace.model.harvest import Harvest
from nvtrace.phases import DATALOADER, PHASES, STEP

GROUP = "nvtrace.adapters"


class DidNotEnable(NvtraceError):
    """An adapter cannot work here: its framework is missing, or of a version it does not know."""

    code = "did_not_enable"


@dataclass(frozen=True)
class AdapterOptions:
    """What a user asked of the adapters.

    Attributes:
        record_shapes: record the shapes of operators' inputs.
        profile_memory: record the memory that operators allocate.
        with_flops: record FLOPs of operators.
        modules: mark each module or layer.
        operators: record operators, where the framework has a tracer of them.
        in_process: this process records ranges itself; False when they go to a tool only.
        device_collected: nvtrace collects GPU work itself, so the framework's tracer must not.
    """

    record_shapes: bool = False
    profile_memory: bool = False
    with_flops: bool = False
    modules: bool = False
    operators: bool = True
    in_process: bool = True
    device_collected: bool = False


class Adapter(Protocol):
    """Makes a framework tell its waits for data, its steps, phases and operators.

    The order of calls is ``watch``, then for each window ``install``, ``begin``, ``end``,
    ``uninstall`` (``begin`` and ``end`` are left out of a window that never records), and at last
    ``unwatch``. Each pair restores exactly what it changed.

    Attributes:
        framework: the top-level module it adapts, such as ``"torch"``.
    """

    framework: str

    def watch(self, on_wait: Callable[[int], None], on_step: Callable[[], None]) -> None:
        """Put light hooks in place for a whole run.

        Args:
            on_wait: to be called with the ns of each wait for the framework's loader.
            on_step: to be called where a step ends, as far as the framework knows.

        Raises:
            DidNotEnable: the framework is missing or unknown.
        """

    def unwatch(self) -> None:
        """Undo ``watch``."""

    def install(self, options: AdapterOptions) -> None:
        """Put marks of phases in place, through nvtrace.phase and nvtrace.range."""

    def begin(self) -> None:
        """Start the framework's own tracer of operators, where there is one."""

    def end(self) -> Harvest:
        """Stop it, and return what it recorded."""

    def uninstall(self) -> None:
        """Undo ``install``."""


@runtime_checkable
class Asynchronous(Protocol):
    """What an adapter has as well where its framework returns before the device is done."""

    @property
    def rule(self) -> str:
        """What batch_cost rests on, in one line."""

    def settle(self, *, whole: bool) -> int:
        """Wait at the end of a step, so that its time is the device's too.

        Args:
            whole: wait for the step's own results, not for those of the one before.

        Returns:
            How long the device went on after the last step's end, ns, where none has begun since.
        """

    def compiled(self) -> list[str]:
        """Return what was compiled since the last call: a step that compiled is no sample."""


def available() -> dict[str, metadata.EntryPoint]:
    """Return the adapters that installed packages offer, by name."""
    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


def adapters(names: str | Iterable[str] | None) -> list[Adapter]:
    """Return the adapters to use.

    Args:
        names: ``"auto"`` for those of the frameworks this process has imported; None for none; or
            names, one missing being an error.

    Raises:
        UsageError: a name that no adapter has.
    """
    if names is None:
        return []
    offered = available()
    if names == "auto":
        wanted: Sequence[str] = [name for name in sorted(offered) if name in sys.modules]
    else:
        wanted = [names] if isinstance(names, str) else list(names)
    unknown = [name for name in wanted if name not in offered]
    if unknown:
        known = ", ".join(sorted(offered)) or "none"
        raise UsageError(f"no adapter named {unknown[0]!r}: there are {known}")
    return [offered[name].load()() for name in wanted]


def instrument(
    *names: str,
    modules: bool = False,
    operators: bool = True,
    record_shapes: bool = False,
    steps: bool = True,
) -> Instrumentation:
    """Let frameworks mark their phases for a tool such as Nsight Systems, without a Profiler.

    From the call on, until ``close()`` or the end of the ``with`` block. A step begins with its
    first phase and ends where the framework's does (with torch: the first optimizer's step), unless
    the program marks steps with `nvtrace.step`, which then alone count.

    Args:
        names: of adapters, ``"torch"`` for instance; by default of the frameworks imported so far.
        modules: mark each module or layer.
        operators: mark operators, where the framework can.
        record_shapes: put the shapes of operators' inputs into their names.
        steps: mark steps.

    Raises:
        UsageError: there is no adapter of that name.
        DidNotEnable: an adapter's framework is missing or unknown.
    """
    options = AdapterOptions(
        record_shapes=record_shapes, modules=modules, operators=operators, in_process=False
    )
    return Instrumentation(adapters(names or "auto"), options, steps)


class Instrumentation:
    """Adapters at work, until ``close()``: made by `instrument`."""

    def __init__(self, chosen: Sequence[Adapter], options: AdapterOptions, steps: bool) -> None:
        self._steps = _Steps(steps)
        self._open: list[tuple[Adapter, bool]] = []
        switch.load()
        self._steps.inner = self._before = switch.use(self._steps)
        _forget_in_children(self)
        atexit.register(self.close)
        try:
            for adapter in chosen:
                self._start(adapter, options)
        except BaseException:
            self.close()
            raise

    def _start(self, adapter: Adapter, options: AdapterOptions) -> None:
        self._open.append((adapter, False))
        adapter.watch(dataloaders.report_wait, self._steps.ended)
        adapter.install(options)
        adapter.begin()
        self._open[-1] = adapter, True

    def close(self) -> None:
        """Take out what was put in. A second time does nothing."""
        self._close(say=True)

    def _close(self, *, say: bool) -> None:
        atexit.unregister(self.close)
        self._steps.stop()
        while self._open:
            adapter, begun = self._open.pop()
            notes = adapter.end().notes if begun and say else ()
            adapter.uninstall()
            adapter.unwatch()
            for note in notes:
                logger.warning("%s", note.message)
        if switch.emitter is self._steps:
            switch.use(self._before)

    def forsake(self) -> None:
        """Take the marks out of a forked child: the parent goes on alone."""
        self._close(say=False)

    def __enter__(self) -> Instrumentation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Steps:
    """Marks steps on the way to another emitter, as long as nobody else marks any.

    Args:
        wanted: mark steps at all.
    """

    def __init__(self, wanted: bool) -> None:
        self.inner: Emitter = switch.emitter
        self._wanted = wanted
        self._number = 0
        self._end: Callable[[], object] | None = None

    def bind(self, label: Label) -> Calls:
        """The calls of the other emitter; a phase opens a step where none is open."""
        calls = self.inner.bind(label)
        if label.category == STEP:
            self.stop()
        elif label.category in PHASES and self._wanted:
            return calls._replace(push=self._opening(calls.push, label.category))
        return calls

    def ended(self) -> None:
        """End the step that is open."""
        end, self._end = self._end, None
        if end is not None:
            end()

    def stop(self) -> None:
        """End the step that is open, and mark no more."""
        self._wanted = False
        self.ended()

    def _opening(self, push: Callable[[], object], kind: str) -> Callable[[], object]:
        def opening() -> None:
            # a program that marks its steps often does so after it has waited for the first batch
            waits_for_first = kind == DATALOADER and not self._number
            if self._end is None and self._wanted and not waits_for_first:
                self._end = self._step()
            push()

        return opening

    def _step(self) -> Callable[[], object]:
        label = Label(STEP, category=STEP, payload=self._number)
        self._number += 1
        calls = self.inner.bind(label)
        handle: Any = calls.start()
        return lambda: calls.end(handle)


_instrumented: weakref.WeakSet[Instrumentation] = weakref.WeakSet()


def _forget_in_children(one: Instrumentation) -> None:
    if not _instrumented:
        os.register_at_fork(after_in_child=_forsake_all)
    _instrumented.add(one)


def _forsake_all() -> None:
    for one in list(_instrumented):
        one.forsake()
