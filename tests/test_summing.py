"""nvtrace.summarize: several reports, of which one at a time is read."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from builders import Capture

import nvtrace
from nvtrace.demo.report import write_report
from nvtrace.errors import CorruptReport, UsageError

SECOND = 10**9


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("reports")
    paths = [folder / f"run.rank{rank}.sqlite" for rank in range(3)]
    for rank, path in enumerate(paths):
        write_report(path, kernels=300, ranks=1, seed=rank, edge=rank == 1)
    return paths


@pytest.fixture
def nothing_at_once(monkeypatch):
    """Fail where all reports are held at once."""

    def merge(*_, **__):
        pytest.fail("all reports were held at once")

    monkeypatch.setattr("nvtrace.loading.merge", merge)


def truths(reports: list[Path]) -> list[dict]:
    return [json.loads(Path(f"{path}.truth.json").read_text()) for path in reports]


@pytest.mark.usefixtures("nothing_at_once")
def test_totals_are_the_sums_of_what_is_true_of_each(reports):
    report = nvtrace.summarize(reports)
    kernels, copies, ranges = Counter(), Counter(), Counter()
    for truth in truths(reports):
        for row in truth["kernels"]:
            kernels[row["name"], "calls"] += row["calls"]
            kernels[row["name"], "ns"] += row["total_ns"]
        for row in truth["memory"]:
            copies["bytes"] += row["bytes"]
            copies["ns"] += row["total_ns"]
        for row in truth["ranges"]:
            if row["category"] in ("user", "module"):
                ranges[row["name"], row["domain"]] += row["gpu_total_ns"]
    assert kernels == Counter(
        {
            (row["name"], key): row[column]
            for row in report["kernel"]
            for key, column in (("calls", "calls"), ("ns", "gpu_total_ns"))
        }
    )
    assert copies["bytes"] == sum(row["bytes"] for row in report["memory"])
    assert copies["ns"] == sum(row["gpu_total_ns"] for row in report["memory"])
    found = Counter()
    for row in report["user_defined"]:
        found[row["name"], row["domain"]] += row["gpu_total_ns"] or 0
    assert {key: found[key] for key in ranges} == dict(ranges)
    assert report.totals["gpu_ns"] == sum(one["totals"]["gpu_ns"] for one in truths(reports))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"views": ["kernels_by_range", "operator"], "op_detail": True, "top": 5},
        {"views": "kernel", "sorted_by": "calls"},
        {"rank": 2, "rules": ["aten=user"]},
        {"steps": (1, 3)},
        {"time": (0, 10**6), "thread_sep": True},
        {"views": ["hlo", "host_steps", "allocations", "device_phases"]},
    ],
    ids=str,
)
def test_it_says_what_the_trace_of_all_says(reports, options):
    assert nvtrace.summarize(reports, **options).to_dict() == (
        nvtrace.load(reports, details=False).summary(**options).to_dict()
    )
    assert nvtrace.summarize(reports[0].parent, **options).to_dict() == (
        nvtrace.summarize(reports, **options).to_dict()
    )
    assert nvtrace.summarize(reports[2], **options).to_dict() == (
        nvtrace.load(reports[2]).summary(**options).to_dict()
    )


def test_guesses_at_steps_do_not_count_beside_steps_marked_in_another_file(tmp_path):
    guessed, marked = (Capture(origin=SECOND, source=f"{name}.sqlite") for name in "gm")
    guessed.range("step 1", 0, 10)
    marked.step(7, 0, 20)
    paths = [guessed.write(tmp_path / "g.sqlite"), marked.write(tmp_path / "m.sqlite")]
    report = nvtrace.summarize(paths)
    assert report.totals["steps"] == 1
    assert report.to_dict() == nvtrace.load(paths).summary().to_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"views": "nosuch"}, "unknown view 'nosuch'"),
        ({"sorted_by": "weight"}, "unknown sort key 'weight'"),
        ({"rank": 9}, "no process of rank 9: there are ranks 0, 1, 2"),
        ({"step_range": ["lap"]}, "no range is named 'lap'"),
        ({"rules": ["x"]}, "rule 'x'"),
    ],
)
def test_a_mistake_is_said_in_one_line(reports, options, message):
    with pytest.raises(UsageError, match=message) as caught:
        nvtrace.summarize(reports, **options)
    assert "\n" not in str(caught.value)


def test_a_damaged_report_among_others_is_named(reports, tmp_path):
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(reports[0].read_bytes()[:5000])
    with pytest.raises(CorruptReport, match=r"damaged\.sqlite"):
        nvtrace.summarize([*reports, damaged])


def test_progress_names_each_report(reports):
    lines: list[str] = []
    nvtrace.summarize(reports, progress=lines.append)
    assert [line for line in lines if "of 3" in line] == [
        f"{path.name} ({number} of 3)" for number, path in enumerate(reports, 1)
    ]


@pytest.mark.parametrize(
    "options", [{}, {"whole": True}, {"steps": (1, 3)}, {"time": (0, 10**7)}, {"rank": 1}], ids=str
)
def test_runs_of_several_reports_are_compared_as_their_traces_are(reports, options):
    runs = [reports[:2], [reports[1], reports[2]]]
    said = nvtrace.compare(*runs, **options)
    traces = [nvtrace.load(run, details=False) for run in runs]
    assert said.to_dict() == nvtrace.compare(*traces, **options).to_dict()


@pytest.mark.usefixtures("nothing_at_once")
def test_none_of_a_run_is_held_while_the_next_is_read(reports):
    rows = nvtrace.compare(reports, reports)["kernel"].rows()
    assert rows
    assert {row["gpu_change_ns"] for row in rows} == {0}
