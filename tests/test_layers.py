"""The layers and the house numbers hold: read from the source, nothing is imported."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = {
    ".".join((package, *file.relative_to(ROOT / folder).with_suffix("").parts)): file
    for package, folder in (("nvtrace", "nvtrace"), ("nvtrace.adapters", "adapters"))
    for file in sorted((ROOT / folder).rglob("*.py"))
}
CORE = {name: file for name, file in MODULES.items() if not name.startswith("nvtrace.adapters.")}
SIDES = ("nvtrace.sources", "nvtrace.analysis", "nvtrace.sinks")
HEAVY = {"torch", "paddle", "jax", "cupti", "cuda", "pandas", "polars", "pyarrow"}
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc"}


def imports(tree: ast.AST, module: str, relative: bool = True) -> Iterator[str]:
    """Absolute names of what a module imports, at any depth: ``a.b`` of ``from a import b``."""
    package = module.split(".")[:-1]  # a package's module is NAME.__init__
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (relative or not node.level):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *(node.module or "").split(".")]).strip(".")
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def on_import(tree: ast.AST) -> Iterator[ast.AST]:
    """What runs, or would, when the module is imported: no function body, nothing for checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from on_import(node)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def layer_faults(source: str, module: str) -> list[str]:
    """What a module imports against the rules of the layers."""
    tree = ast.parse(source)
    names = set(imports(tree, module))
    # In the core never; among the adapters only by relative imports, which checkers can follow.
    absolute = names if module in CORE else set(imports(tree, module, relative=False))
    faults = [n for n in absolute if within(n, "nvtrace.adapters") or within(n, "adapters")]
    if not within(module, "nvtrace.cli") and module != "nvtrace.__main__":
        faults += [n for n in names if within(n, "nvtrace.cli")]
    for side in SIDES:
        if within(module, side):
            others = [other for other in SIDES if other != side]
            faults += [n for n in names for other in others if within(n, other)]
    if within(module, "nvtrace.model"):
        allowed = {"numpy", "nvtrace", *sys.stdlib_module_names}
        faults += [n for n in names if n.split(".")[0] not in allowed]
        inner = [n for n in names if n.startswith("nvtrace.")]
        faults += [
            n for n in inner if not within(n, "nvtrace.model") and not within(n, "nvtrace.errors")
        ]
    if module in CORE:
        faults += [
            n
            for node in on_import(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for n in imports(node, module)
            if n.split(".")[0] in HEAVY
        ]
    return sorted(set(faults))


def number_faults(source: str) -> list[str]:
    """Where a module is longer than the house allows, or uses ``global``."""
    tree = ast.parse(source)
    lines = len(source.splitlines())
    faults = [f"{lines} lines, more than 400"] if lines > 400 else []
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            faults.append(f"line {node.lineno}: global")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > 60:
                faults.append(f"line {node.lineno}: {node.name} has {length} lines, more than 60")
    return faults


def names_faults(modules: set[str], public: set[str]) -> list[str]:
    """Modules of a vague name, and those that hide a public name of the package beside them."""
    shadows = {f"nvtrace.{name}" for name in public}
    packages = {name.removesuffix(".__init__") for name in modules}
    vague = {name for name in packages if name.split(".")[-1] in VAGUE}
    return sorted(vague | (packages & shadows))


@pytest.mark.parametrize("module", MODULES)
def test_module_keeps_to_its_layer(module: str) -> None:
    assert layer_faults(MODULES[module].read_text(encoding="utf-8"), module) == []


@pytest.mark.parametrize("module", MODULES)
def test_module_keeps_the_house_numbers(module: str) -> None:
    source = MODULES[module].read_text(encoding="utf-8")
    assert number_faults(source) == []
    code = ast.parse(source).body[1:]  # after the docstring
    if code:
        assert ast.unparse(code[0]) == "from __future__ import annotations"


def test_no_module_hides_a_public_name() -> None:
    import nvtrace

    assert names_faults(set(MODULES), set(nvtrace.__all__)) == []


@pytest.mark.parametrize(
    ("module", "source", "faults"),
    [
        ("nvtrace.model.table", "import numpy as np, json", []),
        ("nvtrace.model.table", "from .schema import X", []),
        ("nvtrace.model.table", "import click", ["click"]),
        ("nvtrace.model.table", "from nvtrace import report", ["nvtrace.report"]),
        (
            "nvtrace.sinks.chrome",
            "from nvtrace.analysis.phases import steps",
            ["nvtrace.analysis.phases", "nvtrace.analysis.phases.steps"],
        ),
        (
            "nvtrace.sources.nsys_cli",
            "def f():\n    from ..sinks import text",
            ["nvtrace.sinks", "nvtrace.sinks.text"],
        ),
        ("nvtrace.analysis.summaries.__init__", "from ... import sinks", ["nvtrace.sinks"]),
        ("nvtrace.analysis.summaries.kernel", "from ..intervals import union", []),
        ("nvtrace.report", "from nvtrace import cli", ["nvtrace.cli"]),
        ("nvtrace.__main__", "from nvtrace.cli import run", []),
        ("nvtrace.ranges", "import nvtrace.adapters", ["nvtrace.adapters"]),
        ("nvtrace.adapters.torch.hooks", "from ..base import X\nfrom nvtrace import step", []),
        (
            "nvtrace.adapters.torch.hooks",
            "from adapters import base",
            ["adapters", "adapters.base"],
        ),
        (
            "nvtrace.adapters.torch.hooks",
            "from nvtrace.adapters import base",
            ["nvtrace.adapters", "nvtrace.adapters.base"],
        ),
        ("nvtrace.report", "import pandas as pd", ["pandas"]),
        ("nvtrace.report", "try:\n    import torch.cuda\nexcept ImportError: pass", ["torch.cuda"]),
        ("nvtrace.report", "class A:\n    import polars", ["polars"]),
        ("nvtrace.report", "def to_pandas():\n    import pandas", []),
        ("nvtrace.report", "if TYPE_CHECKING:\n    import pandas", []),
    ],
)
def test_layer_rules_themselves(
    module: str, source: str, faults: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not module.startswith("nvtrace.adapters."):
        monkeypatch.setitem(CORE, module, Path())
    assert [f for f in layer_faults(source, module) if f != "nvtrace"] == faults


def test_number_rules_themselves() -> None:
    long = "def f():\n" + "    x = 1\n" * 60
    assert number_faults(long) == ["line 1: f has 61 lines, more than 60"]
    assert number_faults("x = 1\n" * 401) == ["401 lines, more than 400"]
    assert number_faults("def f():\n    global x\n") == ["line 2: global"]
    assert number_faults("def f():\n" + "    x = 1\n" * 59) == []


def test_name_rules_themselves() -> None:
    modules = {"nvtrace.__init__", "nvtrace.range", "nvtrace.sinks.utils", "nvtrace.cli.load"}
    assert names_faults(modules, {"range", "load"}) == ["nvtrace.range", "nvtrace.sinks.utils"]
