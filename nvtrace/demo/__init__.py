"""A synthetic report of distributed training: for `nvtrace demo`, the tests and the benchmarks."""

from __future__ import annotations

from nvtrace.demo.report import write_report

__all__ = ["write_report"]
