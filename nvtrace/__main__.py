"""``python -m nvtrace``."""

from nvtrace.cli import run

run()
