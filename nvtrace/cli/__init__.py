"""The command line: one module a verb, and the only place that prints an error.

Nothing heavy is imported before a verb needs it, so that ``nvtrace --help`` answers at once.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import click

from nvtrace.errors import NvtraceError

VERBS = ("summary", "trace", "ranges", "info", "compare", "run", "doctor", "demo")
ENV_DEBUG = "NVTRACE_DEBUG"
_GARBAGE = 100_000  # objects between two looks for garbage; there is next to none
INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
BROKEN_PIPE = 141  # 128 + SIGPIPE


class ClosedPipe(Exception):
    """The reader of standard output went away. click would end the program on BrokenPipeError."""


class Verbs(click.Group):
    """A group whose verbs are imported when they are named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs, in the order in which one needs them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of ``cmd_name``, None where there is none."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"nvtrace.cli.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ClosedPipe from error


@click.group(
    cls=Verbs, no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="nvtrace", message="nvtrace %(version)s")
def cli() -> None:
    """Tell where each training step's time went, on the CPU and on the GPU.

    A FILE is a report of Nsight Systems: an export in SQLite or (where pyarrow is) Parquet, or a
    .nsys-rep or .qdrep where nsys is installed. Several files, a folder, a glob and - (standard
    input) work too.

    Exit status: 0 done, 1 error, 2 wrong usage, 3 something was found.
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; errors become one line on stderr."""
    color = False if os.environ.get("NO_COLOR") else None
    try:
        status = cli.main(argv, prog_name="nvtrace", standalone_mode=False, color=color)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except (BrokenPipeError, ClosedPipe):
        _drop_output()
        return BROKEN_PIPE
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Exception as error:
        if os.environ.get(ENV_DEBUG):
            import traceback

            traceback.print_exc()
        line, status = _explain(error)
        click.echo(f"nvtrace: error: {' '.join(line.split())}", err=True)
        _drop_output()
        return status


def run() -> None:
    """The console script ``nvtrace``."""
    if sys.argv[1:2] == ["run"]:
        sys.exit(main())  # output, garbage and end are those of the program that is run
    if sys.stdout is None:  # the shell closed it
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (open to the end)
    else:
        sys.stdout = _lossless(sys.stdout)
    gc.set_threshold(_GARBAGE)
    status = main()
    if sys.stderr is not None:
        sys.stderr.flush()
    os._exit(status)  # taking numpy down piece by piece lasts as long as a small summary


def _lossless(stream: TextIO) -> TextIO:
    """Return a standard output that takes any text, and loses none without an error.

    With PYTHONUNBUFFERED set, Python's own drops in silence what a full disk did not take.
    """
    buffer: Any = stream.buffer
    if isinstance(buffer, io.RawIOBase):
        buffer = io.BufferedWriter(buffer)
    return io.TextIOWrapper(buffer, stream.encoding, "backslashreplace")


def _drop_output() -> None:
    """Let go of what stdout could not take; it would fail again when the interpreter closes it."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explain(error: Exception) -> tuple[str, int]:
    """Return what to say of ``error``, and the exit status."""
    if isinstance(error, NvtraceError):
        return str(error), error.exit_status
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "nvtrace"
        return f"{error.format_message().rstrip('.')}; see `{command} --help`", error.exit_code
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}", 1
    if isinstance(error, MemoryError):
        return "out of memory; choose fewer steps or files, or a machine with more", 1
    return (
        f"{type(error).__name__}: {error}; this is a fault in nvtrace: "
        f"set {ENV_DEBUG}=1 to see where, and report it",
        1,
    )
