"""Exports that the real nsys writes of one recording, with and without a shift of its times."""

from __future__ import annotations

import subprocess
import sys

import pytest

import nvtrace

PROGRAM = """
import nvtrace

for number in range(3):
    with nvtrace.step(number):
        pass
nvtrace.RecordEvent("never ended").begin()
"""
OPTIONS = {
    "plain": [],
    "shifted": ["--ts-shift=1000000"],
    "normalized": ["--ts-normalize=true"],
}


@pytest.fixture(scope="module")
def exports(nsys, tmp_path_factory):
    folder = tmp_path_factory.mktemp("options")
    record = [nsys, "profile", "-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-o", folder / "run"]
    quiet = {"check": True, "capture_output": True, "timeout": 900}
    subprocess.run([*record, sys.executable, "-c", PROGRAM], **quiet)
    for name, options in OPTIONS.items():
        export = [nsys, "export", "--type", "sqlite", *options, "-o", folder / f"{name}.sqlite"]
        subprocess.run([*export, folder / "run.nsys-rep"], **quiet)
    return {name: nvtrace.load(folder / f"{name}.sqlite") for name in OPTIONS}


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "plain"])
def test_shifted_times_are_shifted_back(exports, name):
    plain, shifted = exports["plain"], exports[name]
    assert shifted.shift_ns > plain.shift_ns
    assert shifted.origin_unix_ns == plain.origin_unix_ns
    assert shifted.capture_start == plain.capture_start
    mine, theirs = (one.ranges_report()["ranges"].rows() for one in (plain, shifted))
    assert mine == theirs


@pytest.mark.parametrize("name", OPTIONS)
def test_the_range_that_never_ended_is_known_in_each(exports, name):
    rows = exports[name].ranges_report()["ranges"].rows()
    assert [(row["name"], row["unfinished"]) for row in rows] == [
        *[("step", False)] * 3,
        ("never ended", True),
    ]
