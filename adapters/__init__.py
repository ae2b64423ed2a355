"""Framework adapters, imported as ``nvtrace.adapters``; each lives in a subpackage of its own.

An adapter makes a framework tell its steps, phases, modules and operators: see
``nvtrace.instrumentation``. It is found by its entry point in the group ``nvtrace.adapters``, and
importing it imports no framework.
"""
