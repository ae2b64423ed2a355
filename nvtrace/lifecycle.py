"""Which Profiler is active, and what becomes of it when the process forks or ends."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from importlib import import_module
from types import FrameType
from typing import Protocol

from nvtrace.emit import logger
from nvtrace.errors import UsageError


class Stoppable(Protocol):
    """A Profiler, as far as this module is concerned."""

    timer_only: bool

    def stop(self) -> object:
        """Deliver what was recorded."""

    def abandon(self) -> None:
        """Forget what was recorded."""

    def describe(self) -> str:
        """Say which one it is."""


class _Slot:
    """Holds the one active Profiler of this process."""

    def __init__(self) -> None:
        self.profiler: Stoppable | None = None
        self.hooked = False
        self.busy = 0
        self.terminated = False


_slot = _Slot()


def active() -> Stoppable | None:
    """Return the active Profiler, None when there is none."""
    return _slot.profiler


def in_profiler_mode() -> bool:
    """Return whether a Profiler is running that records, be it in a closed step at the moment.

    The name is paddle.profiler's.
    """
    return _slot.profiler is not None and not _slot.profiler.timer_only


def activate(profiler: Stoppable) -> None:
    """Make ``profiler`` the active one.

    Raises:
        UsageError: one is active already.
    """
    if _slot.profiler is profiler:
        raise UsageError(f"{profiler.describe()} is running: stop() it before the next start()")
    if _slot.profiler is not None:
        raise UsageError(
            f"{_slot.profiler.describe()} is running, and there is one at a time: stop() it first"
        )
    _slot.profiler = profiler
    if not _slot.hooked:
        _slot.hooked = True
        # the interpreter cannot import it while it ends, and what writes traces needs it
        import_module("concurrent.futures.thread")
        atexit.register(_at_exit)
        os.register_at_fork(after_in_child=_after_fork)
    _take_sigterm()


def deactivate(profiler: Stoppable) -> None:
    """Let go of ``profiler``."""
    if _slot.profiler is profiler:
        _slot.profiler = None
        _give_sigterm_back()


class _Undisturbed:
    """Lets SIGTERM wait while a trace is made and handed over; a second one does not wait."""

    __slots__ = ()

    def __enter__(self) -> None:
        _slot.busy += 1

    def __exit__(self, *_: object) -> None:
        _slot.busy -= 1
        if _slot.terminated and not _slot.busy:
            _slot.terminated = False
            os.kill(os.getpid(), signal.SIGTERM)


undisturbed = _Undisturbed()


def _at_exit() -> None:
    if _slot.profiler is not None:
        stop_quietly(_slot.profiler)


def _after_fork() -> None:
    profiler, _slot.profiler = _slot.profiler, None
    if profiler is not None:
        profiler.abandon()
        _give_sigterm_back()


def stop_quietly(profiler: Stoppable) -> None:
    """Deliver on the way out; what fails is said, and does not stand in the way of the end."""
    try:
        profiler.stop()
    except Exception as error:
        logger.error("the recorded trace was not delivered: %s", error)


def _take_sigterm() -> None:
    """Deliver before SIGTERM ends the process, where nobody else handles it."""
    if _in_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)


def _give_sigterm_back() -> None:
    if _in_main_thread() and signal.getsignal(signal.SIGTERM) is _on_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _on_sigterm(number: int, _: FrameType | None) -> None:
    if _slot.busy and not _slot.terminated:
        _slot.terminated = True
        return
    profiler = _slot.profiler
    if profiler is not None and not _slot.busy:
        stop_quietly(profiler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), number)
