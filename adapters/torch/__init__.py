"""PyTorch: steps, phases, modules and operators of a loop that knows nothing of nvtrace."""

from __future__ import annotations

from .adapter import TorchAdapter

__all__ = ["TorchAdapter"]
