"""Whether GPU work can be collected in this process, and what is in the way.

Looks at files, variables and packages, and asks the driver library for its version. CUDA is not
initialised and CUPTI is not touched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from nvtrace.sources.cupti import library, shim
from nvtrace.sources.cupti.driver import STUB, Driver, DriverError, device_nodes

OK = "ok"
NO_PLATFORM = "no_platform"
NO_DRIVER = "no_driver"
OLD_DRIVER = "old_driver"
NO_DEVICE = "no_device"
TOOL = "tool"
NO_BINDING = "no_binding"
NO_SHIM = "no_shim"
NO_LIBRARY = "no_library"
MISMATCH = "mismatch"
TWO_LIBRARIES = "two_libraries"
BUSY = "busy"
DENIED = "denied"
FORKED = "forked"
FAILED = "failed"

BINDING = "cupti-python"
DEMANGLER = "pydemumble"
_LIBRARIES = ("nvidia-cuda-cupti", "nvidia-cuda-cupti-cu12")
_NEEDED_DRIVER = {12: (12, 4), 13: (13, 0)}


@dataclass(frozen=True)
class Diagnosis:
    """What was found.

    Attributes:
        verdict: ``ok``, or a word for what is in the way.
        sentence: the same for people, with what to do.
        facts: what was looked at, for people, by name.
    """

    verdict: str
    sentence: str
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is known to be in the way."""
        return self.verdict == OK


def diagnose() -> Diagnosis:
    """Return the first thing in the way of collecting GPU work, or that nothing is."""
    facts: dict[str, str] = {}
    for check in (_platform, _tool, _driver, _devices, _binding, _shim, _mapped, _pair):
        found = check(facts)
        if found:
            return Diagnosis(*found, facts)
    facts["demangler"] = version(DEMANGLER) or "absent: kernel names stay mangled"
    return Diagnosis(OK, "GPU work can be collected in the process", facts)


def version(package: str) -> str:
    """Return the installed version of a package, empty where there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


Found = tuple[str, str] | None


def _platform(facts: dict[str, str]) -> Found:
    facts["platform"] = sys.platform
    if sys.platform != "linux":
        return NO_PLATFORM, "GPU work is collected in the process on Linux only"
    return None


def _tool(facts: dict[str, str]) -> Found:
    tool = attached_tool()
    if not tool:
        return None
    facts["attached"] = tool
    return TOOL, f"{tool} is attached and records the GPU work: read its report instead"


def attached_tool() -> str:
    """Return the CUDA tool that was put into this process from outside; empty where none was."""
    injected = os.environ.get("CUDA_INJECTION64_PATH", "")
    if os.environ.get("NSYS_PROFILING_SESSION_ID") or "nsight-systems" in injected:
        return "Nsight Systems"
    return f"a CUDA tool ({Path(injected).name})" if injected else ""


def _driver(facts: dict[str, str]) -> Found:
    try:
        major, minor = Driver().version()
    except OSError:
        facts["driver"] = "absent"
        return NO_DRIVER, "there is no NVIDIA driver here (libcuda.so.1 cannot be loaded)"
    except DriverError as error:
        facts["driver"] = str(error)
        if error.code == STUB:
            return NO_DRIVER, (
                "libcuda.so.1 here is the toolkit's stub, not a driver: take its folder out of "
                "LD_LIBRARY_PATH"
            )
        return NO_DRIVER, f"the NVIDIA driver does not answer: {error}"
    facts["driver"] = f"CUDA {major}.{minor}"
    return None


def _devices(facts: dict[str, str]) -> Found:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and (not visible.strip() or visible.strip().startswith("-1")):
        facts["devices"] = "hidden"
        return NO_DEVICE, f"CUDA_VISIBLE_DEVICES={visible!r} hides every GPU from this process"
    count = device_nodes()
    facts["devices"] = str(count)
    if not count:
        return NO_DEVICE, "there is a driver library but no GPU here"
    return None


def _binding(facts: dict[str, str]) -> Found:
    found = version(BINDING)
    facts[BINDING] = found or "absent"
    if not found:
        return NO_BINDING, "cupti-python is not installed: pip install 'nvtrace[cupti]'"
    return None


def _shim(facts: dict[str, str]) -> Found:
    if shim.LIBRARY.is_file():
        facts["buffers"] = str(shim.LIBRARY)
        return None
    facts["buffers"] = "absent"
    return NO_SHIM, (
        "nvtrace was installed without its native part: install a C compiler, then "
        "pip install --force-reinstall --no-deps --no-cache-dir nvtrace"
    )


def _mapped(facts: dict[str, str]) -> Found:
    mapped = library.mapped()
    facts["libcupti loaded"] = ", ".join(map(str, mapped)) or "none"
    versions = {name: version(name) for name in _LIBRARIES}
    packages = [f"{name} {installed}" for name, installed in versions.items() if installed]
    facts["libcupti installed"] = ", ".join(packages) or "no package"
    if len(mapped) > 1:
        return TWO_LIBRARIES, two_libraries(mapped)
    return None


def two_libraries(paths: list[Path]) -> str:
    """Return the sentence for a process with two CUPTI libraries."""
    return (
        f"two CUPTI libraries are loaded, {' and '.join(map(str, paths))}: the second to attach "
        "fails; install the cupti-python that fits the first, or clean LD_LIBRARY_PATH"
    )


def _pair(facts: dict[str, str]) -> Found:
    """Check that binding, driver and a library that is already loaded are of one generation."""
    binding = facts[BINDING]
    major = int(binding.partition(".")[0])
    for path in library.mapped():
        loaded = path.name.removeprefix("libcupti.so.").partition(".")[0]
        if loaded.isdigit() and int(loaded) < 2000 and int(loaded) != major:
            return MISMATCH, (
                f"cupti-python {binding} does not fit the loaded {path}: "
                f"pip install 'cupti-python=={loaded}.*'"
            )
    needed = _NEEDED_DRIVER.get(major)
    have = facts["driver"].removeprefix("CUDA ")
    if needed and tuple(map(int, have.split("."))) < needed:
        return OLD_DRIVER, (
            f"cupti-python {binding} needs a driver for CUDA "
            f"{needed[0]}.{needed[1]} or newer, this one is for CUDA {have}"
        )
    return None
