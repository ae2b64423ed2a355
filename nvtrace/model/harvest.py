"""What a framework's own tracer recorded, on its way into a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.schema import RangeKind
from nvtrace.model.strings import Strings
from nvtrace.model.trace import Counter, Device, Note

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
        sequence: number that an operator's forward and backward share, -1 none; the payload of
            the range. None where no row has any.
        beside: bool; True for what nests in nothing, as it ends in a callback or on another
            thread. None where all nest.
    """

    start: I64
    end: I64
    name: npt.NDArray[np.int32]
    kind: npt.NDArray[np.uint8]
    thread: I64
    text: npt.NDArray[np.int32]
    sequence: I64 | None = None
    beside: npt.NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        columns = [getattr(self, name) for name in self.__dataclass_fields__]
        lengths = {len(column) for column in columns if column is not None}
        if len(lengths) != 1:
            raise ValueError(f"harvested columns differ in length: {sorted(lengths)}")


@dataclass(frozen=True)
class HarvestedMarks:
    """Moments with a number each, as columns of equal length, in any order.

    Attributes:
        time: Unix time, ns (CLOCK_REALTIME).
        name: row of the harvest's strings.
        thread: native thread id.
        payload: the number.
        category: of all of them.
    """

    time: I64
    name: npt.NDArray[np.int32]
    thread: I64
    payload: I64
    category: str


@dataclass(frozen=True)
class HarvestedDevice:
    """GPU work that a framework's own tracer recorded, where nvtrace collected none.

    Attributes:
        strings: names that the columns refer to.
        calls: start, end (Unix ns), name (row of ``strings``), thread_id (native), correlation.
        device: as ``nvtrace.sources.cupti.Activity`` has them.
        details: likewise.
        devices: the GPUs.
        kinds: what was recorded.
        graph_level: whether CUDA graphs are one row a run.
    """

    strings: Strings
    calls: dict[str, npt.NDArray[Any]]
    device: dict[str, npt.NDArray[Any]]
    details: dict[str, npt.NDArray[Any]]
    devices: tuple[Device, ...]
    kinds: frozenset[str] = frozenset({"kernel", "memcpy", "memset"})
    graph_level: bool = False


@dataclass(frozen=True)
class Harvest:
    """What one adapter brings home from a window.

    Attributes:
        strings: names and texts that the columns refer to.
        ranges: None when the framework records none.
        marks: None when the framework records none.
        samples: columns ``time`` (Unix ns), ``counter`` (row of ``counters``) and ``value``.
        counters: what the samples are of.
        notes: what the reader should know: what was not recorded, and why.
        ends_of_data: waits that only found that there are no more data: native thread id, Unix ns
            from and until. The range Dataloader in each is not kept.
        device: GPU work; counts only where nvtrace collected none itself.
        thread_names: names of threads that recorded no ranges of their own, by native thread id.
    """

    strings: Strings = field(default_factory=Strings)
    ranges: HarvestedRanges | None = None
    marks: HarvestedMarks | None = None
    samples: dict[str, npt.NDArray[Any]] | None = None
    counters: tuple[Counter, ...] = ()
    notes: tuple[Note, ...] = ()
    ends_of_data: tuple[tuple[int, int, int], ...] = ()
    device: HarvestedDevice | None = None
    thread_names: Mapping[int, str] = field(default_factory=dict)


def category_of(kind: int) -> str:
    """Return the category that carries a kind in nvtrace's own domain."""
    return RangeKind(kind).name.lower()
