"""Texts in columns: each padded to the widest, as a terminal shows them."""

from __future__ import annotations

from collections.abc import Sequence

HEADING_ROOM = 2
"""A column is so much wider than its heading, at least."""


def shown_width(text: str) -> int:
    """Return how many columns of a terminal ``text`` takes; wide scripts take two a character."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth  # here: it takes long to import, and few reports need it

    return wcswidth(text)


def column_widths(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width that each column needs."""
    return [
        max(shown_width(header) + HEADING_ROOM, *map(shown_width, cells))
        for header, cells in zip(headers, zip(*rows, strict=True), strict=True)
    ]


def padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Return the cells of ``row``, each with blanks behind it up to its column's width."""
    return [
        cell + " " * (width - shown_width(cell)) for cell, width in zip(row, widths, strict=True)
    ]
