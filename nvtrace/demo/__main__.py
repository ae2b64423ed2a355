"""``python -m nvtrace.demo OUT``: write a synthetic report and the truth about it."""

from __future__ import annotations

import argparse
import sys

from nvtrace.demo.report import write_report
from nvtrace.errors import NvtraceError


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m nvtrace.demo", description=__doc__)
    parser.add_argument("out", metavar="OUT", help="the SQLite file to write")
    parser.add_argument("--kernels", type=_count, default=4_000, help="at least so many, as 1e6")
    parser.add_argument("--ranks", type=int, default=2, help="processes, one GPU each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--graph", action="store_true", help="CUDA graph, traced node by node")
    parser.add_argument("--graph-trace", action="store_true", help="CUDA graph, traced as a whole")
    parser.add_argument("--edge", action="store_true", help="hand-placed awkward cases")
    parser.add_argument("--unfinished", action="store_true", help="a range that never ends")
    parser.add_argument("--no-truth", dest="truth", action="store_false")
    options = vars(parser.parse_args(arguments))
    try:
        print(write_report(options.pop("out"), **options))
    except NvtraceError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    return 0


def _count(text: str) -> int:
    value = float(text)
    if not value.is_integer():
        raise ValueError(text)
    return int(value)


if __name__ == "__main__":
    raise SystemExit(main())
