"""The parts of marking that exist twice: in C where that was built, and in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvtrace.emit.blocks import PythonBlock as Block
    from nvtrace.emit.nest import PythonNest as BestNest
else:
    try:
        from nvtrace.native.recorder import Block
        from nvtrace.native.recorder import Nest as BestNest
    except ImportError:
        from nvtrace.emit.blocks import PythonBlock as Block
        from nvtrace.emit.nest import PythonNest as BestNest

__all__ = ["BestNest", "Block"]
