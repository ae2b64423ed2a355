"""Protocol buffers, on examples of the format's own documentation and by hand."""

from __future__ import annotations

import contextlib
import random

import pytest
from nvtrace.adapters.jax import hlo, wire, xspace
from wire_bytes import message

from nvtrace.errors import CorruptReport


def read(buffer: bytes) -> list[tuple[int, int | bytes]]:
    return [
        (number, value if isinstance(value, int) else value.bytes())
        for number, value in wire.fields(wire.Message.whole(buffer))
    ]


def test_examples_of_the_documentation() -> None:
    assert read(b"\x08\x96\x01") == [(1, 150)]
    assert read(b"\x12\x07testing") == [(2, b"testing")]
    packed = dict(wire.fields(wire.Message.whole(b"\x32\x06\x03\x8e\x02\x9e\xa7\x05")))[6]
    assert wire.packed(packed) == [3, 270, 86942]


def test_numbers() -> None:
    assert read(b"\x09\0\0\0\0\0\0\xf0\x3f\x15\x01\0\0\0") == [(1, 0x3FF0 << 48), (2, 1)]
    assert wire.double(0x3FF0 << 48) == 1.0
    ((_, minus),) = read(message((1, -2)))
    assert wire.signed(minus) == -2
    assert wire.packed(7) == [7]


@pytest.mark.parametrize(
    "broken", [b"\x08", b"\x08\xff", b"\x12\x05ab", b"\x0b", b"\x08" + b"\xff" * 11, b"\x09\0\0"]
)
def test_what_is_cut_or_no_message_is_refused(broken: bytes) -> None:
    with pytest.raises(CorruptReport):
        read(broken)


def test_noise_is_read_or_refused() -> None:
    chance = random.Random(1)
    for _ in range(2000):
        noise = chance.randbytes(chance.randrange(1, 60))
        for reader in (xspace.read, hlo.read_hlo_proto, hlo.read_module):
            with contextlib.suppress(CorruptReport):
                reader(noise)


def test_a_session_is_read() -> None:
    kinds = message((1, 5), (2, message((1, 5), (2, b"dot.3"))))
    fact = message((1, 9), (2, message((1, 9), (2, b"hlo_op"))))
    name = message((1, 8), (2, message((1, 8), (2, b"dot.3"))))
    event = message((1, 5), (2, 3_000_500), (3, 2_000_000), (4, message((1, 9), (7, 8))))
    other = message((1, 6), (2, 1000))
    line = message((1, 42), (2, b"worker"), (3, 100), (4, event), (4, other))
    plane = message((2, b"/host:CPU"), (3, line), (4, kinds), (5, fact), (5, name))
    (found,) = xspace.read(message((1, plane)))
    assert found.name == "/host:CPU"
    assert (found.lines[0].id, found.lines[0].name) == (42, "worker")
    chosen = list(found.events(found.lines[0], fact="hlo_op"))
    assert [one.name for one in chosen] == ["dot.3"]
    assert (chosen[0].start_ns, chosen[0].duration_ns) == (3100, 2000)
    assert chosen[0].stats == {"hlo_op": "dot.3"}
    assert len(list(found.events(found.lines[0]))) == 2
    assert [one.name for one in found.events(found.lines[0], "dot")] == ["dot.3"]


def test_a_module_is_read() -> None:
    metadata = message((2, b"jit(f)/jvp(g)/dot"), (15, 1))
    one = message((1, b"p.1"), (2, b"parameter"), (35, 1), (9, 1))
    two = message((1, b"dot.2"), (2, b"dot"), (35, 2), (36, b"\x01\x01"), (7, metadata))
    computation = message((1, b"main"), (2, one), (2, two), (5, 7), (6, 2))
    frames = message(
        (1, b"train.py"), (3, message((1, 1), (2, 1), (3, 12))), (4, message((1, 1), (2, 0)))
    )
    module = message((1, b"jit_f"), (3, computation), (5, 4), (6, 7), (17, frames))
    found = hlo.read_hlo_proto(message((1, module)))
    assert (found.name, found.id, found.entry) == ("jit_f", 4, 7)
    parameter, dot = found.instructions()
    assert (parameter.name, parameter.parameter) == ("p.1", 1)
    assert (dot.opcode, dot.operands, dot.op_name) == ("dot", [1, 1], "jit(f)/jvp(g)/dot")
    assert dot.source == "train.py:12"
    assert parameter.source == ""
