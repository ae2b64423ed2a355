"""``nvtrace demo``."""

from __future__ import annotations

from pathlib import Path

import click

from nvtrace.cli import options
from nvtrace.cli.output import terminal_width
from nvtrace.cli.progress import Progress
from nvtrace.cli.trace import say_written
from nvtrace.errors import OutputError

FOLDER = "demo-output"
REPORT = "synthetic-report.sqlite"
TIMELINE = "synthetic-timeline.json.gz"
ROWS = 16

HEAD = """\
The tables below are those of a SYNTHETIC report: made by nvtrace, recorded nowhere.
"""
NEXT = """
Now your own program. Record it and read the report:
  nsys profile -t cuda,nvtx -o report python train.py
  nvtrace summary report.nsys-rep
  nvtrace trace report.nsys-rep -o timeline.json.gz\
"""


@click.command("demo")
@click.option(
    "-o",
    "--output",
    "folder",
    default=FOLDER,
    show_default=True,
    metavar="DIR",
    help="Put the report and the timeline there, in place of those of an earlier demo.",
)
@options.progress_option
def command(folder: str, no_progress: bool) -> None:
    """Show the tables and the timeline of a made-up training run. Needs no GPU and no nsys."""
    import nvtrace
    from nvtrace import sinks
    from nvtrace.demo import write_report

    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror}") from error
    with Progress(not no_progress) as progress:
        progress("making a report")
        report = write_report(target / REPORT, truth=False)
        trace = nvtrace.load(report, progress=progress)
        tables = trace.summary()
        written = trace.export(target / TIMELINE, progress=progress)
    click.echo(HEAD)
    click.echo(sinks.render(tables, top=ROWS, width=terminal_width()), nl=False)
    click.echo(f"wrote {report}", err=True)
    say_written(target / TIMELINE, written)
    click.echo(NEXT, err=True)
