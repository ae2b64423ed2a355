"""Columns of a table by asking SQLite: right for any table, and slower than its pages."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from itertools import chain

import numpy as np
import numpy.typing as npt

from nvtrace.sources.columns import Coded, Column, Kind, Wanted, formed

I64 = npt.NDArray[np.int64]


def read(
    connection: sqlite3.Connection, source: str, wanted: Mapping[str, Wanted]
) -> tuple[dict[str, Column], int]:
    """Return columns, and how many rows there are.

    Args:
        connection: the file.
        source: what follows ``FROM``.
        wanted: column -> its form.

    Raises:
        sqlite3.Error: the file is damaged.
    """
    count = int(connection.execute(f"SELECT count(*) FROM {source}").fetchone()[0])
    whole = {
        name: one.missing for name, one in wanted.items() if one.kind in (Kind.VALUES, Kind.CODES)
    }
    numbers = _numbers(connection, source, whole, count) if whole else {}
    found: dict[str, Column] = {}
    for name, one in wanted.items():
        if name in numbers:
            found[name] = formed(one, numbers.pop(name))
        elif one.kind is Kind.REALS:
            found[name] = formed(one, _reals(connection, source, name, count))
        else:
            found[name] = _texts(connection, source, name, count)
    return found, count


def _numbers(
    connection: sqlite3.Connection, source: str, wanted: Mapping[str, int], count: int
) -> dict[str, I64]:
    def drained(form: str) -> I64:
        listed = ", ".join(
            form.format(f"ifnull({quoted(name)}, {missing})") for name, missing in wanted.items()
        )
        rows = connection.execute(f"SELECT {listed} FROM {source}")
        return np.fromiter(chain.from_iterable(rows), np.int64, count * len(wanted))

    try:
        flat = drained("{}")
    except (ValueError, TypeError, OverflowError):
        # a column of another affinity: a modified file
        flat = drained("CAST({} AS INTEGER)")
    matrix = flat.reshape(count, len(wanted))
    return {name: np.ascontiguousarray(matrix[:, i]) for i, name in enumerate(wanted)}


def _reals(
    connection: sqlite3.Connection, source: str, name: str, count: int
) -> npt.NDArray[np.float64]:
    rows = connection.execute(f"SELECT CAST({quoted(name)} AS REAL) FROM {source}")
    return np.fromiter((np.nan if one is None else one for (one,) in rows), np.float64, count)


def _texts(connection: sqlite3.Connection, source: str, name: str, count: int) -> Coded:
    rows = connection.execute(f"SELECT CAST({quoted(name)} AS TEXT) FROM {source}")
    known: dict[str | None, int] = {}
    codes = np.fromiter((known.setdefault(one, len(known)) for (one,) in rows), np.int32, count)
    texts = np.empty(len(known), object)
    texts[:] = list(known)
    return Coded(texts, codes)


def quoted(name: str) -> str:
    """Return a name as SQL takes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'
