from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nvtrace.cli import doctor
from nvtrace.sources import nsys_install
from nvtrace.sources.cupti import diagnose
from nvtrace.sources.nsys_install import Nsys

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def _bare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with no nsys, no driver and nothing in the environment."""
    for name in ("NVTRACE", "NVTX_DISABLE", "NVTRACE_NSYS", "NO_COLOR", *doctor.INJECTIONS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(nsys_install, "INSTALL_PATTERNS", ())
    monkeypatch.setattr(doctor, "DRIVER_FILE", folder / "absent")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def verdicts(run: Run) -> dict[str, dict[str, str]]:
    result = run("doctor", "--format", "json")
    assert result.status == 0
    report = json.loads(result.stdout)
    assert report["schema"] == 1
    assert {check["status"] for check in report["checks"]} <= {"ok", "warn", "missing"}
    return {check["name"]: check for check in report["checks"]}


def fake_nsys(path: Path, version: str, script: str, importer: bool = True) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(
        f'#!/bin/sh\nif [ "$1" = --version ]; then echo "NVIDIA Nsight Systems version {version}"\n'
        f"exit 0; fi\n{script}\n"
    )
    path.chmod(0o755)
    if importer:
        host = path.parents[1] / "host-linux-x64"
        host.mkdir()
        (host / "QdstrmImporter").touch()
    return path


def test_one_line_a_check(run: Run) -> None:
    checks = verdicts(run)
    result = run("doctor")
    lines = result.stdout.splitlines()
    assert len(lines) == len(checks)
    for line, check in zip(lines, checks.values(), strict=True):
        assert line.split()[0] == check["status"]
        assert check["name"] in line
        assert check["advice"] in line


def test_without_nsys_it_says_what_to_do(run: Run) -> None:
    check = verdicts(run)["nsys"]
    assert check["status"] == "missing"
    assert "NVTRACE_NSYS" in check["advice"]


def test_named_nsys_that_is_none(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVTRACE_NSYS", "/bin/true")
    check = verdicts(run)["nsys"]
    assert check["status"] == "missing"
    assert "/bin/true" in check["detail"]


def test_the_real_nsys(run: Run, nsys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVTRACE_NSYS", str(nsys))
    checks = verdicts(run)
    assert checks["nsys"]["detail"].startswith("2023.4.4 ")
    assert checks["nsys export"]["status"] == "ok"
    assert checks["nsys importer"]["status"] == "ok"


def test_an_nsys_that_cannot_export(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "The exporter binary was not found."
    path = folder / "target-linux-x64" / "nsys"
    fake_nsys(path, "2024.1.1", f"echo '{said}'; exit 1", importer=False)
    monkeypatch.setenv("NVTRACE_NSYS", str(path))
    checks = verdicts(run)
    assert checks["nsys export"]["status"] == "warn"
    assert said in checks["nsys export"]["detail"]
    assert checks["nsys importer"]["status"] == "warn"


@pytest.mark.parametrize(
    ("nvtx", "version", "status"),
    [
        ("0.2.11", (2023, 4, 4), "ok"),
        ("0.2.12", (2023, 4, 4), "warn"),
        ("0.2.12", (2023, 2, 3), "warn"),
        ("0.3", (2023, 4, 4), "warn"),
        ("0.2.14", (2024, 6, 1), "ok"),
    ],
)
def test_the_pair_of_nvtx_and_nsys(
    monkeypatch: pytest.MonkeyPatch, nvtx: str, version: tuple[int, ...], status: str
) -> None:
    monkeypatch.setattr(doctor, "_version", lambda package: nvtx)
    (check,) = doctor._pair([Nsys(Path("/opt/nsys"), version)])
    assert check.status == status
    assert f"nvtx {nvtx} under nsys {version[0]}.{version[1]}" in check.detail


@pytest.mark.parametrize("name", ["NVTRACE", "NVTX_DISABLE"])
def test_marking_switched_off(run: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert verdicts(run)["nvtx"]["status"] == "ok"
    monkeypatch.setenv(name, "0")
    check = verdicts(run)["nvtx"]
    assert check["status"] == "warn"
    assert check["advice"] == f"unset {name}"


def test_absent_packages(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version", lambda package: "")
    checks = verdicts(run)
    assert checks["nvtx"]["status"] == "missing"
    assert checks["numpy"]["status"] == "missing"
    assert "pip install pandas" in checks["pandas"]["advice"]


def test_injected_library(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "CUDA_INJECTION64_PATH"
    assert verdicts(run)[name]["detail"] == "not set"
    monkeypatch.setenv(name, str(folder / "lib.so"))
    assert verdicts(run)[name]["status"] == "warn"
    (folder / "lib.so").touch()
    assert verdicts(run)[name]["status"] == "ok"


def test_driver(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdicts(run)["driver"]["status"] == "missing"
    file = folder / "version"
    file.write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
        "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n"
    )
    (folder / "nvidia-smi").write_text("#!/bin/sh\necho 'NVIDIA A100-SXM4-80GB'\n")
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setattr(doctor, "DRIVER_FILE", file)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    assert verdicts(run)["driver"]["detail"] == "535.104.05, NVIDIA A100-SXM4-80GB"


@pytest.mark.parametrize("no_color", ["", "1"])
def test_colour_only_on_a_terminal_that_wants_it(no_color: str) -> None:
    ours, theirs = pty.openpty()
    env = {**os.environ, "NO_COLOR": no_color}
    command = [sys.executable, "-m", "nvtrace", "doctor"]
    subprocess.run(command, stdout=theirs, stderr=subprocess.DEVNULL, env=env, check=True)
    os.close(theirs)
    shown = os.read(ours, 65536)
    os.close(ours)
    assert (b"\x1b[" in shown) == (not no_color)


def test_collector_is_diagnosed_in_one_line() -> None:
    result = CliRunner().invoke(doctor.command, ["--format", "json"])
    (check,) = [
        one
        for one in json.loads(result.output)["checks"]
        if one["name"] == "in-process GPU collector"
    ]
    assert check["status"] == ("ok" if diagnose().ok else "missing")
    assert diagnose().sentence in check["detail"]
    assert "\n" not in check["detail"]
