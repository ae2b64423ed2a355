"""``nvtrace run``."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nvtrace.cli import options, script, values
from nvtrace.cli.destination import Destination
from nvtrace.cli.trace import say_written
from nvtrace.errors import NvtraceError

if TYPE_CHECKING:
    from nvtrace.cli.step_watch import StepWatch
    from nvtrace.profiler import Profiler
    from nvtrace.trace import Trace

ROWS = 16
GPU_VIEWS = ("distributed", "kernel", "memory")  # of no use without a GPU


@click.command(
    "run",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGUMENT...]")
@click.option(
    "-m", "is_module", is_flag=True, help="Run a module, as python -m does: -m NAME [ARGUMENT...]."
)
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    help="Write there: .sqlite for nvtrace and nsys, .json or .pftrace, or these with .gz, for the "
    "timeline. Else SCRIPT.HOST[.rankN].PID.sqlite in the current folder.",
)
@options.force_option
@click.option("--summary/--no-summary", default=True, help="Print the tables at the end, or not.")
@click.option(
    "--steps",
    type=values.steps,
    metavar="FIRST:STOP",
    help="Record only these steps, counted from 0 as the program marks them or its framework "
    "ends them: 3:14 is 3 to 13.",
)
@click.option(
    "--timer-only", is_flag=True, help="Measure throughput of the steps only; write no file."
)
@click.option(
    "--adapters",
    default="auto",
    show_default=True,
    metavar="NAMES",
    help="Frameworks whose operators and phases are to be marked, separated by commas; auto: those "
    "the program imports; none.",
)
@click.option(
    "--nsys",
    "under_nsys",
    is_flag=True,
    help="Record under Nsight Systems, any program: --nsys -- PROGRAM [ARGUMENT...].",
)
def command(
    program: tuple[str, ...],
    is_module: bool,
    output: str | None,
    force: bool,
    summary: bool,
    steps: values.Bounds | None,
    timer_only: bool,
    adapters: str,
    under_nsys: bool,
) -> int:
    """Profile a Python program without touching it, in its own process.

    What it marks with nvtrace, what its framework tells, and its GPU work are recorded, written to
    a file and summarised on standard error. Options of this command stand before the program,
    those of the program behind it. The exit status is the program's.
    """
    if not program:
        raise click.UsageError("name a script, or -m and a module")
    if under_nsys:
        if steps is not None or timer_only or adapters != "auto":
            raise click.UsageError("--steps, --timer-only and --adapters do not go with --nsys")
        from nvtrace.cli import run_nsys

        return run_nsys.run(program, is_module, output, force, summary)
    if timer_only and (output is not None or steps is not None):
        raise click.UsageError("--timer-only records nothing: leave out -o and --steps")
    find = script.find_module if is_module else script.find_script
    found = find(program[0], program[1:])
    destination = None if timer_only else Destination(output, found.name, force)
    return _Run(found, destination, summary).run(steps, adapters)


class _Run:
    """One program, and the recording of it."""

    def __init__(
        self, program: script.Program, destination: Destination | None, summary: bool
    ) -> None:
        self._program = program
        self._destination = destination
        self._summary = summary
        self._pid = os.getpid()
        self._failed = False

    def run(self, steps: values.Bounds | None, adapters: str) -> int:
        """Run the program and return its exit status; 1 where only the recording failed."""
        from nvtrace.profiler import Profiler

        profiler = Profiler(
            scheduler=None if steps is None else _schedule(steps),
            on_trace_ready=None if self._destination is None else self._deliver,
            timer_only=self._destination is None,
            adapters=_adapter_names(adapters),
        )
        watch = _follow_steps(profiler) if steps is not None or self._destination is None else None
        profiler.start()
        if watch is not None:
            profiler.trust_marks(lambda: watch.seen)
        if adapters == "auto":
            from nvtrace.cli.late_adapters import LateAdapters

            LateAdapters(profiler)
        try:
            status = script.run(self._program)
        except KeyboardInterrupt:  # once more, while the first was dealt with
            status = script.INTERRUPTED
        if os.getpid() != self._pid:
            return status  # a fork of the program: its parent records
        with redirect_stdout(sys.stderr), _undisturbed():
            profiler.stop()
        _check_output()
        return status or int(self._failed)

    def _deliver(self, profiler: Profiler) -> None:
        """Write what was recorded. An error must not stop the program."""
        trace, destination = profiler.trace, self._destination
        assert trace is not None
        assert destination is not None
        with _undisturbed():
            try:
                _write(trace, destination, self._summary)
            except NvtraceError as error:
                self._failed = True
                click.echo(f"nvtrace: error: {error}", err=True)


def _write(trace: Trace, destination: Destination, summary: bool) -> None:
    if summary:
        print_summary(trace)
    if destination.is_timeline:
        written = trace.export(destination.own)
        say_written(destination.publish(), written)
    else:
        trace.save(destination.own)
        say_saved(destination.publish(), trace)


def print_summary(trace: Trace) -> None:
    """Print the tables on stderr: standard output is the program's."""
    from nvtrace import sinks
    from nvtrace.cli.output import terminal_width

    report = trace.summary()
    chosen = {
        view: table
        for view, table in report.tables.items()
        if trace.recorded.device or view not in GPU_VIEWS
    }
    report = replace(report, tables=chosen)
    tables = sinks.render(report, top=ROWS, width=terminal_width())
    click.echo(tables, nl=False, err=True)


def say_saved(path: Path, trace: Trace) -> None:
    """Say on stderr what the file holds and how to read it."""
    click.echo(
        f"wrote {path}: {trace.ranges.rows:,} ranges, {trace.calls.rows:,} CUDA calls, "
        f"{trace.device.rows:,} device events; nvtrace summary {path}",
        err=True,
    )


def _schedule(steps: values.Bounds) -> tuple[int, int]:
    first, stop = steps
    return first or 0, sys.maxsize if stop is None else stop


def _adapter_names(names: str) -> str | list[str] | None:
    if names == "none":
        return None
    return names if names == "auto" else [name.strip() for name in names.split(",")]


def _follow_steps(profiler: Profiler) -> StepWatch:
    from nvtrace import lifecycle
    from nvtrace.cli.step_watch import StepWatch
    from nvtrace.emit import switch

    def step() -> None:
        if lifecycle.active() is profiler:  # neither in a forked child, nor after the end
            profiler.step()

    switch.load()
    watch = StepWatch(switch.emitter, step)
    switch.use(watch)
    return watch


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Put off signals that end a process until a file is whole."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    late: set[int] = set()
    ending = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {one: signal.signal(one, lambda number, _: late.add(number)) for one in ending}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for missed in late:
            os.kill(os.getpid(), missed)


def _check_output() -> None:
    """A program may close its standard output; this command flushes it once more."""
    if sys.stdout is None or sys.stdout.closed:
        sys.stdout = io.StringIO()
