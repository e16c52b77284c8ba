"""Tests the tutorials. Every command of a page must print what the page shows."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from interlace.base.installation import installed

ROOT = Path(__file__).resolve().parents[2]


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tutorials", ROOT / "tools/tutorials.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tutorials"] = module  # dataclasses look up their module here
    spec.loader.exec_module(module)
    return module


tutorials = _tool()
PAGES = {page.stem: page for page in tutorials.pages()}
EXAMPLES = [
    file.read_text(encoding="utf-8")
    for file in sorted((ROOT / "docs/example").rglob("*"))
    if file.suffix in {".hpp", ".py"}
]
REASONS = {"installs", "needs a GPU", "opens a window"}
FIGURE = re.compile(r"(?<!Python )\b\d+\.\d\d\b")
PARTS = ("At the end you have", "Time", "You need")

needs_core = pytest.mark.skipif(
    importlib.util.find_spec("interlace._core") is None, reason="the compiled module is not built"
)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_it_takes_and_what_comes_next(name: str) -> None:
    text = PAGES[name].read_text(encoding="utf-8")
    for part in PARTS:
        assert f"\n| {part} | " in text
    last = text.rpartition("\n## ")[2]
    assert last.startswith("Next\n")
    assert last.count("](") >= 2


@pytest.mark.parametrize("name", PAGES)
def test_blocks_are_run_or_say_why_not(name: str) -> None:
    blocks = tutorials.blocks_of(PAGES[name].read_text(encoding="utf-8"))
    assert {block.not_run for block in blocks} <= {"", *REASONS}
    for block in blocks:
        assert block.language in {"console", "cpp", "python", "toml", "text"}
        if block.language == "console":
            assert list(block.commands())
    assert any(b.language == "console" and not b.not_run for b in blocks)


@pytest.mark.parametrize("name", PAGES)
def test_excerpts_are_those_of_the_examples(name: str) -> None:
    blocks = tutorials.blocks_of(PAGES[name].read_text(encoding="utf-8"))
    excerpts = [b.text for b in blocks if b.language in {"cpp", "python"} and not b.file]
    for excerpt in excerpts:
        assert any(excerpt in file for file in EXAMPLES), excerpt


@pytest.mark.parametrize("name", PAGES)
def test_figures_in_the_text_are_in_the_output(name: str) -> None:
    text = PAGES[name].read_text(encoding="utf-8")
    blocks = tutorials.blocks_of(text)
    shown = "\n".join(block.text for block in blocks)
    prose = text
    for block in blocks:
        prose = prose.replace(block.text, "")
    missing = [figure for figure in FIGURE.findall(prose) if figure not in shown]
    assert not missing


@needs_core
@pytest.mark.parametrize("name", PAGES)
def test_commands_print_what_the_page_shows(name: str, tmp_path: Path) -> None:
    if name == "own-kernel" and installed("lib/libinterlace_core.a") is None:
        pytest.skip("needs Interlace as `pip install` or ./check installs it")
    built = tmp_path / "built"
    built.mkdir()
    stand_in = tutorials.stand_in(tutorials.stand_in_of(PAGES[name]), built)
    shell = tutorials.Shell(tmp_path / "home", stand_in)
    for command, printed in tutorials.steps(PAGES[name], shell):
        shown = "\n".join(printed)
        assert tutorials.matches(command.shown, printed), f"$ {command.text}\n{shown}"


# --- the tool -------------------------------------------------------------------------------------

PAGE = """\
Save this as `a/b.txt`:

```text
one
two
```

```console
$ cd a && cat b.txt | \\
    cat
one
two
$ pwd >/dev/null; echo "at $(date)"; exit 3
at ...
```

<!-- not run: opens a window -->

```console
$ xdg-open nothing
```

```console
$ cat b.txt
...
two
```
"""


def test_a_page_is_a_script(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    ran = list(tutorials.steps(page, tutorials.Shell(tmp_path)))
    assert [command.text.split()[0] for command, _ in ran] == ["cd", "pwd", "cat"]
    assert all(tutorials.matches(command.shown, printed) for command, printed in ran)
    lines = PAGE.splitlines()
    command = ran[0][0]
    assert lines[command.first : command.end] == ["one", "two"]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        (["a"], ["a"], True),
        (["a"], ["a", "b"], False),
        (["a", "..."], ["a"], True),
        (["a", "...", "d"], ["a", "b", "c", "d"], True),
        (["a", "...", "d"], ["a", "b", "c"], False),
        (["in ... s"], ["in 0.5 s"], True),
        (["in ... s"], ["in 0.5 s", "more"], False),
        (["1.5"], ["125"], False),
        ([], ["warning"], False),
    ],
)
def test_what_is_left_out(shown: list[str], printed: list[str], same: bool) -> None:
    assert tutorials.matches(shown, printed) is same


def test_a_new_output_keeps_the_cut() -> None:
    assert tutorials.updated(["a", "...", "z"], ["b", "c", "d", "y"]) == ["b", "...", "y"]
    assert tutorials.updated(["a", "..."], ["b", "c"]) == ["b", "..."]
    assert tutorials.updated(["a"], ["b", "c"]) == ["b", "c"]


def test_a_block_without_a_prompt_is_an_error() -> None:
    (block,) = tutorials.blocks_of("```console\nls\n```\n")
    with pytest.raises(ValueError, match="not with a command"):
        list(block.commands())
