"""Where a range stands: its name and those around it, as one text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I32, I64, factorize
from nvtrace.model.explained import Explained
from nvtrace.sinks.names import cut

SEPARATOR = " / "
_NAME_WIDTH = 100
_OUTER, _INNER = 6, 6
_LEFT_OUT = SEPARATOR + "..." + SEPARATOR


class RangePaths:
    """The distinct paths of a trace's ranges.

    Attributes:
        code: the path of each range, of shape (ranges,): equal where the names around it are.
    """

    def __init__(self, explained: Explained) -> None:
        self._strings = explained.trace.strings
        self.code = np.full(len(explained.range_depth), -1, np.int32)
        names: list[I32] = [np.empty(0, np.int32)]
        parents: list[I32] = [np.empty(0, np.int32)]
        count = 0
        for rows in _levels(explained.range_depth):
            outer = explained.range_parent[rows]
            parent = np.where(outer >= 0, self.code[outer], -1).astype(np.int64)
            key = (parent + 1) * len(self._strings) + explained.range_name[rows]
            distinct, codes = factorize(key)
            self.code[rows] = codes + count
            names.append((distinct % len(self._strings)).astype(np.int32))
            parents.append((distinct // len(self._strings) - 1).astype(np.int32))
            count += len(distinct)
        self._names = np.concatenate(names)
        self._parents = np.concatenate(parents)
        self._texts: dict[int, str] = {}

    def text(self, code: int) -> str:
        """Return the names of path ``code``, outermost first, the middle of many left out."""
        found = self._texts.get(code)
        if found is None:
            chain = self._chain(code)
            names = [cut(self._strings[int(self._names[row])], _NAME_WIDTH) for row in chain]
            if len(names) > _OUTER + _INNER:
                found = _LEFT_OUT.join(
                    [SEPARATOR.join(names[:_OUTER]), SEPARATOR.join(names[-_INNER:])]
                )
            else:
                found = SEPARATOR.join(names)
            self._texts[code] = found
        return found

    def _chain(self, code: int) -> list[int]:
        chain = []
        while code >= 0:
            chain.append(code)
            code = int(self._parents[code])
        return chain[::-1]


def _levels(depth: npt.NDArray[np.integer]) -> list[I64]:
    """Return the rows of each depth, outermost first."""
    order = np.argsort(depth, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(depth[order])) + 1) if len(depth) else []
