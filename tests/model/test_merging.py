"""Several traces as one: nothing lost, nothing mixed up, clocks aligned or said not to be."""

from __future__ import annotations

import io
import weakref
from dataclasses import replace

import numpy as np
import pytest
from builders import Capture, Node
from oracle import random_capture

import nvtrace
from nvtrace.analysis.views import VIEWS
from nvtrace.model.merging import merge
from nvtrace.model.schema import DeviceKind
from nvtrace.model.trace import Note, Recorded, TraceData
from nvtrace.trace import Trace

SECOND = 10**9


def rank(number: int, *, begin: int = 0, origin: int | None = SECOND, **facts) -> Capture:
    """One rank with the pid, correlation ids, streams and names that all the others have."""
    capture = Capture(origin=origin, source=f"rank{number}.sqlite", rank=number, **facts)
    capture.step(0, begin, begin + 100, pid=77)
    capture.range(f"only {number}", begin + 10, begin + 50, pid=77, domain="app", category="c")
    correlation = capture.call(begin + 20, begin + 30, pid=77, correlation=5)
    capture.run(begin + 40, begin + 60 + number, correlation, name=f"k{number}", pid=77)
    return capture


def merged(*captures: Capture) -> Trace:
    return Trace.of(merge([capture.trace() for capture in captures]))


def test_one_trace_is_itself():
    trace = rank(0).trace()
    assert merge([trace]) is trace


def test_equal_pids_and_ids_of_two_files_are_not_one():
    trace = merged(rank(0), rank(1))
    assert [(one.pid, one.rank, one.source) for one in trace.processes] == [
        (77, 0, "rank0.sqlite"),
        (77, 1, "rank1.sqlite"),
    ]
    rows = trace.summary("user_defined", sorted_by="name")["user_defined"].rows()
    assert [(row["name"], row["process"], row["gpu_total_ns"]) for row in rows] == [
        ("only 0", "77 (rank 0)", 20),
        ("only 1", "77 (rank 1)", 21),
    ]
    assert trace.threads.rows == trace.streams.rows == 2
    assert trace.summary(()).totals["attributed_gpu_ns"] == 41
    assert trace.summary(()).totals["steps"] == 2


def test_pids_of_one_file_repeated_name_the_file():
    first, second = rank(0), rank(1)
    first.rank = second.rank = None
    rows = merged(first, second).summary("user_defined", sorted_by="name")["user_defined"].rows()
    assert [row["process"] for row in rows] == ["77 [rank0.sqlite]", "77 [rank1.sqlite]"]


def test_every_row_keeps_its_facts():
    captures = [rank(0), rank(1, begin=7)]
    captures[1].nodes.append(Node(1, 2, 8, 0, 77, 1))
    captures[1].run(500, 510, 0, name="copy", kind=DeviceKind.MEMCPY, pid=77, bytes=12, stream=9)
    trace = merged(*captures)
    ranges, strings = trace.ranges, trace.strings
    found = {
        (
            strings[name],
            *(int(start), int(end)),
            trace.domains[domain].name,
            trace.domains[domain].process,
            trace.categories[category],
            int(trace.threads["process"][thread]),
        )
        for name, start, end, domain, category, thread in zip(
            *(ranges[key] for key in ("name", "start", "end", "domain", "category", "thread")),
            strict=True,
        )
    }
    assert found == {
        ("step", 0, 100, "nvtrace", 0, "step", 0),
        ("only 0", 10, 50, "app", 0, "c", 0),
        ("step", 7, 107, "nvtrace", 1, "step", 1),
        ("only 1", 17, 57, "app", 1, "c", 1),
    }
    device = trace.device
    assert device["start"].tolist() == [40, 47, 500]
    assert strings.take(device["name"]) == ["k0", "k1", "copy"]
    assert device["bytes"].tolist() == [-1, -1, 12]
    assert trace.streams["stream"][device["stream"]].tolist() == [7, 7, 9]
    assert trace.streams["process"][device["stream"]].tolist() == device["process"].tolist()
    assert trace.graph_nodes["thread"].tolist() == [1]


def test_clocks_are_aligned_by_the_time_of_day():
    trace = merged(rank(0, origin=SECOND + 300), rank(1, origin=SECOND))
    assert sorted(trace.ranges["start"].tolist()) == [0, 10, 300, 310]
    assert trace.origin_unix_ns == SECOND
    assert [source.offset_ns for source in trace.sources] == [300, 0]
    assert [note.code for note in trace.notes] == ["clocks_aligned"]
    assert (np.diff(trace.ranges["start"]) >= 0).all()


def test_an_unknown_clock_is_said():
    trace = merged(rank(0, origin=SECOND), rank(1, origin=None))
    assert sorted(trace.ranges["start"].tolist()) == [0, 0, 10, 10]
    assert trace.origin_unix_ns is None
    assert [note.code for note in trace.notes] == ["clocks_not_aligned"]


def test_one_gpu_in_two_files_is_one_gpu():
    captures = [rank(number, uuids={(77, 0): "GPU-a"}) for number in (0, 1)]
    captures.append(rank(2, uuids={(77, 0): "GPU-b"}))
    captures.append(rank(3))
    trace = merged(*captures)
    assert [(device.uuid, device.process) for device in trace.devices] == [
        ("GPU-a", -1),
        ("GPU-b", -1),
        (None, 3),
    ]
    assert trace.streams["device"].tolist() == [0, 0, 1, 2]


def test_a_file_without_gpu_activity_beside_one_with_it_is_not_zero():
    silent = Capture(origin=SECOND, source="cpu.sqlite", recorded=Recorded(ranges=True))
    silent.range("load", 0, 10, pid=5)
    trace = merged(rank(0), silent)
    rows = {row["name"]: row for row in trace.summary("user_defined")["user_defined"]}
    assert (rows["load"]["gpu_total_ns"], rows["only 0"]["gpu_total_ns"]) == (None, 20)
    listed = {row["name"]: row["gpu_ns"] for row in trace.ranges_report()["ranges"]}
    assert listed == {"load": None, "only 0": 20, "step": 20}
    (note,) = [note for note in trace.notes if note.code == "file_without_gpu_activity"]
    assert note.message.startswith("cpu.sqlite: GPU activity was not recorded")


def test_launch_shapes_follow_their_kernels(tmp_path):
    paths = []
    for number in (0, 1):
        capture = Capture(origin=SECOND)
        for place in range(3):
            # kernels of both files alternate
            capture.run(place * 100 + number * 50, place * 100 + number * 50 + 10)
        paths.append(
            capture.write(
                tmp_path / f"rank{number}.sqlite",
                then="UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = start + 1",
            )
        )
    trace = nvtrace.load(paths)
    details = trace.kernel_details
    assert sorted(details["row"].tolist()) == list(range(6))
    # the zero of both is the first kernel of all
    starts = trace.device["start"][details["row"]]
    assert details["grid_x"].tolist() == [start + 1 for start in starts.tolist()]


@pytest.mark.parametrize("count", [2, 5])
def test_totals_are_those_of_the_parts(count):
    captures = [rank(number, begin=number * 13) for number in range(count)]
    alone = [capture.trace().summary(()).totals for capture in captures]
    together = merged(*captures).summary(()).totals
    for key in ("gpu_ns", "attributed_gpu_ns", "inferred_gpu_ns", "unattributed_gpu_ns", "steps"):
        assert together[key] == sum(totals[key] for totals in alone)


def test_notes_of_the_parts_name_their_file():
    noted = replace(rank(0).trace(), notes=(Note("x", "something"),))
    assert merge([noted, rank(1).trace()]).notes[-1] == Note("x", "rank0.sqlite: something")


def test_rows_of_one_file_behind_those_of_another():
    captures = [rank(0, origin=SECOND + 7), rank(1, origin=SECOND)]
    captures[1].run(500, 510, 0, name="copy", kind=DeviceKind.MEMCPY, pid=77, bytes=12, stream=9)
    trace = merge([capture.trace() for capture in captures], by_time=False)
    assert trace.ranges["start"].tolist() == [7, 17, 0, 10]
    assert trace.ranges["thread"].tolist() == [0, 0, 1, 1]
    assert trace.device["start"].tolist() == [47, 40, 500]
    assert trace.device["bytes"].tolist() == [-1, -1, 12]
    assert trace.device["stream"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("seed", range(60))
def test_in_either_order_all_reports_say_the_same(seed):
    captures = [random_capture(3 * seed + number) for number in range(3)]
    for number, capture in enumerate(captures):
        capture.source, capture.rank, capture.origin = f"r{number}.sqlite", number, SECOND + number
        capture.phase("dispatch", 3, 9 + number)
    said = []
    for by_time in (True, False):
        trace = Trace.of(merge([one.trace() for one in captures], by_time=by_time))
        reports = [trace.summary(VIEWS, op_detail=True), trace.ranges_report(marks=True)]
        reports += [trace.summary(VIEWS, time=(5, 20)), trace.ranges_report(rank=1)]
        said.append([report.to_dict() for report in reports])
    assert said[0] == said[1]


def test_a_timeline_is_in_the_order_of_time_either_way():
    captures = [random_capture(seed) for seed in range(3)]
    written = []
    for by_time in (True, False):
        trace = Trace.of(merge([one.trace() for one in captures], by_time=by_time))
        file = io.BytesIO()
        trace.export(file)
        written.append(file.getvalue())
    assert written[0] == written[1]


def test_traces_that_come_one_by_one_are_not_held():
    held: list[weakref.ref[TraceData]] = []

    def coming():
        for number in range(5):
            assert sum(one() is not None for one in held) <= 1
            trace = rank(number).trace()
            held.append(weakref.ref(trace))
            yield trace
            del trace

    assert len(merge(coming()).processes) == 5
