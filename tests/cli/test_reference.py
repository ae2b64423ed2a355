"""The reference page says what the commands say of themselves.

The tables of options are written from the commands: NVTRACE_UPDATE_DOCS=1 puts them right.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
import pytest

from nvtrace.cli import VERBS, cli

BLOCK = re.compile(r"<!-- options of (\w+) -->\n(.*?)<!-- end -->", re.DOTALL)


@pytest.fixture(scope="module")
def page(repository: Path) -> Path:
    return repository / "docs" / "reference" / "cli.md"


def options_of(verb: str) -> str:
    """The table of a verb's options."""
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    rows = [row(param) for param in command.params if isinstance(param, click.Option)]
    return "\n".join(["", "| option | meaning |", "|---|---|", *rows, "", ""])


def row(option: click.Option) -> str:
    spellings = ", ".join(f"`{spelling}`" for spelling in option.opts)
    if isinstance(option.type, click.Choice):
        value = " `" + "\\|".join(option.type.choices) + "`"
    elif option.is_flag:
        value = ""
    else:
        value = f" `{option.metavar or 'N'}`"
    default = f" Default: `{option.default}`." if option.show_default else ""
    help_text = (option.help or "").replace("|", "\\|")
    return f"| {spellings}{value} | {help_text}{default} |"


def test_options(page: Path) -> None:
    text = page.read_text()
    if os.environ.get("NVTRACE_UPDATE_DOCS"):
        text = BLOCK.sub(
            lambda found: f"<!-- options of {found[1]} -->\n{options_of(found[1])}<!-- end -->",
            text,
        )
        page.write_text(text)
    blocks = dict(BLOCK.findall(text))
    assert list(blocks) == list(VERBS)
    for verb, block in blocks.items():
        assert block == options_of(verb)


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_has_help(verb: str) -> None:
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    assert command.help
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.help, param.name


@pytest.mark.parametrize("verb", VERBS)
def test_one_section_a_verb(page: Path, verb: str) -> None:
    assert f"\n## nvtrace {verb}\n" in page.read_text()
