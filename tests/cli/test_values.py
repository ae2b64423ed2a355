from __future__ import annotations

import click
import pytest

from nvtrace.cli import values
from nvtrace.cli.options import VIEWS
from nvtrace.model.schema import RangeKind


@pytest.mark.parametrize(
    ("text", "bounds"),
    [("3:14", (3, 14)), ("3:", (3, None)), (":14", (None, 14)), ("3", (3, 4)), ("0:1", (0, 1))],
)
def test_steps(text: str, bounds: values.Bounds) -> None:
    assert values.steps(text) == bounds


@pytest.mark.parametrize("text", ["", ":", "a:b", "3:3", "14:3", "1:2:3", "1.5:2"])
def test_steps_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        values.steps(text)


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("1.5s:2s", (1_500_000_000, 2_000_000_000)),
        ("200ms:", (200_000_000, None)),
        (":3000", (None, 3000)),
        ("10us:20000ns", (10_000, 20_000)),
        ("-5ms:1", (-5_000_000, 1)),
        # Floats would lose the last nanosecond of an absolute time.
        ("155.360000001s:1764489600.123456789s", (155_360_000_001, 1_764_489_600_123_456_789)),
    ],
)
def test_window(text: str, bounds: values.Bounds) -> None:
    assert values.window(text) == bounds


@pytest.mark.parametrize(
    "text", ["", ":", "5", "2s:1s", "1s:1s", "1h:2h", "x:1", "nan:1", "1s:inf"]
)
def test_window_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        values.window(text)


def test_negative_duration_refused() -> None:
    assert values.duration("10us") == 10_000
    with pytest.raises(click.BadParameter):
        values.duration("-1us")


def test_rule() -> None:
    assert values.rule("a=b=forward") == "a=b=forward"
    for text in ("forward", "=forward", "a=walk", "(=forward"):
        with pytest.raises(click.BadParameter):
            values.rule(text)


def test_names() -> None:
    read = values.names_of(VIEWS)
    assert read("kernel,user-defined") == ("kernel", "user_defined")
    with pytest.raises(click.BadParameter):
        read("kernel,")


def test_kinds_are_those_of_the_model() -> None:
    assert tuple(kind.name.lower() for kind in RangeKind) == values.KINDS
