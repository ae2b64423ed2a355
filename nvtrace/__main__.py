"""``python -m nvtrace``."""

from __future__ import annotations

from nvtrace.cli import run

if __name__ == "__main__":
    run()
