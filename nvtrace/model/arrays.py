"""Small array operations that sources and analysis share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
T = TypeVar("T", bound=np.generic)

_AT_ONCE = 65_536  # numpy makes 64-bit numbers of rows first


def constant(value: Any, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return ``count`` times one value, read-only, in the memory of one."""
    column: npt.NDArray[Any] = np.broadcast_to(np.array([value], dtype), count)
    return column


def is_constant(column: npt.NDArray[Any]) -> bool:
    """Return whether a column is known to hold one value only: one that ``constant`` made."""
    return len(column) > 0 and column.strides[0] == 0


def picked(column: npt.NDArray[Any], rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the chosen rows, by place or by mask; a constant stays one."""
    if not is_constant(column):
        some: npt.NDArray[Any] = column[rows] if rows.dtype == np.bool_ else column.take(rows)
        return some
    count = np.count_nonzero(rows) if rows.dtype == np.bool_ else len(rows)
    return constant(column[0], int(count), column.dtype)


def choose(columns: dict[str, npt.NDArray[Any]], rows: npt.NDArray[Any]) -> None:
    """Keep the chosen rows of columns, in their order; columns in one memory stay in one."""
    alike: dict[object, list[str]] = {}
    for name, column in columns.items():
        where = column.__array_interface__["data"][0], column.strides, column.dtype
        alike.setdefault(where, []).append(name)
    for names in alike.values():
        columns.update(dict.fromkeys(names, picked(columns[names[0]], rows)))


def in_order(rows: I64) -> bool:
    """Return whether distinct rows are in ascending order."""
    return bool((rows[1:] > rows[:-1]).all())


def smallest_type(values: npt.NDArray[Any]) -> np.dtype[Any]:
    """Return the type of fewest bytes that holds some signed integers; others keep their own."""
    if values.dtype.kind != "i" or not len(values):
        return values.dtype
    low, high = int(values.min()), int(values.max())
    for size in range(values.itemsize.bit_length() - 1):
        for kind in "ui":
            found = np.dtype(f"{kind}{1 << size}")
            if np.iinfo(found).min <= low and high <= np.iinfo(found).max:
                return found
    return values.dtype


def renumbered(before: np.int32, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return rows of a table in which others now come before; -1 stays -1."""
    if not before or not len(rows):
        return rows
    if is_constant(rows):
        return constant(renumbered(before, rows[:1].copy())[0], len(rows), rows.dtype)
    moved: npt.NDArray[Any] = rows + before
    moved[rows < 0] = -1
    return moved


def joined(columns: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return columns one behind the other; constants of one value stay one."""
    filled = [column for column in columns if len(column)] or list(columns[:1])
    if all(is_constant(column) and column[0] == filled[0][0] for column in filled):
        dtype = np.result_type(*filled)
        return constant(filled[0][0], sum(map(len, filled)), dtype)
    return np.concatenate(columns)


def factorize(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], I32]:
    """Return the distinct values, ascending, and for each value its row among them.

    Args:
        values: integers of shape (n,).

    Returns:
        Distinct values of shape (m,), and int32 codes of shape (n,).
    """
    if not len(values):
        return values, np.empty(0, np.int32)
    if is_constant(values):
        return values[:1].copy(), constant(0, len(values), np.int32)
    low, high = int(values.min()), int(values.max())
    if high - low > 4 * len(values) + 65536:
        return _factorize_sparse(values)
    least = values.dtype.type(low)
    present = np.zeros(high - low + 1, np.bool_)
    for _, offsets in _offsets(values, least):
        present[offsets] = True
    table = np.cumsum(present, dtype=np.int32)
    table -= 1
    codes = np.empty(len(values), np.int32)
    for part, offsets in _offsets(values, least):
        table.take(offsets, out=codes[part], mode="clip")
    return np.flatnonzero(present).astype(values.dtype) + least, codes


def grouped(*columns: npt.NDArray[Any]) -> tuple[I64, I32]:
    """Return the distinct tuples of integer columns, shape (groups, columns), and rows' groups."""
    _, codes = factorize(columns[0])
    for column in columns[1:]:
        values, own = factorize(column)
        if len(values) > 1:
            _, codes = factorize(codes * np.int64(len(values)) + own)
    first = first_rows(codes, int(codes.max(initial=-1)) + 1)
    keys = np.stack([column[first].astype(np.int64) for column in columns], axis=1)
    return keys, codes


def _offsets(
    values: npt.NDArray[Any], least: np.generic
) -> Iterator[tuple[slice, npt.NDArray[np.intp]]]:
    """Yield what values lie above the least of them, modulo 2^n, some rows at a time."""
    for first in range(0, len(values), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        yield part, (values[part] - least).view(f"u{values.itemsize}").astype(np.intp)


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the distinct values, ascending.

    As np.unique does, without numpy.ma, which that imports: a tenth of the time of a small report.

    Args:
        values: integers of shape (n,).
    """
    if not len(values):
        return values
    low, high = int(values.min()), int(values.max())
    if high - low <= 4 * len(values) + 65536:
        least = values.dtype.type(low)
        present = np.zeros(high - low + 1, np.bool_)
        for _, offsets in _offsets(values, least):
            present[offsets] = True
        found: npt.NDArray[Any] = np.flatnonzero(present).astype(values.dtype) + least
    else:
        ordered = np.sort(values)
        found = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return found


def contained(values: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which of ``values`` are among ``wanted``, integers of one type both."""
    if not len(wanted):
        return np.zeros(len(values), np.bool_)
    sought = distinct(wanted)
    places = np.minimum(np.searchsorted(sought, values), len(sought) - 1)
    found: npt.NDArray[np.bool_] = sought[places] == values
    return found


def _factorize_sparse(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], I32]:
    """Factorize values that lie far apart: few of them, as a rule, such as ids of threads.

    A guess at the distinct values, made from a sample, is completed by what it misses.
    """
    found = distinct(values[:: max(len(values) // 1024, 1)])
    while 8 * len(found) < len(values):
        codes = np.minimum(np.searchsorted(found, values), len(found) - 1)
        missed = found[codes] != values
        if not missed.any():
            return found, codes.astype(np.int32)
        found = distinct(np.concatenate([found, values[missed]]))
    found, codes = np.unique(values, return_inverse=True)
    return found, codes.astype(np.int32)


def code_order(codes: npt.NDArray[Any]) -> I64:
    """Return the rows in ascending order of small non-negative integers; ties keep order."""
    narrow = codes.astype(np.min_scalar_type(int(codes.max(initial=0))), copy=False)
    return np.argsort(narrow, kind="stable")  # linear in 8 and 16 bits


def taken(
    values: npt.NDArray[T], rows: npt.NDArray[np.integer[Any]], none: int = -1
) -> npt.NDArray[T]:
    """Return the values of ``rows``, ``none`` where the row is -1."""
    table = np.append(values, values.dtype.type(none))
    found: npt.NDArray[T] = np.empty(len(rows), values.dtype)
    for first in range(0, len(rows), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        found[part] = table.take(rows[part])
    return found


def first_rows(codes: npt.NDArray[Any], groups: int) -> I64:
    """Return the first row of each group, 0 of none."""
    found = np.zeros(groups, np.int64)
    for first in reversed(range(0, len(codes), _AT_ONCE)):
        part = codes[first : first + _AT_ONCE]
        found[part[::-1]] = np.arange(first + len(part) - 1, first - 1, -1)
    return found


def depths(parents: I32) -> I32:
    """Return the number of ancestors of each row; ``parents`` are rows, -1 none."""
    depth = (parents >= 0).astype(np.int32)
    ancestor = parents.copy()
    rising = np.flatnonzero(depth)
    while len(rising):
        depth[rising] += depth[ancestor[rising]]
        ancestor[rising] = ancestor[ancestor[rising]]
        rising = rising[ancestor[rising] >= 0]
    return depth


def among(codes: npt.NDArray[np.uint8], wanted: Iterable[int]) -> npt.NDArray[np.bool_]:
    """Return which codes are one of ``wanted``."""
    found = np.zeros(len(codes), np.bool_)
    for one in wanted:
        found |= codes == one
    return found


def stable_order(*keys: npt.NDArray[Any]) -> I64:
    """Return the rows in ascending order of the first key, then the next; ties keep order."""
    order = np.argsort(keys[-1], kind="stable")
    for key in reversed(keys[:-1]):
        order = order.take(np.argsort(key.take(order), kind="stable"))
    return order


def time_order(columns: Mapping[str, npt.NDArray[Any]]) -> I64:
    """Return the rows by start, longer first at equal starts, then by kind, then as they are.

    Args:
        columns: ``start`` and ``end``, and ``kind`` where the rows have one; none for no rows.
    """
    if not columns:
        return np.empty(0, np.int64)
    start = columns["start"]
    if in_order(start):
        return np.arange(len(start))
    order = np.argsort(start, kind="stable")
    ties = _out_of_order(columns, order)
    if len(ties):
        rows = order[ties]
        keys = [start[rows], -columns["end"][rows]]
        keys += [columns["kind"][rows]] if "kind" in columns else []
        order[ties] = rows[stable_order(*keys)]
    return order


def _out_of_order(columns: Mapping[str, npt.NDArray[Any]], order: I64) -> I64:
    """Return the places in an order by start of all equal starts whose other keys are not so."""
    ordered = columns["start"][order]
    tied = np.flatnonzero(ordered[1:] == ordered[:-1])
    one, following = order[tied], order[tied + 1]
    ends = columns["end"]
    wrong = ends[one] < ends[following]
    if "kind" in columns:
        kind = columns["kind"]
        wrong |= (ends[one] == ends[following]) & (kind[one] > kind[following])
    if not wrong.any():
        return tied[:0]
    run = np.cumsum(np.diff(tied, prepend=tied[:1]) != 1)
    unsettled = tied[contained(run, run[wrong])]
    return distinct(np.concatenate([unsettled, unsettled + 1]))
