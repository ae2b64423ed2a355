"""Counts the steps that a program marks, so that a Profiler it does not know follows them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from nvtrace.emit import Calls, Emitter, Label
from nvtrace.phases import STEP
from nvtrace.step_ranges import STEP_NAME


class StepWatch:
    """An emitter that passes everything on, and tells when a step of the main thread has ended.

    Args:
        onward: where ranges go.
        ended: called when the outermost step that was open has ended.

    Attributes:
        seen: a step of the main thread was opened.
    """

    def __init__(self, onward: Emitter, ended: Callable[[], object]) -> None:
        self._onward = onward
        self._ended = ended
        self._thread = threading.get_ident()
        self._open = 0
        self.seen = False

    def bind(self, label: Label) -> Calls:
        """The five calls for ``label``; those of a step are counted."""
        calls = self._onward.bind(label)
        if label.category != STEP or label.name == STEP_NAME:
            return calls
        return Calls(
            lambda: self._opened(calls.push),
            lambda: self._closed(calls.pop),
            lambda: self._opened(calls.start),
            lambda handle: self._closed(calls.end, handle),
            calls.mark,
        )

    def _opened(self, call: Callable[[], Any]) -> Any:
        if threading.get_ident() == self._thread:
            self._open += 1
            self.seen = True
        return call()

    def _closed(self, call: Callable[..., object], *handle: Any) -> None:
        call(*handle)
        if threading.get_ident() == self._thread and self._open:
            self._open -= 1
            if not self._open:
                self._ended()
