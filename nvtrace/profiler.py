"""Profiler: records a window of steps in this process, and measures throughput beside it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from time import time_ns
from types import TracebackType

from nvtrace import dataloaders, lifecycle
from nvtrace.benchmark import Benchmark, BenchmarkSummary
from nvtrace.boundaries import Boundaries
from nvtrace.choices import (
    ProfilerTarget,
    SortedKeys,
    SummaryView,
    own_name,
    own_targets,
    view_names,
)
from nvtrace.cycles import Cycles
from nvtrace.emit import logger
from nvtrace.errors import UsageError
from nvtrace.instrumentation import Adapter, AdapterOptions, Asynchronous
from nvtrace.instrumentation import adapters as find_adapters
from nvtrace.model.trace import Note
from nvtrace.schedules import Scheduler, always, as_scheduler
from nvtrace.settling import asynchronous, settle, settle_last
from nvtrace.trace import Trace
from nvtrace.window import Window

_TIMER_ONLY = "timer_only=True measures throughput and records no trace"

_STEPS_BY_ADAPTER = Note(
    "steps_by_adapter",
    "the program calls no step(): a step ends where the first optimizer's step does",
)

Handler = Callable[["Profiler"], object]


class Profiler:
    """Records ranges, and GPU work where there is a GPU, for the steps of a schedule.

    ``start()``, then ``step()`` after each step, then ``stop()``; or as a context manager. Outside
    the recorded steps nothing is recorded and next to nothing is paid. One Profiler is active at a
    time. What comes after the last ``step()`` is recorded, but is no step.

    Args:
        targets: what to record; by default all that this machine has.
        scheduler: None for every step, ``(start, stop)``, ``make_scheduler(...)``, or a function
            from step number to ProfilerState.
        on_trace_ready: called with the Profiler when a window has been recorded, each window once.
        record_shapes: ask adapters for the shapes of operators' inputs.
        profile_memory: ask adapters for the memory of operators.
        timer_only: measure throughput only; record no trace.
        emit_nvtx: pass recorded ranges on to NVTX as well, for a tool that is attached.
        custom_device_types: taken as paddle.profiler does, and not recorded.
        with_flops: ask adapters for FLOPs of operators.
        modules: ask adapters to mark each module or layer.
        operators: ask adapters for operators; without, phases alone cost next to nothing.
        adapters: ``"auto"`` for those of the frameworks imported so far, None, or names.

    Raises:
        UsageError: an argument makes no sense.
    """

    def __init__(
        self,
        *,
        targets: Iterable[ProfilerTarget] | None = None,
        scheduler: Scheduler | Sequence[int] | None = None,
        on_trace_ready: Handler | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        timer_only: bool = False,
        emit_nvtx: bool = True,
        custom_device_types: Sequence[str] = (),
        with_flops: bool = False,
        modules: bool = False,
        operators: bool = True,
        adapters: str | Iterable[str] | None = "auto",
    ) -> None:
        self.targets = own_targets(targets)
        if custom_device_types:
            logger.warning("custom devices are not recorded: %s", ", ".join(custom_device_types))
        self.timer_only = timer_only
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_flops = with_flops
        self.modules = modules
        self.operators = operators
        if on_trace_ready is not None and not callable(on_trace_ready):
            raise UsageError(f"on_trace_ready={on_trace_ready!r}: give a function of the Profiler")
        self._schedule = as_scheduler(scheduler)
        self._on_trace_ready = on_trace_ready
        self._emit_nvtx = emit_nvtx
        self._adapter_names = adapters
        self._benchmark = Benchmark()
        self._trace: Trace | None = None
        self._cycles = self._new_cycles()
        self._adapters: list[Adapter] = []
        self._waiting: list[Asynchronous] = []
        self._boundaries = Boundaries(self._end_step)
        self._step_number = 0
        self._thread = 0
        self._forked = False
        self._started_at = ""

    @property
    def trace(self) -> Trace | None:
        """The last recorded window; None before there is one."""
        return self._trace

    @property
    def benchmark(self) -> BenchmarkSummary | None:
        """Throughput so far; None when no step has ended."""
        return self._benchmark.summary()

    @property
    def step_number(self) -> int:
        """The number of the step that is running, from 0."""
        return self._step_number

    @property
    def cycle(self) -> int:
        """The number of the last window, from 0; -1 before there is one."""
        return self._cycles.delivered - 1

    def start(self) -> None:
        """Begin step 0.

        Raises:
            UsageError: this or another Profiler is active.
        """
        lifecycle.activate(self)
        self._started_at = _caller()
        self._thread = threading.get_ident()
        self._benchmark = Benchmark()
        self._trace = None
        self._cycles = self._new_cycles()
        self._step_number = 0
        self._boundaries = Boundaries(self._end_step)
        self._forked = False
        dataloaders.listeners.append(self._waited)
        if self.timer_only and self._on_trace_ready is not None:
            logger.warning("on_trace_ready will not be called: %s", _TIMER_ONLY)
        try:
            self._adapters = find_adapters(self._adapter_names)
            for adapter in self._adapters:
                adapter.watch(dataloaders.report_wait, self._boundaries.framework)
            self._await_adapters()
            if not self.timer_only:
                self._cycles.enter(0, time_ns())
        except BaseException:
            self._deactivate()
            raise
        self._benchmark.begin()

    def step(self, num_samples: float | None = None) -> None:
        """End a step and begin the next.

        Args:
            num_samples: how much work the step did; then ips counts samples.

        Raises:
            UsageError: the Profiler is not running, or the number makes no sense.
        """
        if lifecycle.active() is not self:
            if self._forked:
                return
            raise UsageError("step() on a Profiler that is not running: call start() first")
        self._boundaries.program(num_samples)

    def trust_marks(self, marked: Callable[[], bool]) -> None:
        """Take it that the program knows nothing of this Profiler, and marks its steps if at all.

        Then a framework's end of a step counts from the first one on.

        Args:
            marked: whether the program has marked a step so far.
        """
        self._boundaries.marked = marked

    def adopt(self, adapter: Adapter) -> None:
        """Take in an adapter while running: its framework was imported only now.

        Raises:
            DidNotEnable: the framework is unknown.
        """
        adapter.watch(dataloaders.report_wait, self._boundaries.framework)
        self._adapters.append(adapter)
        self._await_adapters()
        if self._cycles.window is not None:
            self._cycles.window.adopt(adapter, self._options())

    def _settle(self) -> str:
        return settle(self._waiting, self._benchmark)

    def _end_step(
        self, perf_ns: int, unix_ns: int, left_out: str, num_samples: float | None
    ) -> None:
        self._benchmark.step(num_samples, perf_ns, left_out)
        self._step_number += 1
        if self.timer_only:
            return
        cycles = self._cycles
        if cycles.steady is not None:
            cycles.steady(unix_ns)
            return
        window = cycles.window
        try:
            cycles.enter(self._step_number, unix_ns)
        finally:
            if cycles.window is not window:  # opening and closing windows is no step's time
                self._benchmark.begin()

    def stop(self) -> Trace | None:
        """End the last step, deliver what is still to be delivered, and return the last window.

        A second stop does nothing and returns the same. With ``timer_only`` there is no trace.
        """
        if lifecycle.active() is not self:
            return self._trace
        try:
            settle_last(self._waiting, self._benchmark)
            with lifecycle.undisturbed:
                self._boundaries.make_good()
                self._cycles.end(cut_short=self._schedule is not always)
        finally:
            self._deactivate()
        if self.timer_only:
            table = self._benchmark.summary() or "no step ended: call step() after each step"
            print(table, flush=True)
        elif self._trace is None:
            logger.warning(
                "nothing was recorded: the Profiler ended at step %d%s; call step() after each "
                "step, or record earlier",
                self._step_number,
                "" if self._cycles.recorded else " and its schedule reached no RECORD step",
            )
        return self._trace

    def step_info(self, unit: str | None = None) -> str:
        """Return the averages since the last call, or since the start, and of which steps they are.

        Args:
            unit: what to call the work that ips counts.
        """
        return self._benchmark.info(unit)

    def summary(
        self,
        sorted_by: SortedKeys | str = SortedKeys.CPUTotal,
        op_detail: bool = True,
        thread_sep: bool = False,
        time_unit: str = "ms",
        views: SummaryView | str | Iterable[SummaryView | str] | None = None,
    ) -> None:
        """Print the benchmark, and the tables of the last window.

        Args:
            sorted_by: a SortedKeys, or nvtrace's name of one.
            op_detail: show inner phases and kernels of operators.
            thread_sep: show the operators of each thread apart.
            time_unit: s, ms, us, ns or auto.
            views: the tables to print, all by default.

        Raises:
            UsageError: an unknown sort key, unit or view.
        """
        if benchmark := self._benchmark.summary():
            print(benchmark)
        if self._trace is None:
            print(self._why_no_trace())
            return
        from nvtrace.sinks import render

        report = self._trace.summary(
            view_names(views),
            sorted_by=own_name(sorted_by),
            op_detail=op_detail,
            thread_sep=thread_sep,
        )
        print(render(report, "table", unit=time_unit))

    def export(self, path: str | os.PathLike[str] = "", format: str = "json") -> None:
        """Write the last window.

        Args:
            path: the file.
            format: ``json`` for the timeline (gzipped where the name ends in ``.gz``), ``sqlite``
                for a file that nvtrace and nsys read.

        Raises:
            UsageError: there is no window yet, no path, or no such format.
            OutputError: the file cannot be written.
        """
        if self._trace is None:
            raise UsageError(f"nothing to export: {self._why_no_trace()}")
        if not os.fspath(path):
            raise UsageError("export needs the path of a file")
        if format in ("json", "chrome"):
            self._trace.export(path)
        elif format in ("sqlite", "nsys"):
            self._trace.save(path, overwrite=True)
        else:
            raise UsageError(f"export format {format!r}: choose json or sqlite")

    def __enter__(self) -> Profiler:
        self.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
        else:
            lifecycle.stop_quietly(self)  # the block's own error is the one to see

    def __repr__(self) -> str:
        return f"<nvtrace.Profiler at step {self._step_number}, {self._cycles.state.name}>"

    def describe(self) -> str:
        """Return which Profiler this is, for a message to somebody who finds it active."""
        return f"the Profiler started at {self._started_at}"

    def abandon(self) -> None:
        """Forget everything, in the child of a fork: the parent has it."""
        self._forked = True
        self._cycles.drop(forked=True)
        self._let_go()

    def _waited(self, nanoseconds: int) -> None:
        if threading.get_ident() == self._thread:
            self._benchmark.read(nanoseconds)

    def _new_cycles(self) -> Cycles:
        return Cycles(self._schedule, self._open_window, self._deliver)

    def _await_adapters(self) -> None:
        self._waiting = asynchronous(self._adapters)
        self._boundaries.settle = self._settle if self._waiting else None

    def _open_window(self) -> Window:
        window = Window(self.targets, emit_nvtx=self._emit_nvtx, first=self._trace is None)
        window.arm(self._adapters, self._options())
        return window

    def _options(self) -> AdapterOptions:
        return AdapterOptions(
            record_shapes=self.record_shapes,
            profile_memory=self.profile_memory,
            with_flops=self.with_flops,
            modules=self.modules,
            operators=self.operators,
        )

    def _deliver(self, trace: Trace) -> None:
        if self._boundaries.by_framework:
            trace = replace(trace, notes=(*trace.notes, _STEPS_BY_ADAPTER))
        self._trace = trace
        if self._on_trace_ready is not None:
            self._on_trace_ready(self)

    def _deactivate(self) -> None:
        self._cycles.drop()
        self._let_go()
        lifecycle.deactivate(self)

    def _let_go(self) -> None:
        self._waiting = []
        while self._adapters:
            self._adapters.pop().unwatch()
        if self._waited in dataloaders.listeners:
            dataloaders.listeners.remove(self._waited)

    def _why_no_trace(self) -> str:
        if self.timer_only:
            return _TIMER_ONLY
        return "no window has been recorded yet"


def _caller() -> str:
    """Return file and line of the code outside nvtrace that is calling."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("nvtrace."):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
