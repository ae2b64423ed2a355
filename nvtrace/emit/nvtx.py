"""The NVTX emitter, over the low level of the nvtx package.

From 0.2.12 on, ``nvtx.get_domain`` asks the tool whether it wants the domain, and hands out a dummy
on a no. Nsight Systems up to 2023.4 at least says no and would record all the same, so the ranges
vanish. Here the domain is made without the question; NVTX itself costs next to nothing when no tool
is there.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from typing import Any

from nvtx._lib.lib import (
    Domain,
    DomainHandle,
    RegisteredString,
    end_range,
    mark,
    pop_range,
    push_range,
    start_range,
)

from nvtrace.emit import Calls, Label, logger

_CACHED_STRINGS = 1024
_MANY_NAMES = 10_000


class _Domain(Domain):  # type: ignore[misc]
    """An nvtx domain that exists whatever the tool says, and keeps no unbounded caches."""

    def __new__(cls, name: str) -> _Domain:
        domain: _Domain = object.__new__(cls)
        if "__new__" in vars(Domain):  # it asks the tool, then does this; 0.2.11 has it in __init__
            domain.handle = DomainHandle(name)
        return domain

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.get_registered_string = functools.lru_cache(_CACHED_STRINGS)(
            functools.partial(RegisteredString, self.handle)
        )

    get_event_attributes = inspect.unwrap(Domain.get_event_attributes)


class NvtxEmitter:
    """Sends ranges to whatever NVTX tool is attached."""

    def __init__(self) -> None:
        self._domains: dict[str, _Domain] = {}
        self._names: set[str] = set()
        self._renew_lock()
        os.register_at_fork(after_in_child=self._renew_lock)

    def bind(self, label: Label) -> Calls:
        """The five calls, with the label in the form NVTX wants."""
        with self._lock:  # nvtx numbers the categories of a domain without one
            domain = self._domains.get(label.domain)
            if domain is None:
                domain = self._domains[label.domain] = _Domain(label.domain)
            attributes = domain.get_event_attributes(
                label.name, label.color, label.category, label.payload
            )
            self._count(label.name)
        handle = domain.handle
        return Calls(
            functools.partial(push_range, attributes, handle),
            functools.partial(pop_range, handle),
            functools.partial(start_range, attributes, handle),
            _end,
            functools.partial(mark, attributes, handle),
        )

    def _count(self, name: str) -> None:
        """Say once that names vary, as a tool keeps each registered name to the end."""
        if len(self._names) < _MANY_NAMES:
            self._names.add(name)
            if len(self._names) == _MANY_NAMES:
                logger.warning(
                    "%d different range names so far, such as %r: put what varies into payload=, "
                    "for a profiler keeps every name in memory",
                    _MANY_NAMES,
                    name,
                )

    def _renew_lock(self) -> None:
        # Reentrant, as a signal handler or finalizer may open a range in the middle.
        self._lock = threading.RLock()


def _end(handle: Any) -> None:
    if isinstance(handle, tuple):
        end_range(*handle)
    else:  # nvtx 0.2.11 has an object for it
        end_range(handle)


emitter = NvtxEmitter()
