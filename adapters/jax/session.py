"""A profiler session of JAX in memory, on the clock that traces are stamped with."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from time import time_ns
from typing import Any

from nvtrace.errors import NvtraceError

from . import xspace

_ANCHORS = 16
_ANCHOR = "nvtrace anchor"
# 2 is JAX's own default; with 1, JAX 0.6 records no operators on CPUs
_HOST_LEVEL = 2
# estimates from both ends of a session agreed within a microsecond where neither clock was set
_DRIFT_NS = 100_000
_NSYS = ("NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID")


class SessionFailed(NvtraceError):
    """No session could be opened, or what it returned cannot be used."""

    code = "session_failed"


@dataclass(frozen=True)
class Capture:
    """What a session recorded.

    Attributes:
        planes: its planes.
        offset_ns: to be added to its times to make Unix ns.
        error_ns: how far off that may be.
        line: id of the line of the thread that opened the session.
        thread: native id of that thread.
        drift_ns: by how much the clocks moved against each other while it ran.
    """

    planes: list[xspace.Plane]
    offset_ns: int
    error_ns: int
    line: int
    thread: int
    drift_ns: int

    @property
    def drifted(self) -> bool:
        """Whether a clock was set while the session ran."""
        return abs(self.drift_ns) > _DRIFT_NS


def under_nsys() -> bool:
    """Whether Nsight Systems records this process: a GPU's activity goes to one tool alone."""
    return bool(
        os.environ.get("NVTX_INJECTION64_PATH") or os.environ.get("NSYS_PROFILING_SESSION_ID")
    )


class Session:
    """Runs from creation to `stop`; on GPUs it is the one that records GPU work.

    Raises:
        SessionFailed: another session of JAX is running, or this JAX has none to offer.
    """

    def __init__(self) -> None:
        _refuse_second()
        try:
            self._session = _open()
        except Exception as error:  # whatever XLA raises: RuntimeError, or a status of its own
            raise SessionFailed(f"JAX opened no profiler session: {error}") from error
        self._thread = threading.get_native_id()
        self._brackets = _drop_anchors(0)

    def stop(self) -> Capture:
        """Stop, and return what was recorded.

        Raises:
            SessionFailed: nothing usable was.
        """
        self._brackets += _drop_anchors(_ANCHORS)
        try:
            found = self._session.stop()
        except Exception as error:
            raise SessionFailed(f"JAX's profiler session returned nothing: {error}") from error
        planes = xspace.read(found)
        seen = dict(_anchors(planes))
        if len(seen) < 2:
            raise SessionFailed("JAX's profiler session holds no host events")
        first, first_error, line = self._offset(seen, 0)
        last, last_error, _ = self._offset(seen, _ANCHORS)
        width, offset = min((first_error, first), (last_error, last))
        return Capture(planes, offset, width, line, self._thread, last - first)

    def _offset(self, seen: dict[int, tuple[int, int]], begin: int) -> tuple[int, int, int]:
        """Return offset, its greatest error and the line, by the tightest of some brackets."""
        found = []
        for number in range(begin, begin + _ANCHORS):
            if number in seen:
                before, after = self._brackets[number]
                at, line = seen[number]
                found.append(((after - before) // 2 + 1, (before + after) // 2 - at, line))
        if not found:
            raise SessionFailed("JAX's profiler session lost the events that tell its clock")
        error, offset, line = min(found)
        return offset, error, line


def _drop_anchors(first: int) -> list[tuple[int, int]]:
    """Make events whose start lies between two readings of our clock; return the readings."""
    from jax.profiler import TraceAnnotation

    brackets = []
    for number in range(first, first + _ANCHORS):
        annotation = TraceAnnotation(f"{_ANCHOR} {number}")
        before = time_ns()
        annotation.__enter__()
        after = time_ns()
        annotation.__exit__(None, None, None)
        brackets.append((before, after))
    return brackets


def _anchors(planes: list[xspace.Plane]) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield (number, (session time, line)) of each anchor."""
    for plane in planes:
        if plane.name.startswith("/host:CPU"):
            for line in plane.lines:
                for event in plane.events(line, _ANCHOR):
                    yield int(event.name.rsplit(" ", 1)[1]), (event.start_ns, line.id)


def _refuse_second() -> None:
    """Two sessions at once fail only at the end of the second, and take the first's events."""
    try:
        from jax._src.profiler import _profile_state
    except ImportError:
        return
    if _profile_state.profile_session is not None:
        raise SessionFailed(
            "another profiler session of JAX is running, and there is one at a time"
        )


def _open() -> Any:
    backend = _backend()
    options = backend.ProfileOptions()
    options.host_tracer_level = _HOST_LEVEL
    options.python_tracer_level = 0
    options.enable_hlo_proto = True
    if hasattr(options, "raise_error_on_start_failure"):
        options.raise_error_on_start_failure = True
    return backend.ProfilerSession(options)


def _backend() -> Any:
    from jax._src.lib import xla_client

    profiler: Any = getattr(xla_client, "profiler", None)
    if hasattr(profiler, "ProfilerSession"):
        return profiler
    from jax._src.lib import _profiler

    return _profiler
