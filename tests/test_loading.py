"""Which files a user's paths mean, and what is said of those that mean none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from arrow_export import convert
from builders import Capture

import nvtrace
from nvtrace.errors import CorruptReport, NotAReport, NvtraceError, SourceError


def report(path: Path, name: str = "work") -> Path:
    capture = Capture(origin=10**9)
    capture.range(name, 0, 10)
    path.parent.mkdir(parents=True, exist_ok=True)
    return capture.write(path)


@pytest.fixture
def folder(tmp_path):
    for name in ("b.sqlite", "a.sqlite", "c.db", "deeper/d.sqlite"):
        report(tmp_path / name, name)
    (tmp_path / "notes.txt").write_text("not a report")
    return tmp_path


def names(path, **options) -> list[str]:
    return [source.name for source in nvtrace.load(path, **options).sources]


def test_a_file_by_text_or_path(folder):
    assert names(folder / "a.sqlite") == names(str(folder / "a.sqlite")) == ["a.sqlite"]


def test_a_folder_means_its_reports_by_name(folder):
    assert names(folder) == ["a.sqlite", "b.sqlite", "c.db"]


def test_a_glob(folder):
    assert names(str(folder / "*.sqlite")) == ["a.sqlite", "b.sqlite"]
    assert names(str(folder / "**" / "d.*")) == ["d.sqlite"]


def test_a_name_that_looks_like_a_glob_but_is_a_file(tmp_path):
    assert names(str(report(tmp_path / "run[1].sqlite"))) == ["run[1].sqlite"]


def test_several_in_the_order_given_each_once(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "link.sqlite").symlink_to(folder / "a.sqlite")
    given = ["b.sqlite", folder / "a.sqlite", "link.sqlite", "./b.sqlite", str(folder / "b.sqlite")]
    assert names(given) == ["b.sqlite", "a.sqlite"]


def test_an_export_of_another_name_is_read_for_what_it_is(tmp_path):
    assert names(report(tmp_path / "no-suffix")) == ["no-suffix"]


def test_progress_names_each_file(folder):
    told: list[str] = []
    nvtrace.load(folder, progress=told.append)
    assert [line for line in told if " of " in line] == [
        *("a.sqlite (1 of 3)", "b.sqlite (2 of 3)", "c.db (3 of 3)")
    ]


def test_without_details_launch_shapes_are_not_read(tmp_path):
    capture = Capture()
    capture.launch(0, 5, 10)
    path = capture.write(tmp_path / "a.sqlite")
    assert nvtrace.load(path).kernel_details.rows == 1
    bare = nvtrace.load(path, details=False)
    assert (bare.kernel_details.rows, bare.device.rows) == (0, 1)


def refused(path) -> NvtraceError:
    with pytest.raises(NvtraceError) as caught:
        nvtrace.load(path)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_status == 1
    return caught.value


def test_paths_that_mean_nothing(tmp_path):
    missing = tmp_path / "missing.sqlite"
    for path, said in (
        (missing, f"{missing}: no such file"),
        (
            tmp_path,
            f"{tmp_path}: a folder with no .sqlite, .nsys-rep or .qdrep file in it, "
            "and no Parquet export of nsys",
        ),
        (str(tmp_path / "*.sqlite"), f"{tmp_path / '*.sqlite'}: no file matches"),
        ([], "no file given; name a report"),
    ):
        error = refused(path)
        assert isinstance(error, NotAReport)
        assert str(error) == said


def test_files_that_are_no_reports(tmp_path):
    for content, kind in (
        (b"", CorruptReport),
        (b"hello, world\n" * 50, NotAReport),
        (b"\0" * 4096, CorruptReport),
    ):
        path = tmp_path / "x.sqlite"
        path.write_bytes(content)
        error = refused(path)
        assert isinstance(error, kind)
        assert str(path) in str(error)


def test_one_bad_file_among_good_ones_is_named(folder):
    bad = folder / "bb.sqlite"
    bad.write_bytes(b"SQLite format 3\0" + b"\x10\0" + b"\0" * 10)
    assert str(bad) in str(refused(folder))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_one_may_not_read(tmp_path):
    path = report(tmp_path / "a.sqlite")
    path.chmod(0)
    error = refused(path)
    assert isinstance(error, SourceError)
    assert "Permission denied" in str(error)


def test_a_folder_one_may_not_list(tmp_path, monkeypatch):
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    error = refused(tmp_path)
    assert isinstance(error, SourceError)
    assert str(error) == f"{tmp_path}: cannot be read: Permission denied"


def tables(folder: Path, name: str = "work") -> Path:
    """A folder as ``nsys export -t parquetdir`` makes it."""
    made = report(folder.with_name(f"{folder.name}.made"), name)
    convert(made, folder)
    made.unlink()
    return folder


def test_a_folder_of_tables_is_one_report(tmp_path, monkeypatch):
    folder = tables(tmp_path / "run_pqtdir")
    assert names(folder) == names(f"{folder}{os.sep}") == ["run_pqtdir"]
    monkeypatch.chdir(folder)
    assert names(".") == ["run_pqtdir"]


def test_folders_of_tables_among_others(folder):
    tables(folder / "t1_pqtdir")
    tables(folder / "t2")
    assert names(folder) == ["a.sqlite", "b.sqlite", "c.db"]
    given = [folder / "t2", folder / "a.sqlite", folder / "t1_pqtdir"]
    assert names(given) == ["t2", "a.sqlite", "t1_pqtdir"]
    assert names(str(folder / "t*")) == ["t1_pqtdir", "t2"]
    for file in ("a.sqlite", "b.sqlite", "c.db"):
        (folder / file).unlink()
    assert names(folder) == ["t1_pqtdir", "t2"]


def test_tables_and_reports_in_one_folder(tmp_path):
    report(tables(tmp_path / "mixed") / "a.sqlite")
    assert "holds the tables of an export and reports (a.sqlite)" in str(
        refused(tmp_path / "mixed")
    )


def test_exports_of_one_report_count_once(tmp_path):
    """By the names that nsys gives; ranks stay apart."""
    for rank in (0, 1):
        tables(tmp_path / f"run.rank{rank}_pqtdir")
    exports = [tmp_path / f"run.rank{rank}_pqtdir" for rank in (0, 1)]
    assert names(exports) == ["run.rank0_pqtdir", "run.rank1_pqtdir"]
    first = report(tmp_path / "run.rank0.sqlite")
    assert names([*exports, first]) == ["run.rank1_pqtdir", "run.rank0.sqlite"]
    recorded = tmp_path / "run.rank1.nsys-rep"
    recorded.write_bytes(b"needs an nsys")
    os.utime(recorded, (1, 1))
    assert names([recorded, *exports]) == ["run.rank0_pqtdir", "run.rank1_pqtdir"]
    later = max(file.stat().st_mtime for file in exports[1].iterdir()) + 10
    os.utime(recorded, (later, later))
    assert str(recorded) in str(refused([recorded, *exports]))  # the tables are older than it
