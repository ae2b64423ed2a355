"""The parts in C, each a library beside this file where it was built."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any


def path(name: str) -> Path:
    """Return where a part is, if it was built."""
    return Path(__file__).with_name("native") / f"{name}.so"


@cache
def library(name: str, *functions: str) -> Any:
    """Return a part, of which these functions return int64; None where it was not built."""
    try:
        found = ctypes.CDLL(str(path(name)))
        for function in functions:
            getattr(found, function).restype = ctypes.c_int64
    except (OSError, AttributeError):
        return None
    return found
