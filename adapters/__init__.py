"""Framework adapters, imported as ``nvtrace.adapters``; each lives in a subpackage of its own."""
