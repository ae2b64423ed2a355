"""The ranges of a window's steps: beside the nest of ranges, for users' ranges may cross them."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from threading import get_native_id
from typing import Any

from nvtrace.emit import Emitter, Label
from nvtrace.emit.null import NullEmitter
from nvtrace.emit.recording import Recording
from nvtrace.phases import STEP

STEP_NAME = "ProfileStep"


class StepRanges:
    """Keeps when the steps of one window began, and tells a tool that listens.

    Each begins where the one before ends, and its number is the next: so a time is all that is kept
    of it as the program runs. It is kept whatever the budget for ranges says.

    Attributes:
        times: Unix ns: where the first step begins, and where each ends.
        onward: where the ranges go as well, None for nowhere.
    """

    def __init__(self) -> None:
        self._first = 0
        self._thread = 0
        self.times = array("q")
        self._label = Label(STEP_NAME, category=STEP, payload=0)
        self.onward: Emitter | None = None
        self._end_onward: Callable[[], object] | None = None

    def forward(self, emitter: Emitter | None) -> None:
        """Let steps that begin from now on go to another emitter as well."""
        self.onward = None if isinstance(emitter, NullEmitter) else emitter

    def begin(self, number: int, at_ns: int) -> None:
        """Open the range of a step.

        Args:
            number: of the step: the next, if it is not the first.
            at_ns: Unix time; where the one before ended, if it is not the first.
        """
        if not self.times:
            self._first, self._thread = number, get_native_id()
            self.times.append(at_ns)
        if self.onward is not None:
            self._begin_onward(self.onward, number)

    def end(self, at_ns: int) -> None:
        """Close the range that is open, if one is, at a Unix time.

        The first may have ended before it was known to, and to be recorded: then it was not.
        """
        times = self.times
        if times:
            if len(times) == 1 and at_ns < times[0]:
                self._first += 1
                times[0] = at_ns
            else:
                times.append(at_ns)
            if self._end_onward is not None:
                self._leave()

    def add_to(self, recording: Recording) -> None:
        """Put the ranges of what ended into what else was recorded; what is open never ended."""
        self._leave()
        said, label = self._label, len(recording.labels)
        for place, start in enumerate(self.times[:-1]):
            number, end = self._first + place, max(start, self.times[place + 1])
            recording.labels.append(
                (said.name, said.domain, said.category, said.color, number, int)
            )
            recording.beside.extend((0, label + place, start, self._thread, end, self._thread))

    def _begin_onward(self, emitter: Emitter, number: int) -> None:
        calls = emitter.bind(self._label.with_payload(number))
        handle = calls.start()
        if _heard(handle):
            self._end_onward = lambda: calls.end(handle)
        else:
            self.onward = None

    def _leave(self) -> None:
        end, self._end_onward = self._end_onward, None
        if end is not None:
            end()


def _heard(handle: Any) -> bool:
    """Whether somebody took the range of a handle.

    Without a tool NVTX gives every range the number 0, and a tool is there from the first or never.
    """
    return not (isinstance(handle, tuple) and handle[0] == 0)
