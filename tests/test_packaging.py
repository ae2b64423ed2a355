"""A wheel, a wheel made from the sdist and an editable install all hold the whole package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS = {"nvtrace": "nvtrace", "nvtrace.adapters": "adapters"}
PROBE = """
import importlib, importlib.metadata, importlib.resources, importlib.util, json, sys
import nvtrace
for name in sys.argv[1:]:
    importlib.import_module(name)
def native():
    from nvtrace.sources.cupti.shim import LIBRARY, Shim
    return Shim().counts().buffers == 0 if LIBRARY.exists() else None
from nvtrace.emit.native import Block, BestNest
from nvtrace.sinks import chrome_native
from nvtrace.sources import sqlite_native
print(json.dumps({
    "file": nvtrace.__file__,
    "version": importlib.metadata.version("nvtrace"),
    "typed": importlib.resources.files("nvtrace").joinpath("py.typed").is_file(),
    "bare": importlib.util.find_spec("adapters") is not None,
    "buffers": native(),
    "pages": sqlite_native.library() is not None,
    "timeline": chrome_native.library() is not None,
    "recorder": [Block.__module__, BestNest.__module__],
}))
"""


def folders() -> dict[str, Path]:
    """The packages that the tree holds, by name."""
    return {
        ".".join((package, *file.parent.relative_to(ROOT / folder).parts)): file.parent
        for package, folder in FOLDERS.items()
        for file in (ROOT / folder).rglob("__init__.py")
    }


def shipped() -> set[str]:
    """The files that a wheel has to hold, by their path in it."""
    files = {
        f"{package.replace('.', '/')}/{file.name}"
        for package, folder in folders().items()
        for file in folder.glob("*.py")
    }
    return files | {"nvtrace/py.typed"}


LIBRARIES = {f"nvtrace/native/{name}.so" for name in ("buffers", "pages", "timeline")}
RECORDER = f"nvtrace/native/recorder{sysconfig.get_config_var('EXT_SUFFIX')}"
CALLS = RECORDER.replace("recorder", "calls")
BUILT = {
    "wheel": LIBRARIES | {RECORDER, CALLS},
    "wheel_of_sdist": LIBRARIES | {RECORDER, CALLS},
    "editable": LIBRARIES | {RECORDER, CALLS},
    "wheel_without_header": LIBRARIES,
    "wheel_without_compiler": set(),
}
"""The native parts that each way of installing has to bring."""


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """The standard output of a command that succeeds."""
    variables = {**os.environ, **environment}
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=900, env=variables
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the build reads, so that the build leaves nothing in the checkout."""
    copy = tmp_path_factory.mktemp("source")
    for folder in FOLDERS.values():
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    for name in ("pyproject.toml", "setup.py", PROJECT["project"]["readme"], "LICENSE"):
        shutil.copy(ROOT / name, copy)
    return copy


def build(source: Path, *options: str, **environment: str) -> Path:
    """The wheel that ``python -m build`` makes of a source tree."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", *options, "."]
    run(*command, cwd=source, **environment)
    (wheel,) = (source / "dist").glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    return moved(build(source, "--wheel"), source / "direct")


@pytest.fixture(scope="module")
def wheel_of_sdist(source: Path, wheel: Path) -> Path:
    return moved(build(source), source / "indirect")  # an sdist, and the wheel of what it holds


@pytest.fixture(scope="module")
def wheel_without_compiler(source: Path, wheel: Path) -> Path:
    shutil.rmtree(source / "build")
    return moved(build(source, "--wheel", CC="/nowhere/cc"), source / "pure")


@pytest.fixture(scope="module")
def wheel_without_header(source: Path, wheel: Path) -> Path:
    """Built where Python.h says nothing: what it says is already said, by its own guard."""
    shutil.rmtree(source / "build")
    return moved(build(source, "--wheel", CFLAGS="-DPy_PYTHON_H"), source / "headless")


def moved(wheel: Path, folder: Path) -> Path:
    """The wheel in a folder of its own, so that the next one built is the only one."""
    folder.mkdir()
    return wheel.rename(folder / wheel.name)


def environment(folder: Path) -> Path:
    """The python of a new environment that sees this one's packages, but not its nvtrace."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    paths = json.loads(
        run(
            python,
            "-c",
            "import json, sysconfig; print(json.dumps(sysconfig.get_paths()))",
            cwd=folder,
        )
    )
    # A .pth file's folder comes last and its own .pth files, an editable install's, do not count.
    (Path(paths["purelib"]) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python


@pytest.mark.parametrize("kind", BUILT)
def test_install_is_whole(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    python = environment(tmp_path / "env")
    source: Path = request.getfixturevalue("source")
    if kind == "editable":
        what = ["--no-build-isolation", "--editable", str(source)]
    else:
        what = [str(request.getfixturevalue(kind))]
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps"]
    run(*pip, "--force-reinstall", *what, cwd=tmp_path)

    names = [name.replace("/", ".")[:-3] for name in shipped() if name.endswith(".py")]
    names = [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]
    found = json.loads(run(python, "-c", PROBE, *names, cwd=tmp_path))
    inside = source if kind == "editable" else tmp_path / "env"
    assert Path(found["file"]).resolve().is_relative_to(inside.resolve())
    assert found["version"] == version()
    assert found["typed"]
    assert not found["bare"], "a top-level package called adapters got installed"
    assert found["buffers"] is (True if BUILT[kind] >= LIBRARIES else None)
    assert found["pages"] == found["timeline"] == (BUILT[kind] >= LIBRARIES)
    native = ["nvtrace.native.recorder"] * 2
    plain = ["nvtrace.emit.blocks", "nvtrace.emit.nest"]
    assert found["recorder"] == (native if RECORDER in BUILT[kind] else plain)

    script = tmp_path / "env" / "bin" / "nvtrace"
    assert run(script, "--version", cwd=tmp_path).strip() == f"nvtrace {version()}"
    assert run(python, "-m", "nvtrace", "--version", cwd=tmp_path).split()[-1] == version()


def version() -> str:
    return str(PROJECT["project"]["version"])


def test_package_list_is_that_of_the_folders() -> None:
    assert sorted(PROJECT["tool"]["setuptools"]["packages"]) == sorted(folders())


@pytest.mark.parametrize("kind", [kind for kind in BUILT if kind != "editable"])
def test_wheel_holds_every_module_and_the_licence(
    kind: str, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(kind)
    with zipfile.ZipFile(path) as archive:
        files = set(archive.namelist())
    info = f"nvtrace-{version()}.dist-info/"
    assert {name for name in files if not name.startswith(info)} == shipped() | BUILT[kind]
    one = f"cp{sys.version_info.major}{sys.version_info.minor}"
    abi = one + sys.abiflags
    assert path.name.startswith(f"nvtrace-{version()}-{one}-{abi}-linux_"), "for this Python"
    assert info + "licenses/LICENSE" in files
