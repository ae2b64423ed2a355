"""``nvtrace compare``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nvtrace.cli import options, values
from nvtrace.cli.output import check, emit
from nvtrace.cli.progress import Progress
from nvtrace.cli.reading import files_of
from nvtrace.errors import NvtraceError

if TYPE_CHECKING:
    from nvtrace.report import Report

VIEWS = ("steps", "phases", "device", "kernel", "memory", "operator", "user_defined")
FOUND = 3


@click.command("compare")
@click.argument("before", metavar="BEFORE")
@click.argument("after", nargs=-1, required=True, metavar="AFTER...")
@click.option(
    "--view",
    "views",
    type=values.names_of(VIEWS),
    multiple=True,
    callback=values.flatten,
    metavar="NAME",
    help=f"Only these tables; repeatable, or separated by commas: {', '.join(VIEWS)}.",
)
@click.option(
    "--whole", is_flag=True, help="Compare sums over whole runs, also where there are steps."
)
@click.option(
    "--fail-above",
    type=click.FloatRange(min=0),
    metavar="PERCENT",
    help="Exit with 3 where a run's steps take longer than before by more than this, and by more "
    "than their spread explains.",
)
@options.selection_options
@options.output_options
@options.progress_option
def command(
    before: str,
    after: tuple[str, ...],
    views: tuple[str, ...],
    whole: bool,
    fail_above: float | None,
    selection: options.Selection,
    output: options.Output,
    no_progress: bool,
) -> int:
    """Tell what a change did: each run AFTER beside the one BEFORE it.

    A run is a report; or a folder or a glob of the reports of its processes.
    """
    check(output)
    wanted = views or VIEWS
    asked = wanted if fail_above is None or "steps" in wanted else ("steps", *wanted)
    with Progress(not no_progress) as progress, files_of((before, *after)) as runs:
        from nvtrace.comparing import compare

        report = compare(
            *runs,
            views=asked,
            whole=whole,
            progress=progress,
            **selection._asdict(),
        )
    emit(report, output)
    return 0 if fail_above is None else _judged(report, len(after), fail_above)


def _judged(report: Report, runs: int, most: float) -> int:
    """Return the exit status: FOUND where a run is slower by more than ``most`` per cent.

    Raises:
        NvtraceError: a run has no steps, or too few to tell; silence would pass for success.
    """
    rows = [row for row in report["steps"] if row["change"] is not None]
    unsure = [row["run"] for row in rows if row["change_low"] is None]
    if len(rows) < runs or unsure:
        raise NvtraceError(
            "--fail-above has too few steps to judge by: record at least 4 of them in each run"
        )
    slower = [row for row in rows if row["change_low"] > 0 and row["change"] > most]
    for row in slower:
        click.echo(
            f"{row['run']}: step time {row['change']:+.1f} %, more than {most:g} %", err=True
        )
    return FOUND if slower else 0
