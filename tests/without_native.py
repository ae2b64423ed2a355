"""Timelines written in C, and as where no compiler was."""

from __future__ import annotations

import os

import pytest

from nvtrace.sinks import chrome_native


def without_native(patch: pytest.MonkeyPatch) -> None:
    """Have numpy write timelines."""
    patch.setattr(chrome_native, "library", lambda: None)


def need_native() -> None:
    if chrome_native.library() is None:
        where_required = pytest.fail if os.environ.get("CI") else pytest.skip
        where_required("nvtrace/native/timeline.so was not built: pip install --editable .")
