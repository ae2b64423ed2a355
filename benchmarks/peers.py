"""The tools beside which nvtrace is measured, and where they come from.

nsys is the one that `scripts/install-nsys` installs, or `$NVTRACE_NSYS`, or that of the path. The
others go under `.tools/peers`: nsys-ai from the package index, into a virtual environment of its
own; nsys2json, which no index has, from its repository. What cannot be had is left out, and named.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from bench import Bench, say
from measuring import Cost, Failed, run, total, touch_memory

ROOT = Path(__file__).parent.parent
PEERS = ROOT / ".tools" / "peers"
NSYS_REPORTS = (
    "cuda_gpu_kern_sum,nvtx_sum,cuda_api_sum,cuda_gpu_mem_time_sum,nvtx_gpu_proj_sum,nvtx_kern_sum"
)
DUCKDB = "1.5.5"
NSYS_AI = (
    "nsys-ai==0.3.0",
    f"duckdb=={DUCKDB}",
    f"duckdb-extension-sqlite-scanner=={DUCKDB}",  # or it asks a server for that
)
NSYS_AI_SKILLS = ("nvtx_layer_breakdown", "overlap_breakdown", "nccl_breakdown")
NSYS2JSON = "https://github.com/chenyu-jiang/nsys2json"
NSYS2JSON_COMMIT = "cab0614f90de09c2351f70e3019f3157bda76d2d"


class Peers:
    """The peers at work on one report, each when first asked for, with nothing beside it."""

    def __init__(self, bench: Bench, report: Path) -> None:
        self._bench, self._report = bench, report

    def cpu_s(self, name: str) -> float | None:
        """The CPU time of a peer; None where it could not be measured."""
        cost = self._cost(name)
        return cost.cpu_s if cost else None

    @cache  # noqa: B019 (there is one, as long as the benchmark)
    def _cost(self, name: str) -> Cost | None:
        measure = {"nsys stats": nsys_stats, "nsys-ai": nsys_ai, "nsys2json": nsys2json}[name]
        touch_memory()
        try:
            return say(name, measure(self._bench, self._report))
        except (Failed, OSError, subprocess.SubprocessError) as error:
            self._bench.absent.append(f"{name}: {error}")
            return None


def find_nsys() -> str | None:
    prefix = os.environ.get("NVTRACE_NSYS_PREFIX") or ROOT / ".tools" / "nsight-systems"
    installed = Path(prefix) / "target-linux-x64" / "nsys"
    named = os.environ.get("NVTRACE_NSYS")
    return named or (str(installed) if installed.exists() else shutil.which("nsys"))


def nsys_stats(bench: Bench, report: Path) -> Cost:
    """The six reports that come nearest to the views of `nvtrace summary`, in one call."""
    nsys = find_nsys()
    if nsys is None:
        raise Failed("not installed; see scripts/install-nsys")
    out = bench.folder / "stats"
    command = [nsys, "stats", "--report", NSYS_REPORTS, "--format", "csv", "--force-overwrite"]
    return run([*command, "true", "--output", out, report])


def nsys_ai(bench: Bench, report: Path) -> Cost:
    """Its cache, its summary and three breakdowns, as far as they say what nvtrace does."""
    program = _nsys_ai()
    own = bench.folder / "nsys-ai"
    own.mkdir(exist_ok=True)
    copy = own / report.name
    copy.unlink(missing_ok=True)
    os.link(report, copy)  # it writes its cache beside the report
    home = {"HOME": str(PEERS / "home")}
    steps = [["warm"], ["summary"], *(["skill", "run", skill] for skill in NSYS_AI_SKILLS)]
    cost = total([run([program, *step, copy], environment=home) for step in steps])
    shutil.rmtree(own)
    return cost


def nsys2json(bench: Bench, report: Path) -> Cost:
    """Kernels, ranges and calls; it draws no arrows."""
    out = bench.folder / "nsys2json.json"
    layers = ["-t", "kernel", "nvtx", "cuda-api"]
    cost = run([sys.executable, _nsys2json(), "-f", report, "-o", out, *layers])
    out.unlink()
    return cost


def _nsys_ai() -> Path:
    folder = PEERS / "nsys-ai"
    program = folder / "bin" / "nsys-ai"
    if program.exists():
        return program
    python = folder / "bin" / "python"
    _quietly(sys.executable, "-m", "venv", folder)
    _quietly(python, "-m", "pip", "install", "-q", "--only-binary", ":all:", *NSYS_AI)
    where = "lib/python*/site-packages/duckdb_extension_sqlite_scanner/extensions/v*/*"
    (extension,) = folder.glob(where)
    place = PEERS / "home" / ".duckdb" / "extensions" / f"v{DUCKDB}" / "linux_amd64"
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy(extension, place)
    return program


def _nsys2json() -> Path:
    folder = PEERS / "nsys2json"
    script = folder / "nsys2json.py"
    if not script.exists():
        _quietly("git", "clone", "-q", NSYS2JSON, folder)
        _quietly("git", "-C", folder, "checkout", "-q", NSYS2JSON_COMMIT)
    return script


def _quietly(*words: str | Path) -> None:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise Failed(f"cannot be installed: {''.join(last)}")
