"""``nvtrace run --nsys``: the program under Nsight Systems, its report exported and summarised."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import click

from nvtrace.cli.destination import Destination
from nvtrace.cli.trace import say_written
from nvtrace.errors import NvtraceError, SourceError, ToolNotFound

REPORT = ".nsys-rep"
_TRACE = ("--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--export=none")


def run(
    program: Sequence[str], is_module: bool, output: str | None, force: bool, summary: bool
) -> int:
    """Record a program with nsys, and return its exit status; 1 where only the recording failed.

    Args:
        program: what to run: a module with ``is_module``, else a Python script or any program.
        is_module: run a Python module.
        output: the file to write; the report is kept beside it.
        force: replace files.
        summary: print the tables.

    Raises:
        ToolNotFound: there is no nsys.
        OutputError: the output cannot be written.
    """
    from nvtrace.sources.nsys_install import ENV_NSYS, find_all

    destination = Destination(output, program[0] if is_module else Path(program[0]).stem, force)
    found = find_all()
    if not found:
        raise ToolNotFound(
            f"there is no nsys here: install Nsight Systems, set {ENV_NSYS} to its nsys, or leave "
            "out --nsys"
        )
    with tempfile.TemporaryDirectory(prefix=".nvtrace-", dir=destination.own.parent) as folder:
        report = Path(folder, destination.own.name.removesuffix(destination.suffix) + REPORT)
        options = [*_TRACE, f"--output={str(report).replace('%', '%%')}"]
        command = [str(found[0].path), "profile", *options, *_command(program, is_module)]
        status = _wait(command)
        try:
            _deliver(report, destination, summary)
        except NvtraceError as error:
            click.echo(f"nvtrace: error: {error}", err=True)
            return status or 1
    return status


def _command(program: Sequence[str], is_module: bool) -> list[str]:
    if is_module:
        return [sys.executable, "-m", *program]
    script = Path(program[0])
    is_python = script.suffix == ".py" or (script.is_file() and not os.access(script, os.X_OK))
    return [sys.executable, *program] if is_python else list(program)


def _wait(command: Sequence[str]) -> int:
    """Run nsys to its end; it passes signals on to the program and still writes its report."""
    process = subprocess.Popen(command)

    def forward(number: int, _: FrameType | None) -> None:
        process.send_signal(number)

    def leave_to_nsys(number: int, _: FrameType | None) -> None:
        """A terminal interrupts every process in the foreground, nsys among them."""

    handlers: dict[int, Callable[[int, FrameType | None], None]] = {
        signal.SIGTERM: forward,
        signal.SIGINT: leave_to_nsys,
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        status = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 - status if status < 0 else status


def _beside(path: Path, destination: Destination) -> Path:
    return path.with_name(path.name.removesuffix(destination.suffix) + REPORT)


def _deliver(report: Path, destination: Destination, summary: bool) -> None:
    """Keep the report, and what it says, under their names."""
    import nvtrace
    from nvtrace.cli.run import print_summary, say_saved
    from nvtrace.sources import nsys_cli

    if not report.exists():
        raise SourceError("nsys wrote no report; what it said stands above")
    database = nsys_cli.export(report)
    trace = nvtrace.load(database, details=destination.is_timeline)
    if summary:
        print_summary(trace)
    if destination.is_timeline:
        written = trace.export(destination.own)
        path = destination.publish()
        say_written(path, written)
    else:
        os.replace(database, destination.own)
        path = destination.publish()
        say_saved(path, trace)
    kept = _beside(path, destination)
    if kept.exists() and not destination.force:
        kept = _beside(destination.own, destination)
    os.replace(report, kept)
    click.echo(f"wrote {kept}: the report itself", err=True)
