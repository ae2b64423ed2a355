"""Runs a Python program in this process as ``python`` would run it."""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import io
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from nvtrace.errors import UsageError

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it


@dataclass(frozen=True)
class Program:
    """What is to be run.

    Attributes:
        name: for messages and file names.
        argv: what ``sys.argv`` will be.
        folder: what ``sys.path[0]`` will be.
        spec: where it was found by ``-m``, or in a folder or an archive; None for a script.
        file: its source file.
    """

    name: str
    argv: list[str]
    folder: str
    spec: ModuleSpec | None
    file: str

    def code(self) -> CodeType:
        """Return the compiled program.

        Raises:
            SyntaxError: it is no Python.
        """
        if self.spec is not None and self.spec.loader is not None:
            loader: Any = self.spec.loader
            code: CodeType = loader.get_code(self.spec.name)
            return code
        with io.open_code(self.file) as file:
            return compile(file.read(), self.file, "exec", dont_inherit=True)


def find_script(path: str, arguments: Sequence[str]) -> Program:
    """Return the program in a script, a folder or an archive with a ``__main__.py``.

    Raises:
        UsageError: there is no such file, or it is no Python.
    """
    argv = [path, *arguments]
    name = Path(path).stem
    if not os.path.exists(path):
        raise UsageError(f"{path}: no such file; name a Python script, or -m and a module")
    absolute = os.path.join(os.getcwd(), path)
    spec = importlib.machinery.PathFinder.find_spec("__main__", [absolute])
    if spec is not None and spec.origin is not None:
        return Program(name, argv, absolute, spec, spec.origin)
    if os.path.isdir(path):
        raise UsageError(f"{path}: a folder without a __main__.py; name the script to run")
    with open(path, "rb") as file:
        if b"\0" in file.read(4096):
            raise UsageError(f"{path}: not a Python script; other programs need --nsys")
    return Program(name, argv, os.path.dirname(os.path.realpath(path)), None, absolute)


def find_module(name: str, arguments: Sequence[str]) -> Program:
    """Return the program that ``python -m name`` runs.

    Raises:
        UsageError: there is no such module.
    """
    folder = os.getcwd()
    _put_first(folder)
    spec = _spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _spec(f"{name}.__main__")
    if spec is None or spec.origin is None or not hasattr(spec.loader, "get_code"):
        raise UsageError(f"no module named {name!r} that can be run; see python -m {name}")
    return Program(name, [spec.origin, *arguments], folder, spec, spec.origin)


def _spec(name: str) -> ModuleSpec | None:
    with suppress(ModuleNotFoundError, ValueError):
        return importlib.util.find_spec(name)
    return None


def run(program: Program) -> int:
    """Run a program to its end, its threads included, and return its exit status.

    An exception that nobody caught is printed as python prints it, and makes 1.
    """
    module = _main_module(program)
    sys.argv = program.argv
    _put_first(program.folder)
    sys.modules["__main__"] = module
    try:
        exec(program.code(), module.__dict__)
        status = 0
    except SystemExit as error:
        status = _exit_status(error)
    except KeyboardInterrupt as error:
        status = INTERRUPTED
        with suppress(KeyboardInterrupt):  # some interrupt twice
            _print(error, module)
    except BaseException as error:
        _print(error, module)
        status = 1
    _wait_for_threads()
    return status


def _main_module(program: Program) -> ModuleType:
    module = ModuleType("__main__")
    spec = program.spec
    loader = spec.loader if spec else None
    vars(module).update(
        __builtins__=builtins,
        __file__=program.file,
        __cached__=spec.cached if spec else None,
        __package__=spec.parent if spec else None,
        __spec__=spec,
        __loader__=loader or importlib.machinery.SourceFileLoader("__main__", program.file),
    )
    return module


def _put_first(folder: str) -> None:
    """Put the program's folder where python puts it, in place of that of this command."""
    if getattr(sys.flags, "safe_path", False):
        return
    sys.path[0] = folder


def _exit_status(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _print(error: BaseException, module: ModuleType) -> None:
    """Print an error through the program's own hook, without the frames of this command."""
    where: TracebackType | None = error.__traceback__
    while where is not None and where.tb_frame.f_globals is not vars(module):
        where = where.tb_next
    error.__traceback__ = where
    sys.excepthook(type(error), error, where)


def _wait_for_threads() -> None:
    """Let the program's threads end, as python does before it ends itself.

    Those of executors that nobody shut down end only when python itself does.
    """
    try:
        while running := [thread for thread in threading.enumerate() if _is_worth_waiting(thread)]:
            running[0].join()
    except KeyboardInterrupt:
        print("interrupted while threads were running", file=sys.stderr)


def _is_worth_waiting(thread: threading.Thread) -> bool:
    if thread.daemon or thread is threading.current_thread():
        return False
    held = (("thread", "_threads_queues"), ("process", "_threads_wakeups"))
    return not any(
        thread in getattr(sys.modules.get(f"concurrent.futures.{module}"), name, ())
        for module, name in held
    )
