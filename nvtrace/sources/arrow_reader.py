"""Bulk columns out of a folder of Parquet or Arrow files, one file a table, through pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.errors import CorruptReport, MissingDependency, SourceError
from nvtrace.model.arrays import constant, joined
from nvtrace.sources.columns import (
    Coded,
    Column,
    Kind,
    Rows,
    Wanted,
    absent,
    codes,
    decoded,
)
from nvtrace.sources.table_reader import TableReader

Array = npt.NDArray[Any]
I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

PARQUET, ARROW = ".parquet", ".arrow"

_AT_ONCE = 131_072  # rows: what is made of a column on its way stays in the processor's cache
_LONGEST_REASON = 160


def files(folder: Path) -> dict[str, Path]:
    """Return the files of a folder that may be tables, by the table's name."""
    found = sorted(file for file in folder.iterdir() if file.suffix in (PARQUET, ARROW))
    return {file.stem: file for file in found}


class ArrowReader(TableReader):
    """The tables of a folder; a file is opened when its table is first asked for.

    Raises:
        MissingDependency: pyarrow is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self._files = files(folder)
        self.tables = self._files.keys()
        self._opened: dict[str, _ParquetFile | _ArrowFile] = {}
        try:
            import pyarrow  # noqa: F401 - here, so that its absence is said at once
        except ImportError as error:
            raise MissingDependency(
                f"{folder}: Parquet and Arrow files need pyarrow, which is not installed: "
                "pip install pyarrow"
            ) from error

    def close(self) -> None:
        """Close the files."""
        self._opened.clear()

    def _table(self, name: str) -> _ParquetFile | _ArrowFile:
        if name not in self._opened:
            file = self._files[name]
            with _faults_of(file):
                if not file.stat().st_size:
                    raise CorruptReport(f"{file}: the file is empty; export the report again")
                kind = _ParquetFile if file.suffix == PARQUET else _ArrowFile
                self._opened[name] = kind(file)
        return self._opened[name]

    def columns(self, table: str) -> tuple[str, ...]:
        """Return the column names of ``table``; empty when there is no such table."""
        return self._table(table).names if table in self.tables else ()

    def rows(self, table: str, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return some columns of a small table, row by row; all of them must be there."""
        opened = self._table(table)
        with _faults_of(self._files[table]):
            columns = [_listed(opened.column(name), opened.count) for name in names]
        return list(zip(*columns, strict=True))

    def read(
        self, table: str, wanted: Mapping[str, Wanted], where: Rows | None = None
    ) -> dict[str, Any]:
        """Return columns of ``table``, read one by one, in the file's order."""
        if table not in self.tables:
            return {name: absent(one, 0) for name, one in wanted.items()}
        opened = self._table(table)
        mask = self._mask(table, where) if where else None
        with _faults_of(self._files[table]):
            count = opened.count if mask is None else int(np.count_nonzero(mask))
            found: dict[str, Column] = {}
            for name, one in wanted.items():
                if count and name in opened.names:
                    found[name] = _formed(one, _chosen(opened.column(name), mask), count)
                else:
                    found[name] = absent(one, count)
        return found

    def _mask(self, table: str, where: Rows) -> Mask | None:
        """Return which rows are meant, None for all."""
        column: Coded = self.read(table, {where.column: codes(-1)})[where.column]
        meant = where.mask(column.values)
        return None if meant.all() else column.spread(meant)

    @cached_property
    def string_ids(self) -> tuple[I64, list[str]]:
        """The StringIds table: ids in ascending order, and their texts."""
        if not {"id", "value"} <= set(self.columns("StringIds")):
            return np.empty(0, np.int64), []
        table = self._table("StringIds")
        with _faults_of(self._files["StringIds"]):
            ids = _numbers(table.column("id"), -1, table.count)
            texts = _listed(table.column("value"), table.count)
        order = np.argsort(ids, kind="stable")
        order = order[ids[order] >= 0]
        return ids[order], [texts[row] or "" for row in order.tolist()]


class _ParquetFile:
    """A Parquet file, whose columns are decoded each time they are asked for."""

    def __init__(self, file: Path) -> None:
        from pyarrow import parquet

        self._file = parquet.ParquetFile(file)
        self.names: tuple[str, ...] = tuple(self._file.schema_arrow.names)
        self.count: int = self._file.metadata.num_rows

    def column(self, name: str) -> Iterator[Any]:
        """Give the arrays that make up a column."""
        for batch in self._file.iter_batches(_AT_ONCE, columns=[name], use_threads=False):
            yield batch.column(0)


class _ArrowFile:
    """A file or stream of Arrow's own format, whose columns stay where they are in the file."""

    def __init__(self, file: Path) -> None:
        import pyarrow

        memory = pyarrow.memory_map(str(file))
        is_file = memory.read(6) == b"ARROW1"
        memory.seek(0)
        opened = (pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream)(memory)
        self._table = opened.read_all()
        self.names: tuple[str, ...] = tuple(self._table.column_names)
        self.count: int = self._table.num_rows

    def column(self, name: str) -> Iterator[Any]:
        """Give the arrays that make up a column."""
        from pyarrow import types

        for whole in self._table.column(self.names.index(name)).chunks:
            # bytes that come as they are in the file may point anywhere, and need not be UTF-8
            whole = whole.cast("binary") if types.is_string(whole.type) else whole
            whole.validate(full=True)
            for first in range(0, len(whole), _AT_ONCE):
                yield whole.slice(first, _AT_ONCE)


@contextmanager
def _faults_of(file: Path) -> Iterator[None]:
    """Say in one line which file it is that cannot be read, and why."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno:
            reason = os.strerror(error.errno)  # pyarrow has a whole text where the reason belongs
            raise SourceError(f"{file}: cannot be read: {reason}") from error
        text = "".join(letter if letter.isprintable() else " " for letter in str(error))
        reason = " ".join(text.split())[:_LONGEST_REASON]
        raise CorruptReport(
            f"{file}: damaged, or no table of Nsight Systems ({reason}); export the report again"
        ) from error


def _chosen(parts: Iterator[Any], mask: Mask | None) -> Iterator[Any]:
    """Leave out the rows that are not meant."""
    import pyarrow

    place = 0
    for part in parts:
        here = None if mask is None else mask[place : place + len(part)]
        place += len(part)
        yield part if here is None or here.all() else part.filter(pyarrow.array(here))


def _formed(wanted: Wanted, parts: Iterator[Any], count: int) -> Column:
    """Return a column in the form in which it is wanted."""
    if wanted.kind is Kind.VALUES:
        return _numbers(parts, wanted.missing, count)
    if wanted.kind is Kind.CODES:
        distinct, rows = _coded(_integers(parts, wanted.missing), count)
        return Coded(np.array(distinct, np.int64), rows)
    if wanted.kind is Kind.REALS:
        distinct, rows = _coded(_bits(parts), count)
        return Coded(np.array(distinct, np.int64).view(np.float64), rows)
    distinct, rows = _coded(map(_binary, parts), count)
    return Coded(decoded(distinct), rows)


def _integers(parts: Iterator[Any], missing: int) -> Iterator[Any]:
    """Make int64 numbers of parts: unsigned ones keep their bits, NULL is ``missing``."""
    for part in parts:
        signed = part.cast("int64", safe=False)
        yield signed.fill_null(missing) if signed.null_count else signed


def _bits(parts: Iterator[Any]) -> Iterator[Any]:
    """Make the bits of float64 numbers of parts, as int64; NULL is NaN."""
    for part in parts:
        yield part.cast("double", safe=False).fill_null(np.nan).view("int64")


def _binary(part: Any) -> Any:
    """Return texts as bytes, which need not be UTF-8."""
    return part.cast("large_string", safe=False).cast("large_binary")


def _numbers(parts: Iterator[Any], missing: int, count: int) -> I64:
    numbers = np.empty(count, np.int64)
    place = 0
    for part in _integers(parts, missing):
        numbers[place : place + len(part)] = part.to_numpy()
        place += len(part)
    _check(place, count)
    return numbers


def _coded(parts: Iterator[Any], count: int) -> tuple[list[Any], Array]:
    """Return the distinct values in the order in which they are met, None too, and codes."""
    known: dict[Any, int] = {}
    rows: list[Array] = []
    for part in parts:
        encoded = part.dictionary_encode(null_encoding="encode")
        distinct = encoded.dictionary.to_pylist()
        own = np.array([known.setdefault(one, len(known)) for one in distinct])
        own = own.astype(np.min_scalar_type(len(known)))
        alike = len(own) == 1
        rows.append(constant(own[0], len(part), own.dtype) if alike else own[encoded.indices])
    _check(sum(map(len, rows)), count)
    return list(known), joined(rows)


def _check(rows: int, count: int) -> None:
    if rows != count:
        raise ValueError(f"a column has {rows} of {count} rows")


def _listed(parts: Iterator[Any], count: int) -> list[Any]:
    """Return a column as SQLite would: texts, floats, signed numbers, None."""
    from pyarrow import types

    found: list[Any] = []
    for part in parts:
        if types.is_integer(part.type) or types.is_boolean(part.type):
            found += part.cast("int64", safe=False).to_pylist()
        elif types.is_floating(part.type):
            found += part.to_pylist()
        else:
            found += decoded(_binary(part).to_pylist()).tolist()
    _check(len(found), count)
    return found
