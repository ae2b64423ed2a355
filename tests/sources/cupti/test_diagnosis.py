"""What is in the way of collecting GPU work is said in one line, by the collector too."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import PREAMBLE, run_script

Double = Callable[..., Any]

BOTH = """
found = diagnose()
try:
    Collector().start()
    started = None
except CollectorUnavailable as error:
    started = [error.verdict, str(error)]
print(json.dumps([found.verdict, found.sentence, dict(found.facts), started]))
"""


def said(got: list[Any]) -> tuple[str, str, dict[str, str]]:
    """The verdict, which has to be that of both, in one line."""
    verdict, sentence, facts, started = got
    assert started == [verdict, sentence]
    assert "\n" not in sentence
    return verdict, sentence, facts


def alone(script: str, **environment: str) -> list[Any]:
    done = run_script(script, **environment)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def test_nothing_in_the_way(double: Double) -> None:
    verdict, _, facts, started = double(BOTH)
    assert verdict == "ok"
    assert started is None
    assert facts["driver"] == "CUDA 13.0"
    assert facts["devices"] == "1"
    assert facts["cupti-python"] == "13.0.1"
    assert facts["libcupti loaded"] == "none"


def test_looking_initialises_nothing(double: Double) -> None:
    got = double(
        "found = diagnose()\nfrom nvtrace.sources.cupti import library\n"
        "print(json.dumps([found.verdict, [str(p) for p in library.mapped()],"
        " 'cupti' in sys.modules]))",
        DOUBLE_DEVICES="0",  # cuInit would fail
    )
    assert got == ["ok", [], False]


def test_no_driver() -> None:
    missing = "from nvtrace.sources.cupti import driver\ndriver.NAME = 'libcuda.so.none'\n"
    verdict, sentence, facts = said(alone(missing + BOTH))
    assert verdict == "no_driver"
    assert "no NVIDIA driver" in sentence
    assert facts["driver"] == "absent"


def test_a_real_driver_without_a_device(cupti: Path) -> None:
    if not (cupti / "driver").is_dir():
        pytest.skip("Debian's driver library cannot be had here")
    got = said(alone(BOTH, LD_LIBRARY_PATH=str(cupti / "driver"), TEST_NODES="0"))
    assert got[0] == "no_device"
    assert "no GPU here" in got[1]
    assert got[2]["driver"].startswith("CUDA 12.")


def test_the_toolkits_stub_is_no_driver(double: Double) -> None:
    verdict, sentence, _ = said(double(BOTH, DOUBLE_DRIVER="-34"))
    assert verdict == "no_driver"
    assert "stub" in sentence


def test_cuda_without_devices(double: Double) -> None:
    verdict, _, _, started = double(BOTH, DOUBLE_DEVICES="0")
    assert verdict == "ok", "looking does not initialise CUDA, so it cannot know"
    assert started == ["no_device", "CUDA finds no GPU: no CUDA-capable device is detected"]


@pytest.mark.parametrize("value", ["", "-1", " "])
def test_hidden_devices(double: Double, value: str) -> None:
    verdict, sentence, _ = said(double(BOTH, CUDA_VISIBLE_DEVICES=value))
    assert verdict == "no_device"
    assert "CUDA_VISIBLE_DEVICES" in sentence


def test_an_old_driver(double: Double) -> None:
    verdict, sentence, _ = said(double(BOTH, DOUBLE_DRIVER="12080"))
    assert verdict == "old_driver"
    assert "CUDA 13.0 or newer" in sentence
    assert "CUDA 12.8" in sentence


def test_no_binding(double: Double, cupti: Path) -> None:
    verdict, sentence, _ = said(double(BOTH, PYTHONPATH=str(cupti / "support")))
    assert verdict == "no_binding"
    assert "pip install 'nvtrace[cupti]'" in sentence


def test_no_native_part(double: Double) -> None:
    verdict, sentence, facts = said(double(BOTH, TEST_SHIM="/nowhere/buffers.so"))
    assert verdict == "no_shim"
    assert "C compiler" in sentence
    assert facts["buffers"] == "absent"


def test_a_native_part_that_cannot_be_loaded(double: Double, tmp_path: Path) -> None:
    (tmp_path / "buffers.so").write_bytes(b"no library")
    _, _, _, started = double(BOTH, TEST_SHIM=str(tmp_path / "buffers.so"))
    assert started[0] == "no_shim"
    assert "cannot be loaded" in started[1]


def test_another_tool(double: Double) -> None:
    verdict, sentence, _ = said(double(BOTH, CUDA_INJECTION64_PATH="/opt/tool/libinject.so"))
    assert verdict == "tool"
    assert "libinject.so" in sentence
    assert "/opt" not in sentence


def test_under_nsight_systems(nsys: Path, shim: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        PREAMBLE + BOTH.replace("print(json.dumps(", "Path('said').write_text(json.dumps(")
    )
    profile = [nsys, "profile", "-t", "cuda,nvtx", "-s", "none", "--cpuctxsw=none", "-o", "report"]
    subprocess.run(
        [*profile, sys.executable, script], cwd=tmp_path, check=True, capture_output=True
    )
    verdict, sentence, _ = said(json.loads((tmp_path / "said").read_text()))
    assert verdict == "tool"
    assert "Nsight Systems is attached" in sentence


def test_the_real_library_without_a_device(cupti: Path, driver_double: Path, shim: Path) -> None:
    path = f"{cupti / '13.0'}:{cupti / 'support'}"
    driver = str(driver_double.parent)
    got = alone(BOTH, PYTHONPATH=path, LD_LIBRARY_PATH=driver, TEST_SHIM=str(shim), TEST_NODES="1")
    assert got[0] == "ok"
    assert got[3][0] == "failed"
    assert "cannot be initialised here (cuptiSubscribe_v2 returned 999)" in got[3][1]


def test_a_binding_that_finds_no_library(double: Double, cupti: Path, tmp_path: Path) -> None:
    for package in (cupti / "13.0").glob("cupti*"):
        (tmp_path / package.name).symlink_to(package)
    (tmp_path / "nvidia/cu13/lib").mkdir(parents=True)
    (tmp_path / "nvidia/cu13/lib/libcupti.so.13").write_bytes(b"no library")
    _, _, _, started = double(BOTH, PYTHONPATH=f"{tmp_path}:{cupti / 'support'}")
    assert started[0] == "no_library"
    assert "cupti-python 13.0.1 cannot load CUPTI" in started[1]
