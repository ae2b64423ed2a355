"""Inputs: each module turns one kind of file into a TraceData; none analyses."""

from __future__ import annotations

REPORT_SUFFIXES = (".nsys-rep", ".qdrep")
STREAM_SUFFIX = ".qdstrm"
