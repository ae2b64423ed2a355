"""Steps, phases and `RecordEvent` as an emitter sees them."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

import pytest

from nvtrace import ranges
from nvtrace.emit import Calls, Label, switch
from nvtrace.errors import UsageError
from nvtrace.phases import CATEGORIES, RecordEvent, phase, step

Events = list[tuple[Any, ...]]


class Tape:
    """Writes down (call, name, category, payload); of an end, the handle and no payload."""

    def __init__(self) -> None:
        self.events: Events = []

    def bind(self, label: Label) -> Calls:
        def write(call: str, last: Any) -> int:
            self.events.append((call, label.name, label.category, last))
            return len(self.events)

        def call(name: str) -> Any:
            return lambda: write(name, label.payload)

        return Calls(
            call("push"),
            call("pop"),
            call("start"),
            lambda handle: write("end", handle),
            call("mark"),
        )


@pytest.fixture
def events() -> Iterator[Events]:
    tape = Tape()
    before = switch.use(tape)
    yield tape.events
    ranges.enable()
    switch.use(before)


def test_steps_have_one_name_and_their_number_as_payload(events: Events) -> None:
    for number in (1, 2):
        with step(number):
            pass
    with step(name="iteration"):
        pass
    assert events[::2] == [
        ("push", "step", "step", 1),
        ("push", "step", "step", 2),
        ("push", "iteration", "step", None),
    ]


@pytest.mark.parametrize("name", ["dataloader", "forward", "backward", "optimization"])
def test_phases(events: Events, name: str) -> None:
    @phase(name.title())
    def part() -> None:
        pass

    part()
    assert events == [("push", name, name, None), ("pop", name, name, None)]


@pytest.mark.parametrize("name", ["evaluation", "step", None])
def test_what_is_no_phase_is_told(name: Any) -> None:
    with pytest.raises(UsageError, match="is no phase: use dataloader, forward, backward"):
        phase(name)


def test_the_categories_of_the_wire() -> None:
    phases = ["dataloader", "forward", "backward", "optimization"]
    others = ["communication", "operator", "operator_inner", "module", "user"]
    assert list(CATEGORIES) == ["step", *phases, *others]


def test_events_may_overlap_and_keep_their_own_handle(events: Events) -> None:
    """O-36: push 1, push 2, close 1, close 2."""
    one, two = RecordEvent("one"), RecordEvent("two")
    one.begin()
    two.begin()
    one.end()
    one.end()  # a stray close is nothing
    two.end()
    assert events == [
        ("start", "one", "user", None),
        ("start", "two", "user", None),
        ("end", "one", "user", 1),
        ("end", "two", "user", 2),
    ]


def test_an_event_begun_again_while_open(events: Events) -> None:
    event = RecordEvent("e")
    event.begin()
    event.begin()
    event.end()
    event.end()
    assert [(e[0], e[3]) for e in events] == [
        ("start", None),
        ("start", None),
        ("end", 2),
        ("end", 1),
    ]


def test_event_as_decorator_and_block_nests(events: Events) -> None:
    event = RecordEvent("e")

    @event
    def decorated() -> int:
        return 3

    with event as entered, event:
        assert entered is event
        assert decorated() == 3
    assert [e[0] for e in events] == ["push", "push", "push", "pop", "pop", "pop"]


class TracerEventType(enum.Enum):
    """The members of paddle.profiler's enumeration that Python code uses."""

    Operator = 0
    Dataloader = 1
    ProfileStep = 2
    UserDefined = 7
    OperatorInner = 8
    Forward = 9
    Backward = 10
    Optimization = 11
    Communication = 12
    PythonOp = 13
    PythonUserDefined = 14


def test_event_types_become_categories(events: Events) -> None:
    for member in TracerEventType:
        with RecordEvent(member.name, member):
            pass
        with RecordEvent(member.name, member.name):
            pass
    assert events[::4] == events[2::4]
    assert {e[1]: e[2] for e in events} == {
        "Operator": "operator",
        "Dataloader": "dataloader",
        "ProfileStep": "step",
        "UserDefined": "user",
        "OperatorInner": "operator_inner",
        "Forward": "forward",
        "Backward": "backward",
        "Optimization": "optimization",
        "Communication": "communication",
        "PythonOp": "operator",
        "PythonUserDefined": "user",
    }


def test_switching_inside_an_event(events: Events) -> None:
    event = RecordEvent("e")
    with event:
        event.begin()
        ranges.disable()
        with event:
            event.end()
            event.begin()
            ranges.enable()
        event.end()
    assert [e[0] for e in events] == ["push", "start", "end", "pop"]
