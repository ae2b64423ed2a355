"""Record a program once, in the order in which it runs, knowing the owner of every call.

A `Tape` is the script of one process: ticks of time, ranges that open and close between them, API
calls, and the device work that the calls launch. Threads take turns on it. Since the script itself
says which ranges are open at a call, owner and containment are known before any timestamp exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nvtrace.demo.catalog import (
    COMPUTE,
    D2D,
    D2H,
    H2D,
    KERNEL_KEYS,
    KERNELS,
    MAIN,
    PHASES,
    PUSH_POP,
    START_END,
    Label,
)

KERNEL, MEMCPY, MEMSET, GRAPH = range(4)
NONE = -1

_BYTES_PER_US = {H2D: 24_000, D2H: 22_000, D2D: 620_000}


@dataclass
class Range:
    """A range from `open_tick` to `close_tick` (NONE: not closed in this script)."""

    label: Label
    thread: int
    open_tick: int
    close_tick: int = NONE
    end_thread: int = NONE
    has_step: bool = False


@dataclass
class Call:
    """One API call; `inside` are the ranges that contain it, `owner` the innermost push/pop."""

    api: str
    thread: int
    begin_tick: int
    end_tick: int = NONE
    owner: int = NONE
    phase: int = NONE
    inside: list[int] = field(default_factory=list)
    driver: bool = False
    correlated: bool = True


@dataclass
class Work:
    """One device row, launched by `call` (none: its launch was not traced)."""

    kind: int
    item: int
    call: int
    tick: int
    stream: int
    duration_ns: int
    size: int = 0
    node: int = 0


@dataclass
class Allocation:
    """Device memory taken (`size` > 0) or given back (< 0) by a call."""

    call: int
    address: int
    size: int


class Tape:
    """The script of one process.

    Args:
        exact: take every gap literally, zero included; else gaps are typical values that a replay
            varies, and no two ticks coincide.
    """

    def __init__(self, *, exact: bool = False) -> None:
        self.exact = exact
        self.gaps: list[int] = []
        self.ranges: list[Range] = []
        self.calls: list[Call] = []
        self.works: list[Work] = []
        self.allocations: list[Allocation] = []
        self.nodes: list[tuple[int, int, int]] = []  # (call, node, original node)
        self.sync_tick = NONE
        self._open: list[int] = []

    def tick(self, gap_ns: int) -> int:
        """Let `gap_ns` pass and return the index of the new instant."""
        self.gaps.append(gap_ns if self.exact else max(gap_ns, 2))
        return len(self.gaps) - 1

    def open(
        self, label: Label, *, gap_ns: int = 350, thread: int = MAIN, has_step: bool = False
    ) -> int:
        """Open a range and return its index."""
        self.ranges.append(Range(label, thread, self.tick(gap_ns), has_step=has_step))
        index = len(self.ranges) - 1
        if label.event_type in (PUSH_POP, START_END):
            self._open.append(index)
        return index

    def close(self, index: int, *, gap_ns: int = 250, thread: int | None = None) -> None:
        """Close a range, from another thread if one is given."""
        opened = self.ranges[index]
        opened.close_tick = self.tick(gap_ns)
        if thread is not None and thread != opened.thread:
            opened.end_thread = thread
        self._open.remove(index)

    def mark(self, label: Label, *, gap_ns: int = 300, has_step: bool = False) -> None:
        """Write an instant, or a row that names a domain or a category."""
        self.open(label, gap_ns=gap_ns, has_step=has_step)

    @contextmanager
    def range(
        self, name: str, category: str = "", *, domain: str = "nvtrace", has_step: bool = False
    ) -> Iterator[int]:
        """Hold a push/pop range of the main thread open."""
        index = self.open(Label(name, domain, category), has_step=has_step)
        yield index
        self.close(index)

    def begin(
        self,
        api: str,
        *,
        gap_ns: int = 900,
        thread: int = MAIN,
        driver: bool = False,
        correlated: bool = True,
    ) -> int:
        """Enter an API call and return its index."""
        begin = self.tick(gap_ns)
        self.calls.append(Call(api, thread, begin, driver=driver, correlated=correlated))
        self.calls[-1].inside = list(self._open)
        return len(self.calls) - 1

    def end(self, index: int, *, gap_ns: int = 4_200, touching: tuple[int, ...] = ()) -> None:
        """Leave an API call.

        Args:
            index: which.
            gap_ns: time since the last tick.
            touching: closed ranges that share with the call the one instant it takes.
        """
        call = self.calls[index]
        call.end_tick = self.tick(gap_ns)
        held = [i for i in call.inside if i in self._open]
        mine = [i for i in (*touching, *held) if self.ranges[i].thread == call.thread]
        call.inside = mine
        owners = [i for i in mine if self.ranges[i].label.event_type == PUSH_POP]
        call.owner = owners[-1] if owners else NONE
        if not owners:
            call.phase = self._only_phase(held)

    def call(
        self,
        api: str,
        *,
        gap_ns: int = 900,
        length_ns: int = 1_400,
        thread: int = MAIN,
        driver: bool = False,
    ) -> int:
        """Make an API call and return its index."""
        index = self.begin(api, gap_ns=gap_ns, thread=thread, driver=driver)
        self.end(index, gap_ns=length_ns)
        return index

    def work(self, kind: int, item: int, call: int, stream: int, ns: int, size: int = 0) -> Work:
        """Put work on a stream, launched by a call (none: launched untraced, at this instant)."""
        tick = self.calls[call].begin_tick if call != NONE else len(self.gaps) - 1
        self.works.append(Work(kind, item, call, tick, stream, ns, size))
        return self.works[-1]

    def kernel(self, key: str, call: int, *, stream: int = COMPUTE, node: int = 0) -> None:
        """Put a kernel of the catalogue on a stream."""
        item = KERNEL_KEYS.index(key)
        self.work(KERNEL, item, call, stream, KERNELS[key].duration_ns).node = node

    def launch(self, key: str, *, thread: int = MAIN, stream: int = COMPUTE) -> None:
        """Launch a kernel, through the driver where a compiler made it."""
        driver = key == "layer_norm"
        api = "cuLaunchKernel" if driver else "cudaLaunchKernel_v7000"
        self.kernel(
            key, self.call(api, length_ns=4_200, thread=thread, driver=driver), stream=stream
        )

    def copy(self, kind: int, size: int, *, thread: int = MAIN, stream: int = COMPUTE) -> None:
        """Copy `size` bytes, `kind` as in CUPTI."""
        call = self.call("cudaMemcpyAsync_v3020", length_ns=5_600, thread=thread)
        self.work(MEMCPY, kind, call, stream, 1_100 + size * 1_000 // _BYTES_PER_US[kind], size)

    def memset(self, size: int) -> None:
        """Zero `size` bytes."""
        call = self.call("cudaMemsetAsync_v3020", length_ns=3_100)
        self.work(MEMSET, 0, call, COMPUTE, 900 + size // 1_000, size)

    def allocate(self, address: int, size: int) -> None:
        """Take device memory, or give it back if `size` is negative."""
        api = "cudaMalloc_v3020" if size > 0 else "cudaFree_v3020"
        self.allocations.append(Allocation(self.call(api, length_ns=38_000), address, size))

    def synchronize(self) -> None:
        """Wait until all device work of this script is done."""
        call = self.call("cudaStreamSynchronize_v3020", length_ns=2_500)
        self.sync_tick = self.calls[call].end_tick

    def _only_phase(self, held: list[int]) -> int:
        phases = [i for i in held if self.ranges[i].label.category in PHASES]
        threads = {self.ranges[i].thread for i in phases}
        return phases[-1] if len(threads) == 1 else NONE
