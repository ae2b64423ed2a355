"""``nvtrace ranges``."""

from __future__ import annotations

import click

from nvtrace.cli import options
from nvtrace.cli.output import check, emit
from nvtrace.cli.progress import Progress
from nvtrace.cli.reading import loaded


@click.command("ranges")
@options.paths_argument
@click.option("--marks", is_flag=True, help="List the marks too.")
@options.selection_options
@options.output_options
@options.progress_option
def command(
    paths: tuple[str, ...],
    marks: bool,
    selection: options.Selection,
    output: options.Output,
    no_progress: bool,
) -> None:
    """List every range: where it stands, how long it took, what the GPU did for it."""
    check(output)
    with Progress(not no_progress) as progress, loaded(paths, progress, details=False) as trace:
        report = trace.ranges_report(marks=marks, **selection._asdict())
    emit(report, output)
