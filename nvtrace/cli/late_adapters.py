"""Puts a framework's adapter in place when the program imports the framework."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from nvtrace import lifecycle
from nvtrace.emit import logger
from nvtrace.errors import NvtraceError
from nvtrace.instrumentation import adapters, available
from nvtrace.profiler import Profiler


class LateAdapters(MetaPathFinder):
    """Finds no module itself: it looks on as the frameworks that have adapters are imported.

    Args:
        profiler: takes in the adapters.
    """

    def __init__(self, profiler: Profiler) -> None:
        self._profiler = profiler
        self._awaited = set(available()) - sys.modules.keys()
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what the other finders return, to be followed by the adapter."""
        if fullname not in self._awaited:
            return None
        self._awaited.remove(fullname)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            self._awaited.add(fullname)
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def execute_and_adapt(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            self._adapt(fullname)

        loader.exec_module = execute_and_adapt
        return spec

    def _adapt(self, framework: str) -> None:
        if lifecycle.active() is not self._profiler:
            return
        try:
            for adapter in adapters(framework):
                self._profiler.adopt(adapter)
        except NvtraceError as error:
            logger.warning("%s is not adapted: %s", framework, error)
