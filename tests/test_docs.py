"""What the README and the documentation show is true.

Every block of ``python`` and every ``$ nvtrace ...`` line of a ``console`` block runs, page by page
from top to bottom, with ``nvtrace`` imported, in a folder that holds the report of ``nvtrace demo``
as ``report.sqlite``, ``run.sqlite``, ``rank0.sqlite``, ``rank1.sqlite``, ``before.sqlite`` and
``after.sqlite``, a program ``train.py`` that marks sixteen steps and, for the pages that name such
files, a recording of sixteen steps as ``report.nsys-rep`` and ``report.rankN.nsys-rep``, N from 0
to 3, and the export ``report_pqtdir`` of it. What a console block shows below a command is compared
with what the command prints; ``...`` stands for anything, on a line or for lines. A block that
cannot run here says why in a comment above it: ``<!-- not run: needs a GPU -->``.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

import click
import pytest

import nvtrace
from nvtrace.analysis.views import VIEWS
from nvtrace.cli import VERBS, cli
from nvtrace.demo import write_report
from nvtrace.model.trace import GPU_NOT_RECORDED

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<why>\S.*) -->\n\s*)?```(?P<language>\w+)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
PROGRAM = """
import nvtrace

for number in range(16):
    with nvtrace.step(number), nvtrace.phase("forward"), nvtrace.range("attention"):
        pass
"""


class Block(NamedTuple):
    """A fenced block: its language, text, line on the page and why it does not run, if so."""

    language: str
    body: str
    line: int
    why: str | None


class Command(NamedTuple):
    """A line after ``$`` in a console block, and the lines shown below it."""

    text: str
    shown: list[str]


def blocks(text: str) -> list[Block]:
    return [
        Block(m["language"], m["body"], text.count("\n", 0, m.start("body")), m["why"])
        for m in BLOCK.finditer(text)
    ]


def commands(body: str) -> list[Command]:
    found: list[Command] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], []))
        elif found and found[-1].text.endswith("\\"):
            found[-1] = Command(found[-1].text[:-1] + line, [])
        elif found:
            found[-1].shown.append(line)
    return found


def matches(shown: list[str], printed: str) -> bool:
    """Whether output is as shown; ``...`` stands for anything, space at line ends for nothing."""
    lines = [re.escape(line.rstrip()).replace(r"\.\.\.", "[^\n]*") for line in shown]
    pattern = "\n".join(".*?" if line == "[^\n]*" else line for line in lines).strip("\n")
    text = "\n".join(line.rstrip() for line in printed.splitlines()).strip("\n")
    return re.fullmatch(pattern, text, re.DOTALL) is not None


@pytest.fixture(scope="module")
def recording(nsys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report that the real nsys recorded of PROGRAM."""
    folder = tmp_path_factory.mktemp("recording")
    (folder / "train.py").write_text(PROGRAM, encoding="utf-8")
    record = [nsys, "profile", "-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-o", "report"]
    subprocess.run([*record, sys.executable, "train.py"], cwd=folder, check=True, timeout=900)
    return folder / "report.nsys-rep"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    write_report(tmp_path / "report.sqlite", truth=False)
    for name in ("run", "rank0", "rank1", "before", "after"):
        shutil.copy("report.sqlite", f"{name}.sqlite")
    text = page.read_text(encoding="utf-8")
    if re.search(r"^\$ nvtrace .*\.nsys-rep", text, re.MULTILINE):
        monkeypatch.setenv("NVTRACE_NSYS", str(request.getfixturevalue("nsys")))
        for name in ("", ".rank0", ".rank1", ".rank2", ".rank3"):
            shutil.copy(request.getfixturevalue("recording"), f"report{name}.nsys-rep")
    if re.search(r"^\$ nvtrace .*report_pqtdir", text, re.MULTILINE):
        export = [request.getfixturevalue("nsys"), "export", "-q", "true", "-t", "parquetdir"]
        subprocess.run([*export, "report.nsys-rep"], check=True, timeout=900)
    names: dict[str, object] = {"__name__": "page", "nvtrace": nvtrace}
    for block in blocks(text):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if block.language == "python" and not block.why:
            source = "\n" * block.line + block.body  # so that a traceback names the page's line
            exec(compile(source, str(page), "exec", dont_inherit=True), names)
        elif block.language == "console" and not block.why:
            for command in commands(block.body):
                if re.match("nvtrace [a-z-]", command.text):  # nvtrace VERB is a synopsis
                    check(command, where)


def check(command: Command, where: str) -> None:
    """Run a command of a page and compare what it prints with what the page shows."""
    run = subprocess.run(
        ["bash", "-c", command.text],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if command.shown else subprocess.PIPE,
        text=True,
        timeout=900,
    )
    assert run.returncode == 0, f"{where}: {command.text}\n{run.stdout}{run.stderr}"
    if command.shown:
        assert matches(command.shown, run.stdout), f"{where}: {command.text}\n{run.stdout}"


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    pages = [*PAGES, ROOT / "CONTRIBUTING.md"]
    used = {
        target
        for page in pages
        for target in re.findall(r"\bmake ([a-z]+)\b(?=`|$|\s+#)", page.read_text(), re.MULTILINE)
    }
    assert {"demo", "test"} <= used, "the README shows the two commands"
    assert used <= targets


@pytest.mark.parametrize("verb", VERBS)
def test_verb_and_its_options_are_documented(verb: str) -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert re.search(rf"^#+ .*\bnvtrace {verb}\b", page, re.MULTILINE), f"no heading for {verb}"
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    options = {o for p in command.params for o in p.opts if o.startswith("--")}
    assert {option for option in options if option not in page} == set()


def test_keys_of_the_json_are_documented(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    stems = ("total_ns", "avg_ns", "max_ns", "min_ns", "ratio")
    trace = nvtrace.load(write_report(tmp_path / "report.sqlite", truth=False))
    for view, table in trace.summary(VIEWS).tables.items():
        row = re.search(rf"^\| `{view}` \| (.*) \|$", page, re.MULTILINE)
        assert row, f"no row for {view}"
        keys: list[str] = []
        for word in re.findall(r"`([a-z_]+\*?)`", row[1].replace("(`cpu` or `gpu`)", "")):
            keys += [word[:-1] + stem for stem in stems] if word.endswith("*") else [word]
        assert keys == [column.key for column in table.columns], view
    compared = nvtrace.compare(trace, trace)
    rows = re.findall(r"^\| `(\w+)` \| (`run` .*) \|$", page, re.MULTILINE)
    assert [view for view, _ in rows] == list(compared.tables)
    ends = ("before_ns", "after_ns", "change_ns", "change")
    for view, row in rows:
        words = re.findall(r"`([a-z_\d]+\*?)`", row)
        keys = [
            key
            for word in words
            for key in ([word[:-1] + end for end in ends] if word.endswith("*") else [word])
        ]
        assert keys == compared[view].keys(), view
    table = page.split("`nvtrace ranges` has one view")[1].split("## ")[0]
    cells = re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE)
    keys = [key for cell in cells for key in re.findall(r"`(\w+)`", cell)]
    assert sorted(keys) == sorted(c.key for c in trace.ranges_report()["ranges"].columns)


def note_codes() -> set[str]:
    """The codes of all notes that nvtrace gives, from its source."""
    codes = {GPU_NOT_RECORDED}
    for path in (*(ROOT / "nvtrace").rglob("*.py"), *(ROOT / "adapters").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Note" and node.args:
                found = [n.value for n in ast.walk(node.args[0]) if isinstance(n, ast.Constant)]
                codes |= {value for value in found if isinstance(value, str)}
    return codes


def test_note_codes_are_documented() -> None:
    page = (ROOT / "docs" / "reference" / "figures.md").read_text(encoding="utf-8")
    table = page.split("\n## Notes\n")[1]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    documented = [code for row in rows for code in re.findall(r"`(\w+)`", row)]
    assert "no_steps" in note_codes(), "the codes in the source are found"
    assert sorted(documented) == sorted(note_codes())


def test_blocks_are_found() -> None:
    page = (
        "a\n```python\nx = 1\n```\n<!-- not run: no GPU -->\n"
        "```console\n$ nvtrace a \\\n  b\nc\n```\n"
    )
    first, second = blocks(page)
    assert first == Block("python", "x = 1\n", 2, None)
    assert (second.language, second.why) == ("console", "no GPU")
    assert commands(second.body) == [Command("nvtrace a   b", ["c"])]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        (["a  1", "b"], "a  1  \nb\n", True),
        (["a  1"], "a  2\n", False),
        (["a", "b"], "a\nx\nb\n", False),
        (["a", "...", "b"], "a\nx\ny\nb\n", True),
        (["a ... ms", "b"], "a 3.5 ms\nb\n", True),
        (["a ... ms"], "a 3\n4 ms\n", False),
        (["a", "..."], "b\n", False),
    ],
)
def test_output_is_compared(shown: list[str], printed: str, same: bool) -> None:
    assert matches(shown, printed) is same
