"""Protocol buffers on the wire: single values, and columns of them at fixed widths.

A varint may be longer than it needs to be, so numbers of any size fit one template.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import I64
from nvtrace.sinks.chrome_parts import Kind, Source, values_of

Array = npt.NDArray[Any]

_VARINT, _FIXED64, _BYTES = 0, 1, 2


def varint(value: int, width: int = 1) -> bytes:
    """Return an unsigned number in at least ``width`` bytes."""
    out = bytearray()
    while value > 0x7F or len(out) < width - 1:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def key(field: int, kind: int = _VARINT) -> bytes:
    """Return what stands before the value of a field."""
    return varint(field << 3 | kind)


def number(field: int, value: int) -> bytes:
    """Return a field with an integer; negative ones are of 64 bits."""
    return key(field) + varint(value & (2**64 - 1))


def double(field: int, value: float) -> bytes:
    """Return a field with a floating-point number."""
    return key(field, _FIXED64) + np.float64(value).tobytes()


def fixed(field: int) -> bytes:
    """Return what stands before eight bytes."""
    return key(field, _FIXED64)


def message(field: int, content: bytes, width: int = 1) -> bytes:
    """Return a field with a message or a string, its length in at least ``width`` bytes."""
    return length(field, len(content), width) + content


def length(field: int, size: int, width: int = 1) -> bytes:
    """Return what stands before a message or a string of ``size`` bytes."""
    return key(field, _BYTES) + varint(size, width)


def text(field: int, value: str) -> bytes:
    """Return a field with a string."""
    return message(field, value.encode("utf-8", "replace"))


def repeated(field: int, value: int, size: int) -> bytes:
    """Return a field of one-byte key in ``size`` bytes, two or more: of several the last counts."""
    out = b""
    while size > 11:
        out += key(field) + varint(value, 9)
        size -= 10
    return out + key(field) + varint(value, size - 1)


@dataclass(frozen=True, eq=False)
class Varint:
    """A column of integers from 0, in as many bytes as the largest possible one needs.

    Attributes:
        values: by row; negative ones are taken for 0.
        width: 4, 8 or 10 bytes.
    """

    values: Source
    width: int
    kind = Kind.VARINT

    def columns(self, rows: I64) -> list[Array]:
        """Return the bytes of the chosen rows, in order, as columns of words."""
        values = values_of(self.values, rows)
        if values.dtype.kind == "i":
            values = np.maximum(values, 0)
        values = values.astype(np.uint64)
        if self.width == 4:
            return [_spread(values, 4, last=True).astype(np.uint32)]
        if self.width == 8:
            return [_spread(values, 8, last=True)]
        rest = values >> np.uint64(56)
        end = (rest & np.uint64(0x7F)) | np.uint64(0x80) | (rest >> np.uint64(7)) << np.uint64(8)
        return [_spread(values, 8, last=False), end.astype(np.uint16)]


@dataclass(frozen=True, eq=False)
class Fixed64:
    """A column of eight bytes each.

    Attributes:
        values: integers or 64-bit floating-point numbers, by row.
    """

    values: Source
    kind = Kind.FIXED

    def columns(self, rows: I64) -> list[Array]:
        """Return the values of the chosen rows."""
        values = values_of(self.values, rows)
        return [(values if values.dtype.kind == "f" else values.astype(np.int64)).view(np.uint64)]


def width_for(largest: int) -> int:
    """Return in how many bytes a column of numbers up to ``largest`` is written."""
    return 4 if largest < 1 << 28 else 8 if largest < 1 << 56 else 10


def _spread(values: Array, count: int, *, last: bool) -> Array:
    """Return seven bits in each of ``count`` bytes, of which the last ends the number or not."""
    word = np.zeros_like(values)
    for place in range(count):
        bits = values & np.uint64(0x7F << 7 * place)
        word |= bits << np.uint64(place)
    marks = sum(0x80 << 8 * place for place in range(count - last))
    return word | np.uint64(marks)


class Interned:
    """Strings that are sent once, and stand for themselves by number from then on.

    Args:
        field: of ``InternedData``.
        string_field: of its entries, in which the string stands.
    """

    def __init__(self, field: int, string_field: int = 2) -> None:
        self._field = field
        self._string_field = string_field
        self._numbers: dict[str, int] = {}
        self._fresh: list[bytes] = []

    def number(self, value: str) -> int:
        """Return the number of a string."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self._numbers) + 1
            entry = number(1, found) + text(self._string_field, value)
            self._fresh.append(message(self._field, entry))
        return found

    def fresh(self) -> bytes:
        """Return the fields of ``InternedData`` for what is new since the last call."""
        fields = b"".join(self._fresh)
        self._fresh.clear()
        return fields


def _value(strings: Interned, value: object) -> bytes:
    if isinstance(value, bool):
        return number(2, value)
    if isinstance(value, int):
        return number(4, value) if value < 0 else number(3, value)
    if isinstance(value, float):
        return double(5, value)
    if isinstance(value, list | tuple):
        return b"".join(message(12, _value(strings, one)) for one in value)
    return number(17, strings.number(str(value)))


def annotation(names: Interned, strings: Interned, name: str, value: object) -> bytes:
    """Return a debug annotation's content: a value under a name."""
    return number(1, names.number(name)) + _value(strings, value)
