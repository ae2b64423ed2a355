"""Where a range stands: its name and those around it, as one text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nvtrace.model.arrays import I32
from nvtrace.model.explained import Explained
from nvtrace.sinks import chrome_native
from nvtrace.sinks.chrome_codes import Codes
from nvtrace.sinks.names import cut

_SEPARATOR = " / "
_NAME_WIDTH = 100
_OUTER, _INNER = 6, 6
_NONE = -2


class RangePaths:
    """The paths of a trace's ranges, equal where the names of all ranges on them are."""

    def __init__(self, explained: Explained) -> None:
        self._strings = explained.trace.strings
        self._names_of, self._parent = explained.range_name, explained.range_parent
        # One more than the path of each range, 0 where it was not asked for. The last, which
        # stands for no range, is never 0.
        self._path: I32 = np.zeros(len(self._names_of) + 1, np.int32)
        self._path[-1] = _NONE + 1
        self._native = chrome_native.library() and chrome_native.Paths(
            self._names_of, self._parent, self._path
        )
        self._codes = Codes()
        self._columns = (lambda rows: self._path[self._parent[rows]], self._names_of)
        self._names: list[int] = []
        self._parents: list[int] = []
        self._levels: list[int] = []
        self._cut: dict[int, str] = {}
        self._texts: dict[int, str] = {}

    def codes(self, ranges: I32) -> I32:
        """Return the code of the path of each of some ranges, negative where there is none."""
        if self._native:
            self._note(self._native.learn(ranges))
        else:
            self._learn(ranges)
        found: I32 = self._path.take(ranges) - 1
        return found

    def _learn(self, ranges: I32) -> None:
        """Find paths from the outermost range inwards."""
        levels = [ranges[self._path[ranges] == 0]]
        while len(levels[-1]):
            outer = self._parent[levels[-1]]
            levels.append(outer[self._path[outer] == 0])
        for level in reversed(levels[:-1]):
            codes, fresh = self._codes.of(self._columns, level)
            self._path[level] = codes + 1
            self._note(level[fresh].tolist())

    def _note(self, ranges: list[int]) -> None:
        """Note what the paths are that come next, of each of which one range is given."""
        for row in ranges:
            parent = int(self._path[self._parent[row]]) - 1
            self._names.append(int(self._names_of[row]))
            self._parents.append(parent)
            self._levels.append(self._levels[parent] + 1 if parent >= 0 else 0)

    def text(self, row: int) -> str:
        """Return the names of the path of a range, outermost first, the middle of many left out."""
        if not self._path[row]:
            self.codes(np.array([row], np.int32))
        return self._text(int(self._path[row]) - 1)

    def _text(self, code: int) -> str:
        text = self._texts.get(code)
        if text is None:
            parent, level = self._parents[code], self._levels[code]
            if parent < 0:
                text = self._name(code)
            elif level < _OUTER + _INNER:
                text = self._text(parent) + _SEPARATOR + self._name(code)
            else:
                text = _SEPARATOR.join(self._ends(code))
            self._texts[code] = text
        return text

    def _name(self, code: int) -> str:
        row = self._names[code]
        name = self._cut.get(row)
        if name is None:
            name = self._cut[row] = cut(self._strings[row], _NAME_WIDTH)
        return name

    def _ends(self, code: int) -> Iterator[str]:
        chain = [code]
        while self._parents[chain[-1]] >= 0:
            chain.append(self._parents[chain[-1]])
        yield self._text(chain[-_OUTER])
        yield "..."
        yield from (self._name(inner) for inner in reversed(chain[:_INNER]))
