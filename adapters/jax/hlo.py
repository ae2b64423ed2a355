"""Optimised HLO modules: their instructions, names, source lines and data flow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .wire import Message, fields, packed

# the computations of these are part of the program; those of others are reducers and comparators
_EXPANDED = {"fusion", "call", "while", "conditional", "async-start", "async-update", "async-done"}


@dataclass(slots=True)
class Instruction:
    """One instruction.

    Attributes:
        name: unique within its module.
        opcode: such as ``fusion`` or ``dot``.
        op_name: what the program was doing when it was traced; empty where XLA made it.
        file: source file; empty where unknown.
        line: line in it, 0 unknown.
        operands: ids of instructions.
        called: ids of computations.
        parameter: which one, for parameters.
        target: of a custom call.
        id: unique within its module.
    """

    name: str = ""
    opcode: str = ""
    op_name: str = ""
    file: str = ""
    line: int = 0
    operands: list[int] = field(default_factory=list)
    called: list[int] = field(default_factory=list)
    parameter: int = 0
    target: str = ""
    id: int = 0
    _frame: int = 0

    @property
    def source(self) -> str:
        """``file:line``, empty where unknown."""
        return f"{self.file}:{self.line}" if self.file else ""


@dataclass(slots=True)
class Computation:
    """Some instructions in an order in which they may run.

    Attributes:
        id: unique within its module.
        root: id of the instruction whose value is its result.
        instructions: operands before their users.
    """

    id: int = 0
    root: int = 0
    instructions: list[Instruction] = field(default_factory=list)


@dataclass(slots=True)
class Module:
    """A compiled program.

    Attributes:
        name: such as ``jit_train_step``.
        id: what ranges and events of XLA's call its program_id.
        computations: by id.
        entry: id of the computation that runs first.
    """

    name: str = ""
    id: int = 0
    entry: int = 0
    computations: dict[int, Computation] = field(default_factory=dict)

    def instructions(self) -> Iterator[Instruction]:
        """Yield all instructions."""
        for computation in self.computations.values():
            yield from computation.instructions

    def expanded(self, instruction: Instruction) -> list[Computation]:
        """Return the computations that run as a part of an instruction, reducers left out."""
        if instruction.opcode not in _EXPANDED:
            return []
        return [self.computations[one] for one in instruction.called if one in self.computations]


def read_hlo_proto(buffer: bytes) -> Module:
    """Return the module of a serialised HloProto.

    Raises:
        CorruptReport: it is none.
    """
    for number, value in fields(Message.whole(buffer)):
        if number == 1 and isinstance(value, Message):
            return _module(value)
    return Module()


def read_module(buffer: bytes) -> Module:
    """Return the module of a serialised HloModuleProto.

    Raises:
        CorruptReport: it is none.
    """
    return _module(Message.whole(buffer))


def _module(message: Message) -> Module:
    module = Module()
    frames: _Frames | None = None
    for number, value in fields(message):
        if isinstance(value, int):
            if number == 5:
                module.id = value
            elif number == 6:
                module.entry = value
        elif number == 1:
            module.name = value.text()
        elif number == 3:
            computation = _computation(value)
            module.computations[computation.id] = computation
        elif number == 17:
            frames = _Frames(value)
    if frames is not None:
        for instruction in module.instructions():
            if instruction._frame and not instruction.file:
                instruction.file, instruction.line = frames.place(instruction._frame)
    return module


def _computation(message: Message) -> Computation:
    computation = Computation()
    for number, value in fields(message):
        if isinstance(value, int):
            if number == 5:
                computation.id = value
            elif number == 6:
                computation.root = value
        elif number == 2:
            computation.instructions.append(_instruction(value))
    return computation


def _instruction(message: Message) -> Instruction:
    found = Instruction()
    for number, value in fields(message):
        if number == 36:
            found.operands += packed(value)
        elif number == 38:
            found.called += packed(value)
        elif isinstance(value, int):
            if number == 35:
                found.id = value
            elif number == 9:
                found.parameter = value
        elif number == 1:
            found.name = value.text()
        elif number == 2:
            found.opcode = value.text()
        elif number == 7:
            _read_metadata(found, value)
        elif number == 28:
            found.target = value.text()
    return found


def _read_metadata(instruction: Instruction, message: Message) -> None:
    for number, value in fields(message):
        if isinstance(value, int):
            if number == 4:
                instruction.line = value
            elif number == 15:
                instruction._frame = value
        elif number == 2:
            instruction.op_name = value.text()
        elif number == 3:
            instruction.file = value.text()


class _Frames:
    """The module's index of stack frames; ids count from 1."""

    def __init__(self, message: Message) -> None:
        self._files: list[str] = []
        self._locations: list[tuple[int, int]] = []
        self._frames: list[int] = []
        for number, value in fields(message):
            if not isinstance(value, Message):
                continue
            if number == 1:
                self._files.append(value.text())
            elif number == 3:
                place = dict(fields(value))
                self._locations.append((_number(place, 1), _number(place, 3)))
            elif number == 4:
                self._frames.append(_number(dict(fields(value)), 1))

    def place(self, frame: int) -> tuple[str, int]:
        """Return file and line of a frame; an empty file where unknown."""
        if not 0 < frame <= len(self._frames):
            return "", 0
        location = self._frames[frame - 1]
        if not 0 < location <= len(self._locations):
            return "", 0
        file, line = self._locations[location - 1]
        return (self._files[file - 1], line) if 0 < file <= len(self._files) else ("", 0)


def _number(found: dict[int, int | Message], key: int) -> int:
    value = found.get(key, 0)
    return value if isinstance(value, int) else 0
