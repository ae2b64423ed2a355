"""How a name prints: on one line, no longer than asked, and never like another name."""

from __future__ import annotations

import re
from collections.abc import Sequence

NOT_RECORDED = "-"
_EMPTY = '""'
_ELLIPSIS = "..."
_SURROGATE = re.compile("[\ud800-\udfff]")


def valid_utf8(text: str) -> str:
    r"""Return ``text`` with each undecodable byte, a lone surrogate, written as ``\xff``."""
    return text if text.isascii() else _SURROGATE.sub(_escape, text)


def one_line(text: str) -> str:
    r"""Return ``text`` with line breaks, escape codes and what else does not print escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _SURROGATE.sub(_escape, _ascii(c)) for c in text)


def cut(text: str, width: int, suffix: str = "") -> str:
    """Return ``text`` in at most ``width`` characters, cut in the middle, ``suffix`` last."""
    room = width - len(suffix)
    if len(text) <= room:
        return text + suffix
    room = max(room - len(_ELLIPSIS), 2)
    return text[: room - room // 2] + _ELLIPSIS + text[-(room // 2) :] + suffix


def printed_names(names: Sequence[str | None], width: int) -> list[str]:
    """Return ``names`` as they print in one table, in at most ``width`` characters each.

    The same name prints the same everywhere; two names that would look alike once cut or
    escaped end in ``#2``, ``#3`` and so on.
    """
    distinct = dict.fromkeys(name for name in names if name is not None)
    lines = {name: one_line(name) or _EMPTY for name in distinct}
    whole = {name for name, line in lines.items() if line == name and len(line) <= width}
    printed: dict[str | None, str] = {None: NOT_RECORDED, **{name: name for name in whole}}
    used = set(printed.values())
    number: dict[str, int] = {}
    for name, line in lines.items():
        if name in whole:
            continue
        short = candidate = cut(line, width)
        while candidate in used:
            number[short] = number.get(short, 1) + 1
            candidate = cut(line, width, f" #{number[short]}")
        used.add(candidate)
        printed[name] = candidate
    return [printed[name] for name in names]


def _ascii(char: str) -> str:
    return char if _SURROGATE.match(char) else char.encode("unicode_escape").decode()


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    # Python decodes an undecodable byte 0x80..0xff to 0xdc80..0xdcff.
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"
