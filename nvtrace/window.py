"""One recorded window: arms the collectors, records, and becomes a Trace."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nvtrace.choices import ProfilerTarget
from nvtrace.clipping import clip
from nvtrace.cpu_time import CpuMeter
from nvtrace.emit import Emitter, logger, switch
from nvtrace.emit.recorder import Recorder
from nvtrace.emit.recording import Recording
from nvtrace.errors import NvtraceError
from nvtrace.instrumentation import Adapter, AdapterOptions
from nvtrace.model.harvest import Harvest
from nvtrace.model.trace import GPU_NOT_RECORDED, CpuUsage, Note
from nvtrace.step_ranges import StepRanges
from nvtrace.trace import Trace

if TYPE_CHECKING:
    from nvtrace.sources.cupti import Activity, Collector


class Window:
    """Armed in READY or at the first recorded step, recording until it is finished or abandoned.

    Attributes:
        steps: the ranges of its steps.
    """

    def __init__(
        self, targets: Collection[ProfilerTarget] | None, *, emit_nvtx: bool, first: bool
    ) -> None:
        self._targets = targets
        self._first = first
        self._emit_nvtx = emit_nvtx
        self._adapters: list[Adapter] = []
        self._collector: Collector | None = None
        self._recorder: Recorder | None = None
        self._before: Emitter | None = None
        self._cpu: CpuMeter | None = None
        self._notes: list[Note] = []
        self.steps = StepRanges()
        self._begun: list[Adapter] = []
        self._harvests: list[Harvest] = []

    @property
    def recording(self) -> bool:
        """Whether events are being kept."""
        return self._recorder is not None

    def arm(self, adapters: Sequence[Adapter], options: AdapterOptions) -> None:
        """Start what takes time to start, and keep nothing yet."""
        self._start_collector()
        for adapter in adapters:
            self.adopt(adapter, options)

    def adopt(self, adapter: Adapter, options: AdapterOptions) -> None:
        """Put an adapter in place, before the recording or in the middle of it."""
        adapter.install(replace(options, device_collected=self._collector is not None))
        self._adapters.append(adapter)
        if self.recording:
            adapter.begin()
            self._begun.append(adapter)

    def record(self) -> bool:
        """Keep events from now on; returns False where that was so already."""
        if self._recorder is not None:
            return False
        self._cpu = CpuMeter()
        switch.load()
        onward = switch.emitter if self._emit_nvtx else None
        self._recorder = Recorder(onward)
        self.steps.forward(onward)
        self._before = switch.use(self._recorder)
        for adapter in self._adapters:
            adapter.begin()
            self._begun.append(adapter)
        return True

    def finish(self, *, cut_short: bool) -> Trace:
        """Stop everything and return the trace.

        Args:
            cut_short: the run ended inside the window: the trace says so.
        """
        recording, activity = self._stop()
        cpu = self._cpu.usage() if self._cpu is not None else ()
        return self._trace(recording, activity, cpu, cut_short)

    def abandon(self) -> None:
        """Stop everything and keep nothing."""
        self._stop()

    def forsake(self) -> None:
        """Take the marks out of a forked child, and leave the tracers to the parent."""
        self._collector = None
        self._begun.clear()
        self._stop()

    def _trace(
        self,
        recording: Recording | None,
        activity: Activity | None,
        cpu: Sequence[CpuUsage],
        cut_short: bool,
    ) -> Trace:
        from nvtrace.capture import build

        assert recording is not None
        notes = list(self._notes)
        if cut_short:
            notes.append(
                Note("cut_short", "the run ended inside the recorded window: it is incomplete")
            )
        if recording.dropped:
            notes.append(
                Note(
                    "ranges_dropped",
                    f"{recording.dropped:,} ranges were dropped at the memory budget: figures that "
                    "need them are too small; record fewer steps",
                )
            )
        if activity is not None:
            notes += activity.notes
            activity = clip(activity, recording.start_ns, recording.end_ns)
        return build(recording, activity, self._harvests, notes=notes, cpu=cpu)

    def _stop(self) -> tuple[Recording | None, Activity | None]:
        recording = self._stop_recorder()
        activity = None
        try:
            while self._begun:
                self._harvests.append(self._begun.pop().end())
            if self._collector is not None:
                collector, self._collector = self._collector, None
                activity = collector.stop()
        except NvtraceError as error:
            self._notes.append(Note(GPU_NOT_RECORDED, str(error)))
        finally:
            while self._adapters:
                self._adapters.pop().uninstall()
        return recording, activity

    def _stop_recorder(self) -> Recording | None:
        """Close the recording first: the rest takes time, which is nobody's range."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return None
        if self._before is not None and switch.emitter is recorder:
            switch.use(self._before)
        self._before = None
        recording = recorder.take()
        self.steps.add_to(recording)
        return recording

    def _start_collector(self) -> None:
        """Collect GPU work, or say why not: ranges are recorded all the same."""
        if self._targets is not None and ProfilerTarget.GPU not in self._targets:
            self._notes.append(Note(GPU_NOT_RECORDED, "GPU work was not asked for (targets)"))
            return
        from nvtrace.sources.cupti import Collector

        collector = Collector()
        try:
            collector.start()
        except NvtraceError as error:
            message = f"GPU work was not recorded: {error}"
            self._notes.append(Note(GPU_NOT_RECORDED, message))
            if self._first:  # once is enough
                logger.warning("%s", message)
        else:
            self._collector = collector
