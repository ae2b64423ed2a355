"""The exceptions a user can meet.

NvtraceError            anything nvtrace reports; its text is one line that says what to do
├── UsageError          the request makes no sense (unknown view, empty selection)
├── SourceError         an input cannot be read
│   ├── NotAReport      the file is not something nvtrace reads
│   └── CorruptReport   the file is damaged or incomplete
├── ToolNotFound        an external program (nsys) is missing or too old
├── OutputError         an output cannot be written
├── CollectorError      GPU work could not be collected
│   └── CollectorUnavailable   it cannot be collected in this process, here and now
└── MissingDependency   an optional Python package is not installed
"""

from __future__ import annotations


class NvtraceError(Exception):
    """Base of all errors that nvtrace raises for a user's input.

    Attributes:
        code: a stable word for programs (``"not_a_report"``).
        exit_status: what the command line exits with.
    """

    code = "error"
    exit_status = 1


class UsageError(NvtraceError):
    """The request itself makes no sense: an unknown view, a window outside the capture."""

    code = "usage"


class SourceError(NvtraceError):
    """An input cannot be read."""

    code = "source"


class NotAReport(SourceError):
    """The file exists but is nothing that nvtrace reads."""

    code = "not_a_report"


class CorruptReport(SourceError):
    """The file is damaged, truncated or was never completed."""

    code = "corrupt_report"


class ToolNotFound(NvtraceError):
    """An external program is missing, or too old for the job."""

    code = "tool_not_found"


class OutputError(NvtraceError):
    """An output cannot be written; nothing was left under its final name."""

    code = "output"


class CollectorError(NvtraceError):
    """GPU work could not be collected."""

    code = "collector"


class CollectorUnavailable(CollectorError):
    """GPU work cannot be collected in this process, here and now.

    Attributes:
        verdict: a stable word for programs, as ``nvtrace.sources.cupti.diagnosis`` gives them.
    """

    code = "collector_unavailable"

    def __init__(self, reason: str, verdict: str) -> None:
        super().__init__(reason)
        self.verdict = verdict


class MissingDependency(NvtraceError):
    """An optional Python package is needed for this and is not installed."""

    code = "missing_dependency"
