"""Decimal digits as machine words: four digits at a time, looked up in a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.sinks.chrome_parts import FILLER

Array = npt.NDArray[Any]
Words = npt.NDArray[np.uint32]

_GROUP = 10_000

_NUMBERS = np.arange(_GROUP)[:, None]
_ZEROS_LEAD = (_NUMBERS // (1000, 100, 10, 1) % 10 + ord("0")).astype(np.uint8)
_FILLERS_LEAD = np.where(_NUMBERS < (1000, 100, 10, 0), np.uint8(ord(FILLER)), _ZEROS_LEAD)
_POINT_LEADS = np.where([True, False, False, False], np.uint8(ord(".")), _ZEROS_LEAD[:1000])


def _words(digits: npt.NDArray[np.uint8]) -> Words:
    """Return four bytes a row as one machine word each."""
    return np.ascontiguousarray(digits).view(np.uint32).reshape(-1)


# The last four digits: with leading zeros, or from row 10,000 on, where no digits precede, fillers.
_LAST = _words(np.concatenate([_ZEROS_LEAD, _FILLERS_LEAD]))
_EARLIER = _LAST.copy()
_EARLIER[_GROUP] = np.frombuffer(4 * FILLER, np.uint32)[0]
_FRACTIONS = _words(_POINT_LEADS)


def integers(values: Array) -> list[Words]:
    """Return the digits of integers, right-aligned, as columns of four bytes.

    Negative ones, which stand for none, are taken for 0.
    """
    return _digits(_narrow(values))


def thousandths(values: Array) -> list[Words]:
    """Return integers divided by 1000, right-aligned, as columns of four bytes: 1234 as 1.234."""
    whole, rest = _split(_narrow(values), 1000)
    return [*_digits(whole), _FRACTIONS.take(rest)]


def _narrow(values: Array) -> Array:
    """Return the values unsigned, in 32 bits where they fit: those divide three times as fast."""
    if values.dtype.kind == "i":
        values = np.maximum(values, 0)
    return values.astype(np.uint32 if int(values.max(initial=0)) < 2**32 else np.uint64)


def _split(values: Array, divisor: int) -> tuple[Array, Array]:
    high = values // values.dtype.type(divisor)
    return high, (values - high * values.dtype.type(divisor)).astype(np.intp)


def _digits(values: Array) -> list[Words]:
    columns: list[Words] = []
    table = _LAST
    largest = int(values.max(initial=0))
    while largest >= _GROUP:
        rest, low = _split(values, _GROUP)
        if not rest.all():
            low += (rest == 0) * _GROUP
        columns.insert(0, table.take(low))
        values, table, largest = rest, _EARLIER, largest // _GROUP
    return [table.take(values.astype(np.intp) + _GROUP), *columns]
