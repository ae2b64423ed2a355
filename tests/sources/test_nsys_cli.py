from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvtrace.errors import CorruptReport, NvtraceError, OutputError, SourceError, ToolNotFound
from nvtrace.sources import nsys_cli, nsys_install

HEADER = b"NVIDIA Tegra Profiler Report %s."  # as in every .nsys-rep; dots of the version are @
PROGRAM = """
import nvtrace
for _ in range(3):
    with nvtrace.range("outer"):
        with nvtrace.range("inner", domain="d"):
            pass
"""
NEWER = (  # what nsys 2023.4.4 says of a report whose version it does not know
    "Exportation error: Report was created in Nsight Systems version "
    "(2026.2.1.54-234433681190v0), newer than your current version (2023.4.4.54-234433681190v0).\n"
    "Please update your Nsight Systems to the latest version to view this report."
)
MakeNsys = Callable[..., Path]


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NVTRACE_NSYS", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(nsys_install, "INSTALL_PATTERNS", ())


@pytest.fixture(scope="module")
def recorded(nsys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "program.py").write_text(PROGRAM)
    options = ["-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-o", "run"]
    command = [nsys, "profile", *options, sys.executable, "program.py"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=900)
    return folder / "run.nsys-rep"


@pytest.fixture
def real(recorded: Path, nsys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NVTRACE_NSYS", str(nsys))
    report = tmp_path / "reports" / "run.nsys-rep"
    report.parent.mkdir()
    shutil.copy(recorded, report)
    return report


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "reports" / "run.nsys-rep"
    path.parent.mkdir()
    path.write_bytes(HEADER % b"2023@4@4@54-1v0" + b"rest")
    return path


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeNsys:
    """Make a program that answers like nsys: ``$5`` is the output of ``nsys export``."""
    whole = tmp_path / "whole.sqlite"
    write_export(whole)

    def make(script: str = 'cp "$WHOLE" "$5"', version: str = "2023.4.4", at: str = "fake") -> Path:
        path = tmp_path / at / "nsys"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f'#!/bin/sh\nWHOLE="{whole}"\n'
            f'if [ "$1" = --version ]; then echo "NVIDIA Nsight Systems version {version}.54-1v0"; '
            f"exit 0; fi\n{script}\n"
        )
        path.chmod(0o755)
        monkeypatch.setenv("NVTRACE_NSYS", str(path))
        return path

    return make


def write_export(path: Path, tables_to_export: str = "") -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        db.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
        row = ("EXPORT_PARAM_TABLES_TO_EXPORT", tables_to_export)
        db.execute("INSERT INTO META_DATA_EXPORT VALUES (?, ?)", row)
    db.close()


def age(path: Path, seconds: float) -> None:
    when = time.time() - seconds
    os.utime(path, (when, when))


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def check_line(error: pytest.ExceptionInfo[NvtraceError], *parts: str) -> None:
    message = str(error.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


# --- with the real nsys ---------------------------------------------------------------------------


def test_export_holds_every_range(real: Path) -> None:
    said: list[str] = []
    export = nsys_cli.export(real, progress=said.append)
    assert export == real.with_suffix(".sqlite")
    assert files(real.parent) == ["run.nsys-rep", "run.sqlite"]
    assert said[-1] == "nsys export run.nsys-rep: 100 %"
    db = sqlite3.connect(export)
    query = (
        "SELECT coalesce(text, value), count(*) FROM NVTX_EVENTS "
        "LEFT JOIN StringIds ON id = textId WHERE eventType = 59 GROUP BY 1 ORDER BY 1"
    )
    assert db.execute(query).fetchall() == [("inner", 3), ("outer", 3)]
    db.close()


def test_truncated_report(real: Path) -> None:
    real.write_bytes(real.read_bytes()[:40_000])
    with pytest.raises(CorruptReport) as error:
        nsys_cli.export(real)
    check_line(error, "run.nsys-rep", "damaged", "nsys 2023.4.4")
    assert files(real.parent) == ["run.nsys-rep"]


def test_text_file_named_as_a_report(real: Path) -> None:
    real.write_text("no report at all\n" * 100)
    with pytest.raises(CorruptReport) as error:
        nsys_cli.export(real)
    check_line(error, "run.nsys-rep", "not a report")


def test_report_of_a_newer_nsys(real: Path) -> None:
    real.write_bytes(real.read_bytes().replace(b"2023@4@4@54", b"2026@2@1@54", 1))
    with pytest.raises(ToolNotFound) as error:
        nsys_cli.export(real)
    check_line(
        error, "nsys 2026.2.1 or newer", "2023.4.4", "nsys export --type sqlite run.nsys-rep"
    )


def test_file_size_limit(real: Path) -> None:
    code = (
        "import resource, sys; from pathlib import Path; from nvtrace.sources import nsys_cli\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "try: nsys_cli.export(Path(sys.argv[1]))\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code, real], capture_output=True, text=True)
    assert run.stdout.startswith("OutputError ")
    assert "no room for the SQLite export" in run.stdout
    assert files(real.parent) == ["run.nsys-rep"]


# --- reuse and place ------------------------------------------------------------------------------


def test_a_current_export_is_reused(report: Path, fake: MakeNsys) -> None:
    fake("exit 1")
    write_export(report.with_suffix(".sqlite"))
    assert nsys_cli.export(report) == report.with_suffix(".sqlite")


def test_a_stale_export_is_made_anew(report: Path, fake: MakeNsys) -> None:
    fake()
    export = report.with_suffix(".sqlite")
    write_export(export)
    age(export, 60)
    assert nsys_cli.export(report) == export
    assert export.stat().st_mtime_ns >= report.stat().st_mtime_ns


def test_an_interrupted_export_is_made_anew(report: Path, fake: MakeNsys) -> None:
    # A killed nsys leaves a newer file whose first page is zero (GindaChen/nsys-ai PR 126).
    fake()
    export = report.with_suffix(".sqlite")
    export.write_bytes(bytes(8192))
    assert nsys_cli.export(report) == export
    assert export.read_bytes().startswith(b"SQLite format 3\0")


def test_a_cut_off_export_is_not_reused(report: Path, fake: MakeNsys) -> None:
    fake()
    export = report.with_suffix(".sqlite")
    write_export(export)
    whole = export.read_bytes()
    export.write_bytes(whole[:-4096])
    made = nsys_cli.export(report)
    assert made.stat().st_size == len(whole)


def test_an_export_of_some_tables_is_kept_and_not_used(
    report: Path, fake: MakeNsys, tmp_path: Path
) -> None:
    fake()
    partial = report.with_suffix(".sqlite")
    write_export(partial, tables_to_export="NVTX_EVENTS")
    before = partial.read_bytes()
    export = nsys_cli.export(report)
    assert export.is_relative_to(tmp_path / "cache")
    assert partial.read_bytes() == before


def test_a_file_that_is_no_export_is_kept(report: Path, fake: MakeNsys, tmp_path: Path) -> None:
    fake()
    report.with_suffix(".sqlite").write_text("mine")
    first = nsys_cli.export(report)
    assert first.is_relative_to(tmp_path / "cache")
    assert report.with_suffix(".sqlite").read_text() == "mine"
    fake("exit 1")
    assert nsys_cli.export(report) == first  # and the cached export is reused


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A folder that this process may read but not write; root gives up its rights for the test."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    (folder / "closed").mkdir()
    is_root = os.geteuid() == 0
    yield folder
    if is_root:
        os.seteuid(0)
    (folder / "closed").chmod(0o755)
    shutil.rmtree(folder)


def test_read_only_folder(read_only: Path, fake: MakeNsys, monkeypatch: pytest.MonkeyPatch) -> None:
    closed, opened = read_only / "closed", read_only / "open"
    monkeypatch.setenv("XDG_CACHE_HOME", str(opened / "cache"))
    write_export(opened / "whole.sqlite")
    program = fake(f'cp "{opened}/whole.sqlite" "$5"')
    monkeypatch.setenv("NVTRACE_NSYS", str(shutil.copy(program, opened / "nsys")))
    report = closed / "run.nsys-rep"
    report.write_bytes(HEADER % b"2023@4@4@54-1v0")
    closed.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)
    export = nsys_cli.export(report)
    assert export.is_relative_to(opened / "cache")
    assert files(closed) == ["run.nsys-rep"]


# --- what nsys answers ----------------------------------------------------------------------------


def test_nsys_says_the_report_is_newer(report: Path, fake: MakeNsys) -> None:
    fake(f"cat >&2 <<'END'\n{NEWER}\nEND\nexit 1")
    report.write_bytes(b"a header of another form")
    with pytest.raises(ToolNotFound) as error:
        nsys_cli.export(report)
    check_line(
        error, "nsys 2026.2.1 or newer", "2023.4.4", "nsys export --type sqlite run.nsys-rep"
    )


def test_nsys_fails_for_another_reason(report: Path, fake: MakeNsys) -> None:
    fake("printf 'Processing 10: [==40%% ]'; echo 'first'; echo 'the moon is full' >&2; exit 7")
    with pytest.raises(SourceError) as error:
        nsys_cli.export(report)
    check_line(error, "run.nsys-rep", "the moon is full")


def test_nsys_fails_without_a_word(report: Path, fake: MakeNsys) -> None:
    fake("exit 7")
    with pytest.raises(SourceError) as error:
        nsys_cli.export(report)
    check_line(error, "exit status 7")


def test_full_disk_leaves_nothing(report: Path, fake: MakeNsys) -> None:
    fake(
        'head -c 9000 /dev/zero > "$5"; printf "[==66%%  ]" >&2\n'
        'echo "Exportation error: database or disk is full" >&2; exit 1'
    )
    with pytest.raises(OutputError) as error:
        nsys_cli.export(report)
    check_line(error, "no room", "database or disk is full")
    assert files(report.parent) == ["run.nsys-rep"]


def test_success_without_a_whole_file_is_a_failure(report: Path, fake: MakeNsys) -> None:
    fake('head -c 9000 /dev/zero > "$5"')
    with pytest.raises(SourceError):
        nsys_cli.export(report)
    assert files(report.parent) == ["run.nsys-rep"]


def test_timeout(report: Path, fake: MakeNsys) -> None:
    fake("exec sleep 900")
    with pytest.raises(SourceError) as error:
        nsys_cli.export(report, timeout_s=0.3)
    check_line(error, "did not finish the export within 0.3 s")
    assert files(report.parent) == ["run.nsys-rep"]


def test_interrupt_stops_nsys_and_leaves_nothing(
    report: Path, fake: MakeNsys, tmp_path: Path
) -> None:
    fake(f"echo $$ > {tmp_path}/pid; echo '[==40% ]'; exec sleep 900")

    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nsys_cli.export(report, progress=interrupt)
    assert files(report.parent) == ["run.nsys-rep"]
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_progress_lines(report: Path, fake: MakeNsys, tmp_path: Path) -> None:
    """Each is passed on as it comes: the rest waits for somebody to see it."""
    fake(
        "printf '\\rAt: [0%%  ]\\rAt: [==40%%  ]' >&2\n"
        f"while [ ! -e {tmp_path}/seen ]; do sleep 0.01; done\n"
        'printf \'\\rAt: [=====100%%]\' >&2; cp "$WHOLE" "$5"'
    )
    said: list[str] = []

    def progress(line: str) -> None:
        said.append(line)
        if line.endswith(" 40 %"):
            (tmp_path / "seen").touch()

    nsys_cli.export(report, progress=progress, timeout_s=600)
    assert said[-1] == "nsys export run.nsys-rep: 100 %"
    assert "nsys export run.nsys-rep: 40 %" in said


# --- inputs that need no nsys ---------------------------------------------------------------------


def test_empty_report(report: Path) -> None:
    report.write_bytes(b"")
    with pytest.raises(CorruptReport) as error:
        nsys_cli.export(report)
    check_line(error, "run.nsys-rep", "empty")


def test_raw_stream(tmp_path: Path) -> None:
    stream = tmp_path / "run.qdstrm"
    stream.write_bytes(b"U3w[END]NVIDIA Nsight Systems Stream 2023.4.4.54-234433681190v0!")
    with pytest.raises(CorruptReport) as error:
        nsys_cli.export(stream)
    check_line(error, "QdstrmImporter -i run.qdstrm", "Nsight Systems 2023.4.4", "run.nsys-rep")


# --- which nsys -----------------------------------------------------------------------------------


def test_none_found(report: Path) -> None:
    with pytest.raises(ToolNotFound) as error:
        nsys_cli.export(report)
    check_line(
        error,
        "needs nsys 2023.4.4 or newer, there is none here",
        "NVTRACE_NSYS",
        "nsys export --type sqlite run.nsys-rep",
    )


def test_the_named_one_must_work(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVTRACE_NSYS", "/bin/true")
    with pytest.raises(ToolNotFound) as error:
        nsys_cli.export(report)
    check_line(error, "NVTRACE_NSYS=/bin/true")


def test_order_is_path_then_newest(
    fake: MakeNsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(version="2021.3.1", at="onpath")
    fake(version="2023.4.4", at="opt/a")
    fake(version="2024.10.2", at="opt/b")
    fake("", at="opt/broken").write_text("#!/bin/sh\nexit 1\n")
    monkeypatch.delenv("NVTRACE_NSYS")
    monkeypatch.setenv("PATH", f"{tmp_path}/onpath:/usr/bin:/bin")
    monkeypatch.setattr(
        nsys_install, "INSTALL_PATTERNS", (f"{tmp_path}/*/nsys", f"{tmp_path}/opt/*/nsys")
    )
    found = nsys_install.find_all()
    assert [nsys.version for nsys in found] == [(2021, 3, 1), (2024, 10, 2), (2023, 4, 4)]


def test_a_newer_install_opens_what_the_one_on_path_cannot(
    report: Path, fake: MakeNsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake("exit 1", version="2021.3.1", at="onpath")
    fake(version="2024.1.1", at="opt/b")
    monkeypatch.delenv("NVTRACE_NSYS")
    monkeypatch.setenv("PATH", f"{tmp_path}/onpath:/usr/bin:/bin")
    monkeypatch.setattr(nsys_install, "INSTALL_PATTERNS", (f"{tmp_path}/opt/*/nsys",))
    assert nsys_cli.export(report) == report.with_suffix(".sqlite")


def test_importer_beside_the_program(tmp_path: Path) -> None:
    for path in ("2024.1/target-linux-x64/nsys", "2024.1/host-linux-x64/QdstrmImporter"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    nsys = nsys_install.Nsys(tmp_path / "2024.1/target-linux-x64/nsys", (2024, 1, 1))
    assert nsys.importer == tmp_path / "2024.1/host-linux-x64/QdstrmImporter"
    (tmp_path / "2024.1/host-linux-x64/QdstrmImporter").unlink()
    assert nsys.importer is None
