"""Tests that the generated reference pages have every command and every variable."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from interlace.cli import main as cli

ROOT = Path(__file__).resolve().parents[2]
READS = re.compile(r'"(INTERLACE_[A-Z_]+)"')  # the name of a variable in a string of Python or C++


def load_tool() -> Any:
    spec = importlib.util.spec_from_file_location(
        "reference_pages", ROOT / "tools/reference_pages.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = load_tool()


def test_the_command_line_has_every_command_and_option() -> None:
    page = TOOL.command_line()
    sections = re.split(r"^## `(.+)`$", page, flags=re.MULTILINE)
    found = dict(zip(sections[1::2], sections[2::2], strict=True))
    assert {words.split()[1] for words in found} == set(cli.COMMANDS)
    assert {"interlace bench copy", "interlace tune copy", "interlace trace info"} <= set(found)
    for words, command in TOOL.commands():
        names = [name for parameter in command.params for name in parameter.opts]
        for name in names:
            if name.startswith("--"):
                assert f"{name} " in found[words] or f"{name}`" in found[words], (words, name)


@pytest.mark.parametrize("folder", ["src", "python/interlace"])
def test_the_environment_has_every_variable_that_sources_name(folder: str) -> None:
    page = TOOL.environment()
    named = {
        name
        for file in (ROOT / folder).rglob("*")
        if file.suffix in (".py", ".cpp", ".hpp", ".cu")
        for name in READS.findall(file.read_text(encoding="utf-8"))
    }
    assert len(named) >= 3
    assert [name for name in sorted(named) if f"`{name}`" not in page] == []
