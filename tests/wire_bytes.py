"""Protocol buffers written by hand, for tests of what reads them."""

from __future__ import annotations


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def message(*fields: tuple[int, int | bytes]) -> bytes:
    """Encode (number, value) pairs: integers as varints, the rest with its length."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value & (1 << 64) - 1)
        else:
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out
