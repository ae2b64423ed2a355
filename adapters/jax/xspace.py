"""XSpace, what a profiler session of JAX returns: planes of lines of events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .wire import Message, double, fields, signed

Value = int | float | str | bytes


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        name: such as ``PjitFunction(step)`` or ``dot.3``.
        start_ns: Unix time by the session's clock.
        duration_ns: its length.
        stats: facts about it, those of its kind included.
    """

    name: str
    start_ns: int
    duration_ns: int
    stats: dict[str, Value]


@dataclass(slots=True)
class Line:
    """Events of one thread, or of one stream of a device.

    Attributes:
        id: a thread's native id, on host planes.
        name: as the tracer names it.
        start_ns: what its events' offsets count from.
    """

    id: int = 0
    name: str = ""
    start_ns: int = 0
    _events: list[Message] = field(default_factory=list)


@dataclass(slots=True)
class Plane:
    """The lines of one source of events, such as the host or one GPU."""

    name: str = ""
    lines: list[Line] = field(default_factory=list)
    stats: dict[str, Value] = field(default_factory=dict)
    _kinds: dict[int, tuple[str, list[Message]]] = field(default_factory=dict)
    _facts: dict[int, str] = field(default_factory=dict)

    def events(self, line: Line, *prefixes: str, fact: str = "") -> Iterator[Event]:
        """Yield events of one of the plane's lines: all, or those chosen.

        Args:
            line: the line.
            prefixes: what names begin with.
            fact: a fact that events have, whatever their names.
        """
        every = not prefixes and not fact
        wanted = next((key for key, name in self._facts.items() if fact and name == fact), None)
        named = {key for key, (name, _) in self._kinds.items() if name.startswith(prefixes)}
        for message in line._events:
            if every or _kind_of(message) in named or _has_stat(message, wanted):
                yield self._event(message, line.start_ns)

    def kinds(self) -> Iterator[tuple[str, dict[str, Value]]]:
        """Yield name and facts of each kind of event, those without events too."""
        for name, stats in self._kinds.values():
            yield name, dict(self._stat(one) for one in stats)

    def _event(self, message: Message, base_ns: int) -> Event:
        kind = offset = duration = 0
        stats: list[Message] = []
        for number, value in fields(message):
            if isinstance(value, Message):
                if number == 4:
                    stats.append(value)
            elif number == 1:
                kind = value
            elif number == 2:
                offset = signed(value)
            elif number == 3:
                duration = signed(value)
        name, common = self._kinds.get(kind, ("", []))
        facts = dict(self._stat(one) for one in (*common, *stats))
        return Event(name, base_ns + offset // 1000, duration // 1000, facts)

    def _stat(self, message: Message) -> tuple[str, Value]:
        key = 0
        result: Value = 0
        for number, value in fields(message):
            if isinstance(value, Message):
                result = value.bytes() if number == 6 else value.text()
            elif number == 1:
                key = value
            elif number == 2:
                result = double(value)
            elif number == 3:
                result = value
            elif number == 4:
                result = signed(value)
            elif number == 7:
                result = self._facts.get(value, "")
        return self._facts.get(key, str(key)), result


def _kind_of(event: Message) -> int:
    """Return which kind an event is of, without reading the rest."""
    for number, value in fields(event):
        if number == 1 and isinstance(value, int):
            return value
    return 0


def _has_stat(event: Message, wanted: int | None) -> bool:
    if wanted is None:
        return False
    for number, value in fields(event):
        if number == 4 and isinstance(value, Message):
            for field_number, key in fields(value):
                if field_number == 1:
                    if key == wanted:
                        return True
                    break
    return False


def read(buffer: bytes) -> list[Plane]:
    """Return the planes of a serialised XSpace.

    Raises:
        CorruptReport: it is none.
    """
    return [
        _plane(value)
        for number, value in fields(Message.whole(buffer))
        if number == 1 and isinstance(value, Message)
    ]


def _plane(message: Message) -> Plane:
    plane = Plane()
    stats: list[Message] = []
    for number, value in fields(message):
        if isinstance(value, int):
            continue
        if number == 2:
            plane.name = value.text()
        elif number == 3:
            plane.lines.append(_line(value))
        elif number == 4:
            key, entry = _entry(value)
            plane._kinds[key] = _kind(entry)
        elif number == 5:
            key, entry = _entry(value)
            plane._facts[key] = _text_of(entry, 2)
        elif number == 6:
            stats.append(value)
    plane.stats = dict(plane._stat(one) for one in stats)
    return plane


def _line(message: Message) -> Line:
    line = Line()
    for number, value in fields(message):
        if isinstance(value, int):
            if number == 1:
                line.id = value
            elif number == 3:
                line.start_ns = signed(value)
        elif number == 2:
            line.name = value.text()
        elif number == 4:
            line._events.append(value)
    return line


def _entry(message: Message) -> tuple[int, Message]:
    """Return key and value of a map's entry."""
    key, found = 0, Message(b"", 0, 0)
    for number, value in fields(message):
        if isinstance(value, Message):
            found = value
        elif number == 1:
            key = value
    return key, found


def _kind(message: Message) -> tuple[str, list[Message]]:
    name, stats = "", []
    for number, value in fields(message):
        if isinstance(value, Message):
            if number == 2:
                name = value.text()
            elif number == 5:
                stats.append(value)
    return name, stats


def _text_of(message: Message, wanted: int) -> str:
    for number, value in fields(message):
        if number == wanted and isinstance(value, Message):
            return value.text()
    return ""
