"""The options that verbs share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from nvtrace.cli import values

STANDARD_VIEWS = (
    "device",
    "overview",
    "model",
    "distributed",
    "operator",
    "kernel",
    "memory",
    "user_defined",
)
EXTRA_VIEWS = ("kernels_by_range", "allocations", "host_steps", "device_phases", "hlo")
VIEWS = (*STANDARD_VIEWS, *EXTRA_VIEWS)
SORTS = (
    *(f"{side}_{figure}" for side in ("gpu", "cpu") for figure in ("total", "avg", "max", "min")),
    "calls",
    "name",
)
LAYERS = ("ranges", "calls", "device", "marks", "counters", "flows")
FORMATS = ("table", "json", "csv", "markdown", "html")
UNITS = ("auto", "s", "ms", "us", "ns")

Verb = Callable[..., Any]


class Selection(NamedTuple):
    """What part of a trace is asked about, and what its ranges are taken for: as arguments."""

    steps: values.Bounds | None
    time: values.Bounds | None
    rank: int | None
    step_range: tuple[str, ...]
    rules: tuple[str, ...]


class Output(NamedTuple):
    """Where a report goes, and in what form."""

    output: str
    force: bool
    format: str | None
    unit: str
    top: int | None


def _grouped(
    kind: type[Selection] | type[Output], name: str, options: Sequence[Callable[[Verb], Verb]]
) -> Callable[[Verb], Verb]:
    """Return a decorator that adds ``options`` and hands their values on as one ``kind``."""

    def decorate(verb: Verb) -> Verb:
        @functools.wraps(verb)
        def call(**given: Any) -> Any:
            own = {field: given.pop(field) for field in kind._fields}
            return verb(**given, **{name: kind(**own)})

        made: Verb = call
        for option in reversed(options):
            made = option(made)
        return made

    return decorate


paths_argument = click.argument("paths", nargs=-1, required=True, metavar="FILE...")

output_option = click.option(
    "-o", "--output", default="-", metavar="PATH", help="Write there; - is standard output."
)
force_option = click.option(
    "-f", "--force", is_flag=True, help="Replace the output file where it exists."
)
progress_option = click.option(
    "--no-progress", is_flag=True, help="Do not show on a terminal what is being done."
)

selection_options = _grouped(
    Selection,
    "selection",
    (
        click.option(
            "--steps",
            type=values.steps,
            metavar="FIRST:STOP",
            help="Only these steps: 3:14 is 3 to 13, 3: from 3 on, :14 to 13, 3 just that.",
        ),
        click.option(
            "--time",
            type=values.window,
            metavar="FROM:TO",
            help="Only this time since the first event, as in 1.5s:2s or 200ms: "
            "(s, ms, us, ns; a plain number is ns).",
        ),
        click.option(
            "--rank",
            type=click.IntRange(min=0),
            help="Only this rank, which the names of the files tell, as in run.rank3.sqlite.",
        ),
        click.option(
            "--step-range",
            multiple=True,
            metavar="NAME",
            help="Take the ranges of this name for the steps, * and ? as in a shell. Repeatable.",
        ),
        click.option(
            "--rule",
            "rules",
            type=values.rule,
            multiple=True,
            metavar="PATTERN=KIND",
            help="Take ranges in whose name PATTERN (a regular expression) is found for KIND. "
            f"Repeatable, the first match wins. Kinds: {', '.join(values.KINDS)}.",
        ),
    ),
)

output_options = _grouped(
    Output,
    "output",
    (
        output_option,
        force_option,
        click.option(
            "--format",
            type=click.Choice(FORMATS),
            help="Else taken from the extension of -o, else table.",
        ),
        click.option(
            "--unit",
            type=click.Choice(UNITS),
            default="auto",
            show_default=True,
            help="Of printed times; json and csv hold nanoseconds.",
        ),
        click.option(
            "--top",
            type=click.IntRange(min=0),
            help="Rows of each table, 0 for all. Else 50 in table and markdown, 1000 in html, "
            "all in json and csv.",
        ),
    ),
)

sort_option = click.option(
    "--sort",
    type=click.Choice(SORTS),
    default="gpu_total",
    show_default=True,
    help="Order of the rows.",
)
