"""Where a range stands: its name and those around it, as one text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I32, I64, factorize
from nvtrace.model.explained import Explained
from nvtrace.sinks.chrome_rows import quoted
from nvtrace.sinks.names import cut

_SEPARATOR = b" / "
_NAME_WIDTH = 100
_OUTER, _INNER = 6, 6


class RangePaths:
    """The distinct paths of a trace's ranges.

    Attributes:
        code: the path of each range, of shape (ranges,): equal where all names are.
    """

    def __init__(self, explained: Explained) -> None:
        self._strings = explained.trace.strings
        self.code: I32 = np.full(len(explained.range_depth), -1, np.int32)
        names, parents, levels = [], [], []
        count = 0
        for level, rows in enumerate(_levels(explained.range_depth)):
            outer = explained.range_parent[rows]
            parent = np.where(outer >= 0, self.code[outer], -1).astype(np.int64)
            key = (parent + 1) * len(self._strings) + explained.range_name[rows]
            distinct, codes = factorize(key)
            self.code[rows] = codes + count
            names += (distinct % len(self._strings)).tolist()
            parents += (distinct // len(self._strings) - 1).tolist()
            levels += [level] * len(distinct)
            count += len(distinct)
        self._names: list[int] = names
        self._parents: list[int] = parents
        self._levels: list[int] = levels
        self._escaped: dict[int, bytes] = {}
        self._texts: dict[int, bytes] = {}

    def text(self, code: int) -> bytes:
        """Return the names of path ``code``, outermost first, the middle of many left out.

        They come escaped as in a JSON string, without the quotes.
        """
        text = self._texts.get(code)
        if text is None:
            parent, level = self._parents[code], self._levels[code]
            if parent < 0:
                text = self._name(code)
            elif level < _OUTER + _INNER:
                text = self.text(parent) + _SEPARATOR + self._name(code)
            else:
                text = _SEPARATOR.join(self._ends(code))
            self._texts[code] = text
        return text

    def _name(self, code: int) -> bytes:
        row = self._names[code]
        name = self._escaped.get(row)
        if name is None:
            name = self._escaped[row] = quoted(cut(self._strings[row], _NAME_WIDTH))[1:-1]
        return name

    def _ends(self, code: int) -> Iterator[bytes]:
        chain = [code]
        while self._parents[chain[-1]] >= 0:
            chain.append(self._parents[chain[-1]])
        yield self.text(chain[-_OUTER])
        yield b"..."
        yield from (self._name(inner) for inner in reversed(chain[:_INNER]))


def _levels(depth: npt.NDArray[np.integer]) -> list[I64]:
    """Return the rows of each depth, outermost first."""
    order = np.argsort(depth, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(depth[order])) + 1) if len(depth) else []
