"""The environment variables that nvtrace reads."""

from __future__ import annotations

import os

NVTRACE = "NVTRACE"
"""``0``, ``off``, ``false`` or ``no`` switches marking off for the whole process."""

NVTX_DISABLE = "NVTX_DISABLE"
"""The nvtx package's own switch: set to anything, no range goes to NVTX."""

_OFF = frozenset({"0", "off", "false", "no"})


def marking_allowed() -> bool:
    """Whether the environment lets this process mark ranges."""
    return os.environ.get(NVTRACE, "").strip().lower() not in _OFF


def nvtx_allowed() -> bool:
    """Whether the environment lets ranges go to NVTX."""
    return not os.environ.get(NVTX_DISABLE)
