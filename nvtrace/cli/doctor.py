"""``nvtrace doctor``."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import click

from nvtrace import _env
from nvtrace.errors import CorruptReport, NvtraceError
from nvtrace.sources.nsys_install import Nsys, find_all

SCHEMA = 1
OLDEST_PYTHON = (3, 10)
REQUIRED = ("numpy", "sqlite-utils", "tabulate")
OPTIONAL = ("pandas", "polars", "pyarrow")
FRAMEWORKS = ("torch", "paddlepaddle-gpu", "paddlepaddle", "jax")
INJECTIONS = ("NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH")
NOT_SET = dict.fromkeys(INJECTIONS, "not set") | {
    "NVTX_INJECTION64_PATH": "not set: no tool is attached, and ranges cost next to nothing until "
    "a Profiler records or nsys starts the program"
}
ASKING_NVTX = (0, 2, 12)  # from here on, the nvtx package asks the tool about each domain
DENYING_NSYS = (2023, 4)  # up to here at least, nsys says no and would record all the same
COLORS = {"ok": "green", "warn": "yellow", "missing": "red"}
DRIVER_FILE = Path("/proc/driver/nvidia/version")
SMI_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Check:
    """One verdict: ``status`` is ok, warn or missing; ``advice`` says what to do."""

    name: str
    status: str
    detail: str
    advice: str = ""


@click.command("doctor")
@click.option(
    "--format",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="How to print the verdicts.",
)
def command(format: str) -> None:
    """Check what nvtrace finds on this machine: packages, nsys, driver, environment."""
    checks = list(examine())
    if format == "json":
        click.echo(json.dumps({"schema": SCHEMA, "checks": [asdict(c) for c in checks]}, indent=1))
        return
    width = max(len(check.name) for check in checks)
    for check in checks:
        status = click.style(f"{check.status:7}", fg=COLORS[check.status])
        advice = f"; {check.advice}" if check.advice else ""
        click.echo(f"{status}  {check.name:{width}}  {check.detail}{advice}")


def examine() -> Iterator[Check]:
    """Yield every verdict. CUDA is not touched."""
    yield _python()
    yield from (_package(name, "pip install --force-reinstall nvtrace") for name in REQUIRED)
    yield _marking()
    try:
        found, problem = find_all(), "none on PATH or in the usual folders"
    except NvtraceError as error:
        found, problem = [], str(error)
    yield from _nsys(found, problem)
    yield from _pair(found)
    yield from _injections()
    yield _driver()
    yield _collector()
    yield from (_package(name, f"only to hand data to it: pip install {name}") for name in OPTIONAL)
    yield _frameworks()


def _python() -> Check:
    detail = f"{platform.python_version()} ({sys.executable}), nvtrace {_version('nvtrace')}"
    if sys.version_info < OLDEST_PYTHON:
        return Check("python", "warn", detail, "nvtrace needs Python 3.10 or newer")
    return Check("python", "ok", detail)


def _package(name: str, advice: str) -> Check:
    version = _version(name)
    return Check(name, "ok", version) if version else Check(name, "missing", "absent", advice)


def _marking() -> Check:
    version = _version("nvtx")
    if not version:
        return Check(
            "nvtx", "missing", "absent", "without it no range is recorded: pip install nvtx"
        )
    off = [name for name in (_env.NVTRACE, _env.NVTX_DISABLE) if os.environ.get(name)]
    if not (_env.marking_allowed() and _env.nvtx_allowed()):
        return Check("nvtx", "warn", f"{version}, switched off", f"unset {' and '.join(off)}")
    try:
        import nvtrace.emit.nvtx  # noqa: F401
    except (ImportError, AttributeError) as error:
        return Check(
            "nvtx", "warn", f"{version} cannot be used ({error})", "pip install 'nvtx<0.3'"
        )
    return Check("nvtx", "ok", version)


def _nsys(found: list[Nsys], problem: str) -> Iterator[Check]:
    if not found:
        advice = "install Nsight Systems, or set NVTRACE_NSYS; SQLite exports can be read without"
        yield Check("nsys", "missing", problem, advice)
        return
    first, *others = found
    detail = str(first).removeprefix("nsys ")
    if others:
        detail += f"; also {', '.join(str(nsys).removeprefix('nsys ') for nsys in others)}"
    yield Check("nsys", "ok", detail)
    yield _export(first)
    if first.importer:
        yield Check("nsys importer", "ok", str(first.importer))
    else:
        yield Check(
            "nsys importer",
            "warn",
            f"no QdstrmImporter beside {first.path}",
            "recordings may stay raw .qdstrm files: install the whole of Nsight Systems",
        )


def _export(nsys: Nsys) -> Check:
    """Let nsys export what is no report: an exporter that works says so."""
    from nvtrace.sources import nsys_cli

    with tempfile.TemporaryDirectory(prefix="nvtrace-") as folder:
        probe = Path(folder, "probe.nsys-rep")
        probe.write_bytes(b"no report")
        try:
            nsys_cli.export(probe, timeout_s=60)
        except CorruptReport:
            return Check("nsys export", "ok", "works")
        except NvtraceError as error:
            said = str(error).replace(f"{probe}: ", "")
            return Check("nsys export", "warn", said, "install the whole of Nsight Systems")
    return Check("nsys export", "warn", f"{nsys} took a text file for a report")


def _pair(found: list[Nsys]) -> Iterator[Check]:
    version = _version("nvtx")
    if not version or not found:
        return
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    pair = f"nvtx {version} under {str(found[0]).partition(' (')[0]}"
    if numbers < ASKING_NVTX:
        yield Check("nvtx and nsys", "ok", f"{pair}: all ranges are recorded")
    elif found[0].version[:2] <= DENYING_NSYS:
        detail = f"{pair}: ranges of nvtrace are recorded, those made with nvtx itself vanish"
        advice = "where those matter: pip install 'nvtx<0.2.12', or install a newer nsys"
        yield Check("nvtx and nsys", "warn", detail, advice)
    else:
        yield Check("nvtx and nsys", "ok", f"{pair}: no trouble known")


def _injections() -> Iterator[Check]:
    for name in INJECTIONS:
        library = os.environ.get(name)
        if library and Path(library).is_file():
            yield Check(name, "ok", f"{library}: a tool is attached to programs started from here")
        elif library:
            yield Check(name, "warn", f"{library} does not exist", f"unset {name}")
        else:
            yield Check(name, "ok", NOT_SET[name])


def _driver() -> Check:
    if DRIVER_FILE.is_file():
        text = DRIVER_FILE.read_text(errors="replace")
        version = re.search(r"\d{3,}\.\d+(?:\.\d+)?", text)
        return Check("driver", "ok", f"{version[0] if version else text.splitlines()[0]}{_gpus()}")
    gpus = _gpus()
    if gpus:
        return Check("driver", "ok", gpus.removeprefix(", "))
    advice = "recording needs a machine with a GPU; reading reports does not"
    return Check("driver", "missing", "no NVIDIA driver", advice)


def _collector() -> Check:
    """Return whether a Profiler can collect GPU work here, without touching CUDA."""
    from nvtrace.sources.cupti import diagnose

    found = diagnose()
    facts = "; ".join(f"{name}: {value}" for name, value in found.facts.items())
    detail = f"{found.sentence} ({facts})" if facts else found.sentence
    return Check("in-process GPU collector", "ok" if found.ok else "missing", detail)


def _gpus() -> str:
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=SMI_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    names = done.stdout.split("\n") if done.returncode == 0 else []
    return "".join(f", {name.strip()}" for name in names if name.strip())


def _frameworks() -> Check:
    versions = {name: _version(name) for name in FRAMEWORKS}
    there = [f"{name} {version}" for name, version in versions.items() if version]
    return Check("frameworks", "ok", ", ".join(there) or "none of torch, paddle, jax (none needed)")


def _version(package: str) -> str:
    """Return the installed version of ``package``, empty where there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
