"""Compressed output: one gzip stream, whatever the pieces, the library and the threads."""

from __future__ import annotations

import random
import sys
import zlib

import pytest

from nvtrace.sinks import chrome_output

WORDS = [b'{"ph":"X","name":"gemm",', b'"dur":12.345,', b'"args":{}},\n', b"\xff\x00"]


def pieces(seed: int) -> list[bytes]:
    choose = random.Random(seed)
    sizes = [0, 1, 3, 500, 40_000, 700_000]
    return [
        b"".join(choose.choices(WORDS, k=choose.choice(sizes) // 16 + 1))[: choose.choice(sizes)]
        for _ in range(choose.randint(0, 25))
    ]


@pytest.fixture(params=["isal", "zlib"])
def library(request, monkeypatch):
    if request.param == "zlib":
        monkeypatch.setitem(sys.modules, "isal", None)
        monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)
    else:
        pytest.importorskip("isal")


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("threads", [0, 1, 3])
@pytest.mark.parametrize("seed", range(8))
def test_pieces_are_one_stream(tmp_path, monkeypatch, seed, threads):
    monkeypatch.setattr(chrome_output, "_cores", lambda: max(threads, 1))
    if not threads:
        monkeypatch.setattr(chrome_output, "_pool", lambda threads: None)
    path, written = tmp_path / "out.gz", pieces(seed)
    with chrome_output.opened(path) as output:
        for piece in written:
            output.write(piece)
    found = zlib.decompressobj(31)  # of one member, and checks its sum and size
    assert found.decompress(path.read_bytes()) == b"".join(written)
    assert found.eof
    assert found.unused_data == b""
    assert output.bytes == path.stat().st_size


@pytest.mark.usefixtures("library")
def test_what_repeats_over_pieces_is_found(tmp_path):
    choose = random.Random(0)
    line = bytes(choose.randrange(256) for _ in range(1000))
    with chrome_output.opened(tmp_path / "out.gz") as output:
        for _ in range(200):
            output.write(line)
    assert output.bytes < 20 * len(line)


def test_threads_that_cannot_be_started_any_more_are_done_without(tmp_path, monkeypatch):
    class Ending:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def submit(self, *_):
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(chrome_output, "_pool", lambda threads: Ending())
    path = tmp_path / "out.gz"
    with chrome_output.opened(path) as output:
        for piece in (b"one", b"two"):
            output.write(piece)
    assert zlib.decompress(path.read_bytes(), 31) == b"onetwo"
