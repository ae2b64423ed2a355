"""Where a report goes: rendered in the format asked for, to standard output or a whole file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nvtrace.cli.options import Output
from nvtrace.errors import OutputError

if TYPE_CHECKING:
    from nvtrace.report import Report

STDOUT = "-"
EXTENSIONS = {
    ".txt": "table",
    ".json": "json",
    ".csv": "csv",
    ".md": "markdown",
    ".html": "html",
}


def check(output: Output) -> None:
    """Refuse an output that cannot be, before any work is done."""
    format_of(output)
    check_free(output.output, output.force)


def check_free(path: str, force: bool) -> None:
    """Refuse to replace a file that exists.

    Raises:
        OutputError: ``path`` is a folder, or a file and ``force`` is not given.
    """
    if path == STDOUT:
        return
    if Path(path).is_dir():
        raise OutputError(f"{path} is a folder; name a file in it")
    if Path(path).is_file() and not force:
        raise OutputError(f"{path} exists; give -f to replace it, or another name")


def format_of(output: Output) -> str:
    """Return the format asked for, or the one that the extension of the output means.

    Raises:
        click.UsageError: the extension means none.
    """
    if output.format or output.output == STDOUT:
        return output.format or "table"
    extension = Path(output.output).suffix.lower()
    if extension not in EXTENSIONS:
        known = ", ".join(EXTENSIONS)
        raise click.UsageError(
            f"the name {output.output} tells no format: give --format, or one of {known}"
        )
    return EXTENSIONS[extension]


def emit(report: Report, output: Output) -> None:
    """Write ``report`` as ``output`` says.

    Raises:
        OutputError: it cannot be written; nothing is left under the name.
    """
    from nvtrace import sinks

    text = sinks.render(
        report,
        format_of(output),
        unit=output.unit,
        top=output.top,
        width=terminal_width() if output.output == STDOUT else None,
    )
    if output.output == STDOUT:
        click.echo(text, nl=False)
    else:
        sinks.write(text, output.output)


def terminal_width() -> int | None:
    """Return the width of the terminal, None where standard output is none."""
    if not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns
