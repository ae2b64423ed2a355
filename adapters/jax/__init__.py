"""JAX: calls, compilations, transfers and waits on the host, operators and phases on the device."""

from __future__ import annotations

from .adapter import JaxAdapter
from .calls import jit
from .reports import device_report

__all__ = ["JaxAdapter", "device_report", "jit"]
