"""What a framework's own tracer recorded, on its way into a trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.schema import RangeKind
from nvtrace.model.strings import Strings
from nvtrace.model.trace import Counter, Note

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class HarvestedRanges:
    """Ranges as columns of equal length, in any order; push/pop ranges of their threads.

    Attributes:
        start: Unix time, ns (CLOCK_REALTIME).
        end: Unix time, ns.
        name: row of the harvest's strings.
        kind: RangeKind.
        thread: native thread id.
        text: row of the harvest's strings: shapes and other facts of this call, -1 none.
    """

    start: I64
    end: I64
    name: npt.NDArray[np.int32]
    kind: npt.NDArray[np.uint8]
    thread: I64
    text: npt.NDArray[np.int32]

    def __post_init__(self) -> None:
        lengths = {len(getattr(self, name)) for name in self.__dataclass_fields__}
        if len(lengths) != 1:
            raise ValueError(f"harvested columns differ in length: {sorted(lengths)}")


@dataclass(frozen=True)
class Harvest:
    """What one adapter brings home from a window.

    Attributes:
        strings: names and texts that the columns refer to.
        ranges: None when the framework records none.
        samples: columns ``time`` (Unix ns), ``counter`` (row of ``counters``) and ``value``.
        counters: what the samples are of.
        notes: what the reader should know: what was not recorded, and why.
    """

    strings: Strings = field(default_factory=Strings)
    ranges: HarvestedRanges | None = None
    samples: dict[str, npt.NDArray[Any]] | None = None
    counters: tuple[Counter, ...] = ()
    notes: tuple[Note, ...] = ()


def category_of(kind: int) -> str:
    """Return the category that carries a kind in nvtrace's own domain."""
    return RangeKind(kind).name.lower()
