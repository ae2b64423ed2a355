"""What a capture lost, in words."""

from __future__ import annotations

from collections.abc import Iterator

from nvtrace.model.trace import Note
from nvtrace.sources.cupti.activity import Tables
from nvtrace.sources.cupti.clock import Clock
from nvtrace.sources.cupti.decode import Decoder
from nvtrace.sources.cupti.shim import Counts


def loss_notes(
    counts: Counts, decoder: Decoder, dropped: int, tables: Tables, clock: Clock
) -> Iterator[Note]:
    """Yield a note for everything that is missing, or is not as it should be."""
    if counts.lost_span:
        seconds = (counts.lost_span[1] - counts.lost_span[0]) / 1e9
        yield Note(
            "records_lost",
            f"{counts.lost_records:,} records of GPU work ({counts.lost_bytes:,} bytes), from a "
            f"stretch of {seconds:.3f} s, did not fit the memory budget: figures that need them "
            "are too small; record fewer steps or raise the budget",
        )
    if dropped:
        yield Note(
            "records_dropped",
            f"CUPTI itself dropped {dropped:,} records: figures that need them are too small",
        )
    if decoder.unread_bytes:
        kinds = ", ".join(map(str, sorted(decoder.unknown)))
        yield Note(
            "records_unread",
            f"{decoder.unread_bytes:,} bytes of records could not be read: they follow records of "
            f"kind {kinds}, which this version of nvtrace does not know; another CUPTI client "
            "enabled it",
        )
    if counts.foreign:
        yield Note(
            "foreign_buffers",
            f"{counts.foreign:,} buffers of another CUPTI client came here: a profiler ran beside "
            "this one, and both miss records",
        )
    if tables.untimed:
        yield Note(
            "untimed",
            f"{tables.untimed:,} records came without a start or an end and are left out",
        )
    if clock.foreign:
        yield Note(
            "foreign_clock",
            "another profiler replaced CUPTI's clock in this process: GPU times were fitted to the "
            f"host's clock at {len(clock.anchors)} moments and are less exact",
        )
    if tables.mangled:
        yield Note(
            "names_mangled",
            "kernel names are C++'s own, mangled: pip install 'nvtrace[cupti]' for readable ones",
        )
