"""The native buffers: native threads fill them while Python threads are busy."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nvtrace.sources.cupti.decode import Decoder
from nvtrace.sources.cupti.layout import KIND_LIMIT, RecordKind
from nvtrace.sources.cupti.shim import Shim

SIZES = np.zeros(KIND_LIMIT, np.uint32)
SIZES[[1, 2, 5, 10]] = 96, 88, 40, 216

Scripted = Callable[[str], object]

REQUEST = ctypes.CFUNCTYPE(
    None,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_size_t),
)
COMPLETE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)


class Client:
    """CUPTI's side of the callbacks: asks for memory and gives it back."""

    def __init__(self, shim: Shim) -> None:
        self._request = REQUEST(shim.requested)
        self._complete = COMPLETE(shim.completed)

    def request(self) -> tuple[int, int]:
        memory, size, limit = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t(7)
        self._request(ctypes.byref(memory), ctypes.byref(size), ctypes.byref(limit))
        assert limit.value == 0, "as many records as fit"
        assert memory.value is not None
        return memory.value, size.value

    def complete(self, memory: int, records: int, first: int = 0) -> None:
        """Give memory back with runtime calls ``first``, ``first`` + 1, ..."""
        words = np.zeros((records, 10), np.uint32)
        words[:, 0], words[:, 8] = 5, np.arange(first, first + records)
        ctypes.memmove(memory, words.ctypes.data, words.nbytes)
        self._complete(None, 0, memory, 0, words.nbytes)


@pytest.fixture
def fresh(shim: Path, tmp_path: Path) -> tuple[Shim, Client]:
    """A shim of its own: the library keeps one set of buffers, so each test loads a copy."""
    copy = tmp_path / "buffers.so"
    copy.write_bytes(shim.read_bytes())
    native = Shim(copy)
    native.begin(SIZES, 4096, 4)
    return native, Client(native)


def ids(shim: Shim) -> list[int]:
    decoder = Decoder(SIZES, shim.walk)
    for records in shim.drain():
        decoder.add(records)
    return [int(one) for one in decoder.columns(RecordKind.RUNTIME)["correlation"]]


def test_buffers_come_back_in_order_and_are_used_again(fresh: tuple[Shim, Client]) -> None:
    shim, client = fresh
    used = []
    for turn in range(5):
        one, size = client.request()
        two, _ = client.request()
        assert size == 4096
        assert one % 8 == two % 8 == 0
        client.complete(two, 3, first=turn * 10)
        client.complete(one, 2, first=turn * 10 + 5)
        used += [one, two]
        assert ids(shim) == [turn * 10, turn * 10 + 1, turn * 10 + 2, turn * 10 + 5, turn * 10 + 6]
    assert len(set(used)) == 2
    counts = shim.counts()
    assert (counts.buffers, counts.held, counts.queued, counts.completed) == (2, 0, 0, 10)
    assert (counts.lost_buffers, counts.lost_span, counts.over_limit) == (0, None, 0)


def test_the_oldest_unread_buffer_gives_way(fresh: tuple[Shim, Client]) -> None:
    shim, client = fresh
    for turn in range(7):
        client.complete(client.request()[0], 10 + turn, first=100 * turn)
    counts = shim.counts()
    assert (counts.buffers, counts.queued) == (4, 4)
    assert (counts.lost_buffers, counts.lost_records) == (3, 10 + 11 + 12)
    assert counts.lost_bytes == 40 * (10 + 11 + 12)
    assert counts.lost_from < counts.lost_until
    got = ids(shim)
    assert got == [100 * turn + one for turn in range(3, 7) for one in range(10 + turn)]


def test_what_is_held_is_never_taken_and_never_refused(fresh: tuple[Shim, Client]) -> None:
    shim, client = fresh
    held = [client.request()[0] for _ in range(9)]
    assert len(set(held)) == 9
    assert (shim.counts().held, shim.counts().over_limit) == (9, 5)
    shim.trim()
    for number, memory in enumerate(held):
        client.complete(memory, 1, first=number)
    assert ids(shim) == list(range(9))
    shim.trim()
    assert shim.counts().buffers == 0


def test_memory_of_others_is_counted_and_left_alone(fresh: tuple[Shim, Client]) -> None:
    shim, client = fresh
    mine, _ = client.request()
    theirs = ctypes.create_string_buffer(80)
    client.complete(ctypes.addressof(theirs), 2)
    client.complete(mine, 1, first=9)
    client.complete(mine, 1, first=9)  # given back twice
    assert shim.counts().foreign == 2
    assert ids(shim) == [9]


def test_an_empty_buffer_is_free_again(fresh: tuple[Shim, Client]) -> None:
    shim, client = fresh
    memory, _ = client.request()
    client.complete(memory, 0)
    assert client.request()[0] == memory
    assert shim.counts().completed == 0


def test_a_buffer_of_an_earlier_capture_comes_back_whole(
    fresh: tuple[Shim, Client], tmp_path: Path
) -> None:
    shim, client = fresh
    shim.begin(SIZES, 16384, 4)
    large, _ = client.request()
    again = Shim(tmp_path / "buffers.so")
    again.begin(SIZES, 4096, 4)
    client.complete(large, 409)
    assert ids(again) == list(range(409))


def test_a_new_account_forgets_the_old_one_but_not_what_is_held(
    fresh: tuple[Shim, Client],
) -> None:
    shim, client = fresh
    early, size = client.request()
    client.complete(client.request()[0], 5)
    shim.begin(SIZES, 8192, 2)
    assert shim.counts().queued == 0
    assert shim.counts().held == 1
    later, larger = client.request()
    assert (size, larger) == (4096, 8192)
    client.complete(early, 102, first=1)  # all of the smaller one
    client.complete(later, 204, first=1000)
    assert ids(shim) == [*range(1, 103), *range(1000, 1204)]
    assert client.request()[1] == 8192, "a buffer of the old size is not handed out"


@pytest.fixture
def scripted(shim: Path, cupti_double: Path) -> Scripted:
    """Run a script with the shim and CUPTI's stand-in, no cupti-python between."""
    preamble = f"""
import ctypes, json, threading, time
from pathlib import Path
import numpy as np
from nvtrace.sources.cupti.decode import Decoder
from nvtrace.sources.cupti.library import Library
from nvtrace.sources.cupti.shim import Shim
library, shim = Library(Path({str(cupti_double)!r})), Shim(Path({str(shim)!r}))
sizes, cupti = library.sizes(), library.handle
register = cupti.cuptiActivityRegisterCallbacks
"""

    def run(script: str) -> object:
        command = [sys.executable, "-c", preamble + textwrap.dedent(script)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_native_threads_lose_nothing_while_python_is_busy(scripted: Scripted) -> None:
    got = scripted(
        """
        shim.begin(sizes, 1 << 16, 100000)
        register(ctypes.c_void_p(shim.requested), ctypes.c_void_p(shim.completed))
        for kind in (5, 10, 1, 2):
            cupti.cuptiActivityEnable(kind)
        done, decoder = threading.Event(), Decoder(sizes, shim.walk)
        def spin():
            while not done.is_set():
                sum(range(1000))
        def drain():
            while not done.is_set():
                for records in shim.drain():
                    decoder.add(records)
        threads = [threading.Thread(target=one) for one in (spin, spin, drain)]
        for thread in threads:
            thread.start()
        cupti.double_work(4, ctypes.c_long(60000))
        done.set()
        for thread in threads:
            thread.join()
        cupti.cuptiActivityFlushAll(1)
        for records in shim.drain():
            decoder.add(records)
        calls, kernels = decoder.columns(5), decoder.columns(10)
        order = np.argsort(kernels["correlation"])
        per_call = np.zeros(240001, np.uint64)
        per_call[calls["correlation"]] = calls["start"]
        print(json.dumps({
            "calls": len(calls["start"]), "kernels": len(kernels["start"]),
            "copies": len(decoder.columns(1)["start"]), "sets": len(decoder.columns(2)["start"]),
            "each once": bool((np.sort(calls["correlation"]) == np.arange(1, 240001)).all()),
            "same": bool((kernels["correlation"][order] == np.arange(1, 240001)).all()),
            "after": np.unique(kernels["start"][order] - per_call[1:]).tolist(),
            "threads": np.unique(calls["thread_id"], return_counts=True)[1].tolist(),
            "lost": shim.counts().lost_buffers, "unread": decoder.unread_bytes}))
        """
    )
    assert got == {
        "calls": 240_000,
        "kernels": 240_000,
        "copies": 24_000,
        "sets": 2_400,
        "each once": True,
        "same": True,
        "after": [10],
        "threads": [60_000] * 4,
        "lost": 0,
        "unread": 0,
    }


MEET = """
        meet = ctypes.PyDLL(str(library.path)).double_meet  # keeps the interpreter's lock
        print(json.dumps(meet(SECONDS)))
"""


def test_a_lock_held_while_asking_for_memory_does_not_hang_it(scripted: Scripted) -> None:
    native = """
        shim.begin(sizes, 1 << 16, 8)
        register(ctypes.c_void_p(shim.requested), ctypes.c_void_p(shim.completed))
    """
    assert scripted(native + MEET.replace("SECONDS", "600")) == 0


def test_a_python_callback_there_would_hang(scripted: Scripted) -> None:
    python = """
        kept = ctypes.create_string_buffer(1 << 16)
        @ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_void_p)
        def requested(memory, size, limit):
            memory[0] = ctypes.addressof(kept)
        register(requested, ctypes.c_void_p(shim.completed))
    """
    assert scripted(python + MEET.replace("SECONDS", "2")) == 1
