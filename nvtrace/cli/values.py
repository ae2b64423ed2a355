"""How option values are written: steps, times, rules, lists of names."""

from __future__ import annotations

import re
from collections.abc import Callable

import click

Bounds = tuple[int | None, int | None]

KINDS = (
    "user",
    "step",
    "dataloader",
    "forward",
    "backward",
    "optimization",
    "communication",
    "operator",
    "operator_inner",
    "module",
    "dispatch",
    "compile",
    "h2d",
    "d2h",
    "sync",
)
_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


def steps(text: str) -> Bounds:
    """Read ``3:14`` (the steps 3 to 13), ``3:``, ``:14`` or ``3``."""
    first, separator, stop = text.partition(":")
    try:
        if not separator:
            return int(first), int(first) + 1
        return _ordered(text, (int(first) if first else None, int(stop) if stop else None))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not FIRST:STOP, as in 3:14 for 3 to 13") from None


def window(text: str) -> Bounds:
    """Read ``1.5s:2s``, ``200ms:`` or ``:3000`` as nanoseconds."""
    begin, separator, end = text.partition(":")
    if not separator:
        raise click.BadParameter(f"{text!r} is not FROM:TO, as in 1.5s:2s or 200ms:")
    bounds = nanoseconds(begin) if begin else None, nanoseconds(end) if end else None
    return _ordered(text, bounds)


def nanoseconds(text: str) -> int:
    """Read ``1.5s``, ``200ms``, ``10us``, ``7ns`` or ``7``; exact to the last digit."""
    from decimal import Decimal, InvalidOperation  # here: few commands are given a time

    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    try:
        return int(Decimal(text.removesuffix(unit)) * _UNITS[unit or "ns"])
    except (InvalidOperation, ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is no time, as in 1.5s, 200ms, 10us, 7ns") from None


def duration(text: str) -> int:
    """Read a time that is not negative, as nanoseconds."""
    value = nanoseconds(text)
    if value < 0:
        raise click.BadParameter(f"{text!r} is negative")
    return value


def rule(text: str) -> str:
    """Check ``PATTERN=KIND``, PATTERN being a regular expression."""
    pattern, _, kind = text.rpartition("=")
    if not pattern:
        raise click.BadParameter(f"{text!r} is not PATTERN=KIND, as in '^my_ops=operator'")
    if kind not in KINDS:
        raise click.BadParameter(f"{kind!r} is no kind of range: choose {', '.join(KINDS)}")
    try:
        re.compile(pattern)
    except re.error as error:
        raise click.BadParameter(f"{pattern!r} is no regular expression: {error}") from None
    return text


def names_of(choices: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    """Return a reader of comma-separated names out of ``choices``."""

    def names(text: str) -> tuple[str, ...]:
        found = tuple(name.strip().replace("-", "_") for name in text.split(","))
        for name in found:
            if name not in choices:
                raise click.BadParameter(f"{name!r} is none of {', '.join(choices)}")
        return found

    return names


def flatten(
    ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, ...], ...]
) -> tuple[str, ...]:
    """Join what a repeated option of comma-separated names was given, each name once."""
    return tuple(dict.fromkeys(name for names in value for name in names))


def _ordered(text: str, bounds: Bounds) -> Bounds:
    first, last = bounds
    if first is None and last is None:
        raise click.BadParameter(f"{text!r} has no bound; leave the option out for everything")
    if first is not None and last is not None and first >= last:
        raise click.BadParameter(f"{text!r} is empty: the first must come before the last")
    return bounds
