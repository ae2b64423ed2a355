"""Small array operations that sources and analysis share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
T = TypeVar("T", bound=np.generic)


def factorize(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], I32]:
    """Return the distinct values, ascending, and for each value its row among them.

    Args:
        values: integers of shape (n,).

    Returns:
        Distinct values of shape (m,), and int32 codes of shape (n,).
    """
    if not len(values):
        return values, np.empty(0, np.int32)
    low, high = int(values.min()), int(values.max())
    if high - low > 4 * len(values) + 65536:
        return _factorize_sparse(values)
    least = values.dtype.type(low)
    offsets = (values - least).astype(np.int64)
    present = np.zeros(high - low + 1, np.bool_)
    present[offsets] = True
    table = np.cumsum(present, dtype=np.int32)
    table -= 1
    return np.flatnonzero(present).astype(values.dtype) + least, table[offsets]


def _factorize_sparse(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], I32]:
    """Factorize values that lie far apart: few of them, as a rule, such as ids of threads.

    A guess at the distinct values, made from a sample, is completed by what it misses.
    """
    distinct = np.unique(values[:: max(len(values) // 1024, 1)])
    while 8 * len(distinct) < len(values):
        codes = np.minimum(np.searchsorted(distinct, values), len(distinct) - 1)
        missed = distinct[codes] != values
        if not missed.any():
            return distinct, codes.astype(np.int32)
        distinct = np.union1d(distinct, values[missed])
    distinct, codes = np.unique(values, return_inverse=True)
    return distinct, codes.astype(np.int32)


def code_order(codes: npt.NDArray[Any]) -> I64:
    """Return the rows in ascending order of small non-negative integers; ties keep order."""
    narrow = codes.astype(np.min_scalar_type(int(codes.max(initial=0))), copy=False)
    return np.argsort(narrow, kind="stable")  # linear in 8 and 16 bits


def taken(
    values: npt.NDArray[T], rows: npt.NDArray[np.integer[Any]], none: int = -1
) -> npt.NDArray[T]:
    """Return the values of ``rows``, ``none`` where the row is -1."""
    found: npt.NDArray[T] = np.append(values, values.dtype.type(none))[rows]
    return found


def among(codes: npt.NDArray[np.uint8], wanted: Iterable[int]) -> npt.NDArray[np.bool_]:
    """Return which codes are one of ``wanted``."""
    table = np.zeros(256, np.bool_)
    table[list(wanted)] = True
    return table[codes]


def stable_order(*keys: npt.NDArray[Any]) -> I64:
    """Return the rows in ascending order of the first key, then the next; ties keep order."""
    order = np.argsort(keys[-1], kind="stable")
    for key in reversed(keys[:-1]):
        order = order[np.argsort(key[order], kind="stable")]
    return order


def time_order(columns: Mapping[str, npt.NDArray[Any]]) -> I64:
    """Return the rows by start, longer first at equal starts, then by kind, then as they are.

    Args:
        columns: ``start`` and ``end``, and ``kind`` where the rows have one; none for no rows.
    """
    if not columns:
        return np.empty(0, np.int64)
    keys = [columns["start"], -columns["end"]]
    return stable_order(*keys, columns["kind"]) if "kind" in columns else stable_order(*keys)
