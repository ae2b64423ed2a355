"""Builds the native parts where there is a C compiler; everything else is in pyproject.toml."""

from __future__ import annotations

import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

LIBRARIES = ("nvtrace.native.buffers", "nvtrace.native.pages", "nvtrace.native.timeline")


class BuildNative(build_ext):
    """Builds libraries for ctypes, without Python's version in their names, and an extension."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return the file's path; the name comes with its packages or without."""
        if any(library.endswith(fullname) for library in LIBRARIES):
            return fullname.replace(".", "/") + ".so"
        return str(super().get_ext_filename(fullname))


def native(name: str, *options: str) -> Extension:
    """A part of C that nvtrace does without, more slowly or with less, where it is not built."""
    source = f"{name.replace('.', '/')}.c"
    compile_args = ["-std=gnu11", "-O3", *options]
    return Extension(
        name, [source], extra_compile_args=compile_args, extra_link_args=[*options], optional=True
    )


parts = [native(library, "-pthread") for library in LIBRARIES]
# relies on the interpreter's lock
if sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED"):
    parts += [native("nvtrace.native.recorder"), native("nvtrace.native.calls")]

setup(
    ext_modules=parts if sys.platform == "linux" else [],
    cmdclass={"build_ext": BuildNative},
)
