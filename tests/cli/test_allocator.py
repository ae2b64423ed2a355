"""Freed memory is kept where glibc is asked to, and nothing is asked elsewhere."""

from __future__ import annotations

import ctypes

import pytest

from nvtrace.cli.allocator import keep_freed_memory

TRIM, MMAP = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h


class Libc:
    """A C library whose mallopt takes no mmap threshold over ``most``, as old ones do."""

    def __init__(self, most: int) -> None:
        self.most, self.set = most, {}

    def mallopt(self, which: int, value: int) -> int:
        if which == MMAP and value > self.most:
            return 0
        self.set[which] = value
        return 1


@pytest.mark.parametrize(("most", "threshold"), [(2**31, 2**31 - 1), (2**25, 2**25)])
def test_both_thresholds_are_as_high_as_the_library_takes(most, threshold, monkeypatch):
    libc = Libc(most)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: libc)
    keep_freed_memory()
    assert libc.set == {TRIM: 2**31 - 1, MMAP: threshold}


@pytest.mark.parametrize("library", [object(), None])
def test_another_allocator_is_left_alone(library, monkeypatch):
    def load(name):
        if library is None:
            raise OSError
        return library

    monkeypatch.setattr(ctypes, "CDLL", load)
    keep_freed_memory()
