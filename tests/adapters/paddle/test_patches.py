"""What is replaced comes back, by identity, and nobody else's work is lost."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("paddle", reason="needs paddlepaddle")

from nvtrace.adapters.paddle.patches import Patches


class Base:
    def step(self) -> str:
        return "step"


class Derived(Base):
    pass


def loud(original: Any) -> Any:
    return lambda self: original(self).upper()


def test_own_and_inherited_attributes_come_back() -> None:
    own = vars(Base)["step"]
    patches = Patches()
    patches.put(Base, "step", loud)
    patches.put(Derived, "step", loud)
    patches.put(Derived, "step", lambda original: pytest.fail("replaced twice"))
    assert Derived().step() == "STEP"
    patches.restore()
    assert vars(Base)["step"] is own
    assert "step" not in vars(Derived)


def test_what_others_put_on_top_stays() -> None:
    own = vars(Base)["step"]
    patches = Patches()
    patches.put(Base, "step", loud)
    mine = vars(Base)["step"]
    Base.step = theirs = lambda self: mine(self) + "!"  # type: ignore[method-assign]
    patches.restore()
    assert vars(Base)["step"] is theirs
    assert Base().step() == "STEP!"
    Base.step = own  # type: ignore[method-assign]


def test_each_window_begins_anew() -> None:
    patches = Patches()
    for _ in range(2):
        patches.put(Base, "step", loud)
        assert Base().step() == "STEP"
        patches.restore()
        assert Base().step() == "step"
