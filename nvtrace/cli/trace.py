"""``nvtrace trace``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nvtrace.cli import options, values
from nvtrace.cli.output import STDOUT, check_free
from nvtrace.cli.progress import Progress
from nvtrace.cli.reading import loaded

if TYPE_CHECKING:
    from nvtrace.sinks.chrome import Written

# What Perfetto takes for a slice with its arrow: 1.5 GB for 3.2 million. In a browser it has 4 GB.
BYTES_PER_SLICE = 470
MUCH_MEMORY = 1_000_000_000
VIEWER = "https://ui.perfetto.dev"


@click.command("trace")
@options.paths_argument
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="PATH",
    help="Write there: JSON, or Perfetto's own format where the name ends in .pftrace, gzipped "
    "with .gz behind; - is standard output.",
)
@options.force_option
@click.option(
    "--layers",
    type=values.names_of(options.LAYERS),
    multiple=True,
    callback=values.flatten,
    metavar="NAME",
    help=f"Only these; repeatable, or separated by commas: {', '.join(options.LAYERS)}.",
)
@click.option(
    "--min-duration",
    "minimum_ns",
    type=values.duration,
    default="0",
    metavar="TIME",
    help="Leave out what is shorter, as in 10us or 1.5ms; how many is said and stands in the file.",
)
@options.selection_options
@options.progress_option
def command(
    paths: tuple[str, ...],
    output: str,
    force: bool,
    layers: tuple[str, ...],
    minimum_ns: int,
    selection: options.Selection,
    no_progress: bool,
) -> None:
    """Write the timeline for Perfetto and chrome://tracing: none of them loses a slice."""
    check_free(output, force)
    with Progress(not no_progress) as progress, loaded(paths, progress) as trace:
        written = trace.export(
            output,
            layers=layers or options.LAYERS,
            minimum_ns=minimum_ns,
            progress=progress,
            **selection._asdict(),
        )
    say_written(output, written)


def say_written(path: str | Path, written: Written) -> None:
    """Say on stderr what the timeline at ``path`` holds, and where it opens."""
    where = "to standard output" if path == STDOUT else path
    held = f"{written.slices:,} slices, {written.flows:,} arrows, {written.bytes / 1e6:,.1f} MB"
    left_out = f" ({written.omitted:,} events left out)" if written.omitted else ""
    click.echo(f"wrote {where}: {held}{left_out}; open it at {VIEWER}", err=True)
    memory = written.slices * BYTES_PER_SLICE
    if memory > MUCH_MEMORY:
        click.echo(
            f"a viewer takes about {memory / 1e9:.1f} GB of memory for {written.slices:,} slices, "
            "and a browser ends at 4 GB: for less, choose --steps, --time, --min-duration or "
            "--layers",
            err=True,
        )
