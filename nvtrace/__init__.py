"""nvtrace: where each training step's time went, on the CPU and on the GPU.

Mark code with ``range``, ``step`` and ``phase``; run it under Nsight Systems; ``load`` the report.
Names are imported when first used, so that ``import nvtrace`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nvtrace.choices import ProfilerTarget, SortedKeys, SummaryView
    from nvtrace.comparing import compare
    from nvtrace.dataloaders import dataloader
    from nvtrace.errors import (
        CorruptReport,
        MissingDependency,
        NotAReport,
        NvtraceError,
        OutputError,
        SourceError,
        ToolNotFound,
        UsageError,
    )
    from nvtrace.exporting import (
        export_chrome_tracing,
        export_nsys,
        export_protobuf,
        load_profiler_result,
    )
    from nvtrace.instrumentation import instrument
    from nvtrace.lifecycle import in_profiler_mode
    from nvtrace.loading import load
    from nvtrace.phases import RecordEvent, phase, step
    from nvtrace.profiler import Profiler
    from nvtrace.ranges import disable, enable, enabled, mark, range
    from nvtrace.report import Report
    from nvtrace.schedules import ProfilerState, make_scheduler
    from nvtrace.summing import summarize
    from nvtrace.trace import Trace

__all__ = [  # noqa: RUF022 (sorted without regard to case, as a reader looks for a name)
    "compare",
    "CorruptReport",
    "dataloader",
    "disable",
    "enable",
    "enabled",
    "export_chrome_tracing",
    "export_nsys",
    "export_protobuf",
    "in_profiler_mode",
    "instrument",
    "load",
    "load_profiler_result",
    "make_scheduler",
    "mark",
    "MissingDependency",
    "NotAReport",
    "NvtraceError",
    "OutputError",
    "phase",
    "Profiler",
    "ProfilerState",
    "ProfilerTarget",
    "range",
    "RecordEvent",
    "Report",
    "SortedKeys",
    "SourceError",
    "step",
    "summarize",
    "SummaryView",
    "ToolNotFound",
    "Trace",
    "UsageError",
]

__version__ = "0.1.0"

_HOMES = {
    **dict.fromkeys(
        (
            "CorruptReport",
            "MissingDependency",
            "NotAReport",
            "NvtraceError",
            "OutputError",
            "SourceError",
            "ToolNotFound",
            "UsageError",
        ),
        "nvtrace.errors",
    ),
    **dict.fromkeys(("ProfilerTarget", "SortedKeys", "SummaryView"), "nvtrace.choices"),
    "compare": "nvtrace.comparing",
    "dataloader": "nvtrace.dataloaders",
    **dict.fromkeys(
        ("export_chrome_tracing", "export_nsys", "export_protobuf", "load_profiler_result"),
        "nvtrace.exporting",
    ),
    "in_profiler_mode": "nvtrace.lifecycle",
    "instrument": "nvtrace.instrumentation",
    "load": "nvtrace.loading",
    "Profiler": "nvtrace.profiler",
    **dict.fromkeys(("ProfilerState", "make_scheduler"), "nvtrace.schedules"),
    **dict.fromkeys(("RecordEvent", "phase", "step"), "nvtrace.phases"),
    **dict.fromkeys(("disable", "enable", "enabled", "mark", "range"), "nvtrace.ranges"),
    "Report": "nvtrace.report",
    "summarize": "nvtrace.summing",
    "Trace": "nvtrace.trace",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'nvtrace' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
