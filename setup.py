"""Builds the one native part where there is a C compiler; everything else is in pyproject.toml."""

from __future__ import annotations

import sys

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext


class BuildLibrary(build_ext):
    """Builds a library for ctypes: no Python version in its name."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return the library's path below the root of the packages."""
        return fullname.replace(".", "/") + ".so"


class AnyPython(bdist_wheel):
    """Tags the wheel for the platform only: the library calls no Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags of Python, ABI and platform."""
        return "py3", "none", super().get_tag()[2]


buffers = Extension(
    "nvtrace.native.buffers",
    ["nvtrace/native/buffers.c"],
    extra_compile_args=["-std=gnu11", "-O2", "-pthread"],
    extra_link_args=["-pthread"],
    optional=True,  # without it nvtrace lacks the collector of GPU work, and says so
)

setup(
    ext_modules=[buffers] if sys.platform == "linux" else [],
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": AnyPython},
)
