"""Inputs: each module turns one kind of file into a TraceData; none analyses."""
