"""Figures beside what they are held against, as rows of one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tabulate import tabulate

HEADERS = ("figure", "value", "unit", "beside", "its value", "ratio", "goal", "")


@dataclass(frozen=True)
class Goal:
    """One figure, measured in the same run as what it is held against.

    Attributes:
        figure: what was measured.
        value: in `unit`; less is better.
        unit: of both values.
        peer: the peer or the floor, "" where the goal is an absolute one.
        peer_value: None where there is no peer, or where it could not be measured.
        goal: most that `ratio` may be; without a peer, most that `value` may be.
    """

    figure: str
    value: float
    unit: str
    peer: str
    peer_value: float | None
    goal: float

    @property
    def ratio(self) -> float | None:
        """The value as a multiple of the peer's."""
        return self.value / self.peer_value if self.peer_value else None

    @property
    def held(self) -> bool | None:
        """Whether the goal was reached; None when its peer was not measured."""
        if not self.peer:
            return self.value <= self.goal
        return None if self.ratio is None else self.ratio <= self.goal


def table(goals: Sequence[Goal]) -> str:
    """Return the goals as text, with `held`, `short` or `-` (not measured) at the end of each."""
    words = {True: "held", False: "short", None: "-"}
    rows = [
        (
            goal.figure,
            _digits(goal.value),
            goal.unit,
            goal.peer,
            _digits(goal.peer_value),
            _digits(goal.ratio),
            f"<= {_digits(goal.goal)}" + (" x" if goal.peer else f" {goal.unit}"),
            words[goal.held],
        )
        for goal in goals
    ]
    align = ("left", "right", "left", "left", "right", "right", "right", "left")
    return tabulate(rows, HEADERS, disable_numparse=True, colalign=align)


def _digits(value: float | None) -> str:
    """Three digits that count, without an exponent."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
