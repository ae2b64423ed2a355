"""What a generated report holds, and how it is written."""

from __future__ import annotations

import getpass
import itertools
import os
import socket
import sqlite3
from pathlib import Path

import pytest

from nvtrace.demo import report as report_module
from nvtrace.demo import write_report
from nvtrace.demo.__main__ import main
from nvtrace.errors import OutputError, UsageError


def values(report, query) -> set:
    return {value for (value,) in report.rows.execute(query)}


def test_every_view_has_something_to_show(everything):
    categories = values(everything, "SELECT text FROM NVTX_EVENTS WHERE eventType = 33")
    assert categories == {
        *("step", "dataloader", "forward", "backward", "optimization"),
        *("communication", "operator", "operator_inner", "module", "user"),
    }
    assert values(everything, "SELECT text FROM NVTX_EVENTS WHERE eventType = 75") == {
        "nvtrace",
        "NCCL",
    }
    assert values(everything, "SELECT eventType FROM NVTX_EVENTS") == {33, 34, 59, 60, 75}
    assert values(everything, "SELECT DISTINCT copyKind FROM CUPTI_ACTIVITY_KIND_MEMCPY") == {
        *(1, 2, 8),
    }
    for where in ("text NOT NULL", "textId NOT NULL", "endGlobalTid NOT NULL", "end IS NULL"):
        (count,) = everything.rows.execute(
            f"SELECT count(*) FROM NVTX_EVENTS WHERE eventType IN (59, 60) AND {where}"
        ).fetchone()
        assert count
    for table in ("MEMSET", "GRAPH_TRACE", "SYNCHRONIZATION"):
        assert values(everything, f"SELECT count(*) > 0 FROM CUPTI_ACTIVITY_KIND_{table}") == {1}


def test_processes_share_correlation_ids_and_differ_in_domain_ids(report):
    distinct, rows = report.rows.execute(
        "SELECT count(DISTINCT correlationId), count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME"
    ).fetchone()
    assert distinct * 3 < rows * 2
    domains = report.rows.execute(
        "SELECT count(DISTINCT domainId) FROM NVTX_EVENTS WHERE eventType = 75 AND text = 'NCCL'"
    ).fetchone()
    assert domains == (2,)


def test_rows_are_in_order_of_time(report):
    for table in ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL"):
        starts = [s for (s,) in report.rows.execute(f"SELECT start FROM {table} ORDER BY rowid")]
        assert starts == sorted(starts)


def test_a_stream_runs_one_thing_at_a_time(report):
    tables = ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")
    rows = report.rows.execute(
        " UNION ALL ".join(
            f"SELECT deviceId, streamId, start, end FROM CUPTI_ACTIVITY_KIND_{table}"
            for table in tables
        )
        + " ORDER BY 1, 2, 3"
    ).fetchall()
    for (*lane, _, end), (*next_lane, start, _) in itertools.pairwise(rows):
        assert lane != next_lane or end <= start


def test_at_least_the_kernels_asked_for(tmp_path):
    path = write_report(tmp_path / "a.sqlite", kernels=5_000, truth=False)
    connection = sqlite3.connect(path)
    (count,) = connection.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    connection.close()
    assert 5_000 <= count < 5_500
    assert os.listdir(tmp_path) == ["a.sqlite"]


def test_same_arguments_same_bytes(tmp_path):
    first, second, other = (
        write_report(tmp_path / name, kernels=300, seed=seed, edge=True)
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first.read_bytes() == second.read_bytes() != other.read_bytes()
    for suffix in ("json", "npz"):
        one, two = (Path(f"{path}.truth.{suffix}").read_bytes() for path in (first, second))
        assert one == two


def test_says_that_it_is_synthetic_and_nothing_about_the_machine(everything):
    assert values(everything, "SELECT name FROM PROCESSES") == {"nvtrace demo (synthetic)"}
    content = everything.path.read_bytes()
    for secret in (str(Path.home()), socket.gethostname(), str(everything.path.parent)):
        if len(secret) > 3:
            assert secret.encode() not in content
    assert f"/{getpass.getuser()}/".encode() not in content


@pytest.mark.parametrize("options", [{"kernels": 0}, {"ranks": 0}, {"ranks": 9}])
def test_numbers_out_of_range(tmp_path, options):
    with pytest.raises(UsageError, match=f"{next(iter(options))} must be"):
        write_report(tmp_path / "a.sqlite", **options)
    assert not list(tmp_path.iterdir())


def test_missing_folder(tmp_path):
    with pytest.raises(OutputError, match="cannot write"):
        write_report(tmp_path / "missing" / "a.sqlite", kernels=10)


def test_interrupted_run_leaves_the_old_file(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    path = tmp_path / "a.sqlite"
    path.write_bytes(b"old")
    monkeypatch.setattr(report_module, "write_metadata", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_report(path, kernels=10)
    assert [p.name for p in tmp_path.iterdir()] == ["a.sqlite"]
    assert path.read_bytes() == b"old"


def test_command(tmp_path, capsys):
    path = tmp_path / "a.sqlite"
    assert main([str(path), "--kernels", "1e2", "--ranks", "1", "--no-truth"]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    assert main([str(path), "--ranks", "9"]) == 1
    assert capsys.readouterr().err == "error: ranks must be from 1 to 8, not 9\n"
