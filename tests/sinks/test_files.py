"""Output files are whole or absent."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading

import pytest

from nvtrace.errors import OutputError
from nvtrace.sinks.files import atomic_output, write

root_only = pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")


def test_writes_utf8_and_leaves_only_the_file(tmp_path):
    write("größe 中\n", tmp_path / "out.txt")
    assert os.listdir(tmp_path) == ["out.txt"]
    assert (tmp_path / "out.txt").read_bytes() == b"gr\xc3\xb6\xc3\x9fe \xe4\xb8\xad\n"


def test_undecodable_text_is_written_as_escapes(tmp_path):
    write("a\udcffb", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text("utf-8") == "a\\udcffb"


def test_nothing_bears_the_name_before_the_end(tmp_path):
    with atomic_output(tmp_path / "out") as file:
        file.write(b"x" * 100_000)
        file.flush()
        assert not (tmp_path / "out").exists()
    assert (tmp_path / "out").stat().st_size == 100_000


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, error):
    (tmp_path / "out").write_text("old")

    def fail():
        with atomic_output(tmp_path / "out") as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        fail()
    assert os.listdir(tmp_path) == ["out"]
    assert (tmp_path / "out").read_text() == "old"


def test_permissions_follow_the_umask_or_the_file_replaced(tmp_path):
    umask = os.umask(0o027)
    try:
        write("x", tmp_path / "new")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o604)
    write("y", tmp_path / "new")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o604


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write("new", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_pipe_is_written_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write("through", pipe)
    reader.join(10)
    assert read == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_dash_is_standard_output(tmp_path):
    code = "from nvtrace.sinks.files import write; write('out\\n', '-')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True, text=True
    )
    assert done.stdout == "out\n"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "reason", "advice"),
    [
        ("none/out", "No such file or directory", "create the folder first"),
        ("file/out", "Not a directory", "name another folder"),
        ("folder", "Is a directory", "name a file"),
        ("n" * 300, "File name too long", "choose a shorter name"),
    ],
)
def test_bad_places_are_one_line_that_says_what_to_do(tmp_path, path, reason, advice):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError) as caught:
        write("x", tmp_path / path)
    message = str(caught.value)
    assert message.startswith(f"cannot write {tmp_path / path}: {reason}; ")
    assert message.endswith(advice)
    assert "\n" not in message
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_one_line():
    with pytest.raises(OutputError, match="No space left on device; free some space"):
        write("x" * 100_000, "/dev/full")


def test_a_file_that_cannot_be_finished_is_removed(tmp_path):
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "from nvtrace.errors import OutputError\n"
        "from nvtrace.sinks.files import write\n"
        "try: write('x' * 100_000, 'out')\n"
        "except OutputError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True, text=True
    )
    assert done.stdout == "cannot write out: File too large; choose another file\n"
    assert os.listdir(tmp_path) == []


@root_only
def test_read_only_places_are_one_line(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        for name in ("new", "file"):
            with pytest.raises(OutputError, match="Permission denied; choose a folder"):
                write("x", tmp_path / name)
    finally:
        tmp_path.chmod(0o755)
    assert (tmp_path / "file").read_text() == "old"
