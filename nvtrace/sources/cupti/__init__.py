"""GPU work of this process, taken from CUPTI while it runs."""

from __future__ import annotations

from nvtrace.sources.cupti.activity import Activity, CallDomain
from nvtrace.sources.cupti.collector import Collector
from nvtrace.sources.cupti.diagnosis import Diagnosis, diagnose

__all__ = ["Activity", "CallDomain", "Collector", "Diagnosis", "diagnose"]
