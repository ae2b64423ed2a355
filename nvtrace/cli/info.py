"""``nvtrace info``."""

from __future__ import annotations

import click

from nvtrace.cli import options
from nvtrace.cli.output import check, emit
from nvtrace.cli.progress import Progress
from nvtrace.cli.reading import loaded


@click.command("info")
@options.paths_argument
@options.output_options
@options.progress_option
def command(paths: tuple[str, ...], output: options.Output, no_progress: bool) -> None:
    """Tell what a report holds: sources, processes, devices, domains, counts, what is missing."""
    check(output)
    with Progress(not no_progress) as progress, loaded(paths, progress) as trace:
        report = trace.info()
    emit(report, output)
