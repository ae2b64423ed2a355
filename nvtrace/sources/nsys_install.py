"""Where Nsight Systems' command line is installed, and which version it is."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from nvtrace.errors import ToolNotFound

ENV_NSYS = "NVTRACE_NSYS"
VERSION_TIMEOUT_S = 30.0

INSTALL_PATTERNS = (
    "/opt/nvidia/nsight-systems*/*/bin/nsys",
    "/opt/nvidia/nsight-systems*/*/target-linux-*/nsys",
    "/opt/nvidia/nsight-systems*/bin/nsys",
    "/opt/nsight-systems*/target-linux-*/nsys",
    "/opt/nsight-systems*/bin/nsys",
    "/usr/local/cuda*/bin/nsys",
    "/usr/local/cuda*/nsight-systems-*/bin/nsys",
    "/usr/lib/nsight-systems/bin/nsys",
    "/usr/lib/*/nsight-systems/target-linux-*/nsys",
)

Version = tuple[int, ...]

_VERSION = re.compile(r"(\d{4})[.@](\d+)[.@](\d+)")


@dataclass(frozen=True)
class Nsys:
    """One installed nsys: its program and its version, e.g. (2023, 4, 4)."""

    path: Path
    version: Version

    @property
    def importer(self) -> Path | None:
        """The QdstrmImporter beside it; without one, a recording stays a raw ``.qdstrm``."""
        root = self.path.resolve().parent.parent
        return next(iter(sorted(root.glob("host-linux-*/QdstrmImporter"))), None)

    def __str__(self) -> str:
        return f"nsys {version_text(self.version)} ({self.path})"


def version_text(version: Version) -> str:
    """Write (2023, 4, 4) as ``2023.4.4``."""
    return ".".join(map(str, version))


def first_version(text: str) -> Version | None:
    """Return the first Nsight Systems version in ``text``; reports write its dots as ``@``."""
    match = _VERSION.search(text)
    return tuple(int(part) for part in match.groups()) if match else None


def find_all() -> list[Nsys]:
    """Return every nsys that starts: that of PATH first, then those installed, newest first.

    Where ``NVTRACE_NSYS`` is set, it is the only one.

    Raises:
        ToolNotFound: ``NVTRACE_NSYS`` names something that is not an nsys.
    """
    named = os.environ.get(ENV_NSYS)
    if named:
        chosen = probe(Path(named).expanduser())
        if chosen is None:
            raise ToolNotFound(
                f"{ENV_NSYS}={named} is not an nsys that starts; name the program, or unset it"
            )
        return [chosen]
    on_path = shutil.which("nsys")
    paths = [Path(p) for pattern in INSTALL_PATTERNS for p in sorted(glob.glob(pattern))]
    by_file = {path.resolve(): path for path in paths}
    first = probe(Path(on_path)) if on_path else None
    if first:
        by_file.pop(first.path.resolve(), None)
    rest = [nsys for nsys in map(probe, by_file.values()) if nsys]
    rest.sort(key=lambda nsys: nsys.version, reverse=True)
    return [first, *rest] if first else rest


def probe(path: Path) -> Nsys | None:
    """Return the nsys at ``path``, or None when it does not start or tells no version."""
    try:
        done = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=VERSION_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = first_version(done.stdout)
    return Nsys(path, version) if version and done.returncode == 0 else None
