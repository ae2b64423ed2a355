"""Protocol buffers on the wire: just enough to read XSpace and HloProto without a dependency."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from nvtrace.errors import CorruptReport

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Message(NamedTuple):
    """A message, or any bytes, inside a buffer.

    Attributes:
        buffer: what it lies in.
        start: offset of its first byte.
        end: offset behind its last byte.
    """

    buffer: bytes
    start: int
    end: int

    @classmethod
    def whole(cls, buffer: bytes) -> Message:
        """Return the message that fills ``buffer``."""
        return cls(buffer, 0, len(buffer))

    def text(self) -> str:
        """Return the bytes as text."""
        return self.buffer[self.start : self.end].decode("utf-8", "replace")

    def bytes(self) -> bytes:
        """Return the bytes."""
        return self.buffer[self.start : self.end]


def fields(message: Message) -> Iterator[tuple[int, int | Message]]:
    """Yield (field number, value): integers of numbers, in 64 bits unsigned, else a Message.

    Raises:
        CorruptReport: it is no message.
    """
    buffer, place, end = message
    while place < end:
        try:
            tag, place = _varint(buffer, place)
            kind = tag & 7
            if kind == VARINT:
                value, place = _varint(buffer, place)
                yield tag >> 3, value
                continue
            if kind == BYTES:
                length, place = _varint(buffer, place)
            elif kind in (FIXED64, FIXED32):
                length = 8 if kind == FIXED64 else 4
            else:
                raise CorruptReport(f"no protocol buffer: wire type {kind} at byte {place}")
        except IndexError:
            raise CorruptReport("a protocol buffer ends in the middle of a number") from None
        stop = place + length
        if stop > end:
            raise CorruptReport(f"a protocol buffer is cut off at byte {end}")
        if kind == BYTES:
            yield tag >> 3, Message(buffer, place, stop)
        else:
            yield tag >> 3, int.from_bytes(buffer[place:stop], "little")
        place = stop


def packed(value: int | Message) -> list[int]:
    """Return the numbers of a repeated field, one or many in a packed run."""
    if isinstance(value, int):
        return [value]
    found = []
    buffer, place, end = value
    while place < end:
        number, place = _varint(buffer, place)
        found.append(number)
    return found


def signed(value: int) -> int:
    """Return an int64 that was read unsigned."""
    return value - (1 << 64) if value >> 63 else value


def double(value: int) -> float:
    """Return the double whose 64 bits were read as an integer."""
    number: float = struct.unpack("<d", value.to_bytes(8, "little"))[0]
    return number


def _varint(buffer: bytes, place: int) -> tuple[int, int]:
    byte = buffer[place]
    place += 1
    if byte < 0x80:
        return byte, place
    value, shift = byte & 0x7F, 7
    while True:
        byte = buffer[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, place
        shift += 7
        if shift > 63:
            raise CorruptReport(f"no protocol buffer: an endless number at byte {place}")
