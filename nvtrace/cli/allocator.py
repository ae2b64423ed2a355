"""How memory is asked for while a report is analysed."""

from __future__ import annotations

import ctypes

# of malloc.h
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST = 2**31 - 1


def keep_freed_memory() -> None:
    """Let glibc use again what large arrays give back, instead of asking the system each time.

    New memory must be cleared first: a sixth of all time for ten million kernels. Elsewhere than
    on glibc nothing is done.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(_TRIM_THRESHOLD, _LARGEST)
    if not mallopt(_MMAP_THRESHOLD, _LARGEST):
        mallopt(_MMAP_THRESHOLD, 2**25)  # the most that older versions take
