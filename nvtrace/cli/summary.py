"""``nvtrace summary``."""

from __future__ import annotations

import click

from nvtrace.cli import options, values
from nvtrace.cli.output import check, emit
from nvtrace.cli.progress import Progress
from nvtrace.cli.reading import files_of


@click.command("summary")
@options.paths_argument
@click.option(
    "--view",
    "views",
    type=values.names_of(options.VIEWS),
    multiple=True,
    callback=values.flatten,
    metavar="NAME",
    help="Only these tables; repeatable, or separated by commas: "
    f"{', '.join(options.STANDARD_VIEWS)}; and {', '.join(options.EXTRA_VIEWS)}. By default the "
    "first eight, and allocations, host_steps and device_phases where an adapter recorded them.",
)
@options.sort_option
@click.option("--op-detail", is_flag=True, help="Show the inner phases of operators.")
@click.option("--thread-sep", is_flag=True, help="Show the operators of each thread apart.")
@options.selection_options
@options.output_options
@options.progress_option
def command(
    paths: tuple[str, ...],
    views: tuple[str, ...],
    sort: str,
    op_detail: bool,
    thread_sep: bool,
    selection: options.Selection,
    output: options.Output,
    no_progress: bool,
) -> None:
    """Print where the time went: the eight tables of paddle.profiler."""
    check(output)
    with Progress(not no_progress) as progress, files_of(paths) as files:
        from nvtrace.summing import summarize

        report = summarize(
            files,
            views or None,
            sorted_by=sort,
            op_detail=op_detail,
            thread_sep=thread_sep,
            progress=progress,
            **selection._asdict(),
        )
    emit(report, output)
