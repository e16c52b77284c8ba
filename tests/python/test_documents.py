"""Tests that the statements in documents about files, commands, examples and figures are true."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from interlace.cli import main as cli

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    file
    for pattern in ("*.md", "docs/**/*.md", "data/*.md", "machines/*.md", "tests/**/*.md")
    for file in ROOT.glob(pattern)
)
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = ROOT / "docs"
LONGEST_README = 150  # the largest allowed number of lines in the README
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
RESULT = re.compile(r"\bbench/results/[\w.*-]*\w\.json|[\w-]+\.json(?=`\]\(bench)")
PROMPT = re.compile(r"^(?:\$ )?(interlace .*)$")
NAMED = [file.relative_to(ROOT).as_posix() for file in DOCUMENTS]


def anchors(text: str) -> set[str]:
    """Return the anchors by which links on GitHub refer to headings."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", NAMED)
def test_links_lead_somewhere(name: str) -> None:
    file = ROOT / name
    for first, second in LINK.findall(FENCE.sub("", file.read_text(encoding="utf-8"))):
        link = first or second
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = file.parent / path if path else file
        assert target.exists(), f"{name} links to {link}"
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), f"{name}: {link}"


@pytest.mark.parametrize("name", NAMED)
def test_result_files_that_are_named_exist(name: str) -> None:
    for found in RESULT.findall((ROOT / name).read_text(encoding="utf-8")):
        pattern = found if found.startswith("bench/") else f"bench/results/{found}"
        assert list(ROOT.glob(pattern)), f"{name} names {found}"


def command_lines(text: str) -> list[str]:
    """Return the command lines of `interlace` in a document, from code blocks and code spans."""
    lines = []
    for _, block in FENCE.findall(text):
        joined = re.sub(r"\s*\\\n\s*", " ", block).splitlines()
        prompted = [line for line in joined if line.startswith("$ ")]  # all other lines are output
        for line in prompted or joined:
            if found := PROMPT.match(line):
                lines.append(found[1])
    spans = re.findall(r"(?<!`)`(interlace [^`]+)`", FENCE.sub("", text))
    return lines + [" ".join(span.split()) for span in spans]


@cache
def parser(wanted: str, variant: str | None) -> Any:
    """Return the parser of a command that `interlace` itself uses."""
    return typer.main.get_command(cli._app(wanted, variant))


def wrong_words(line: str) -> list[str]:
    """Return the words of a command line that look like commands or options of `interlace`, but are
    none.
    """
    words = shlex.split(line, comments=True)[1:]
    if words[0].startswith("-"):
        return [word for word in words if word not in ("--help", "--version")]
    if words[0] not in cli.COMMANDS:
        return words[:1]
    variant = words[1] if tuple(words[:2]) in cli.VARIANTS else None
    command = parser(words[0], variant).commands[words[0]]
    rest = words[1:]
    if (commands := getattr(command, "commands", None)) and rest:
        if rest[0] not in commands:
            return rest[:1]
        command, rest = commands[rest[0]], rest[1:]
    for word in ("--", "|"):  # the words that follow belong to another program
        if word in rest:
            rest = rest[: rest.index(word)]
    known = {option for param in command.params for option in param.opts} | {"--help", "-h"}
    given = [word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)]
    return [word for word in given if word not in known]


@pytest.mark.parametrize("name", NAMED)
def test_commands_and_options_exist(name: str) -> None:
    lines = command_lines((ROOT / name).read_text(encoding="utf-8"))
    if name == "README.md":
        assert lines
    wrong = {line: words for line in lines if (words := wrong_words(line))}
    assert not wrong


@pytest.mark.parametrize("name", NAMED)
def test_commands_are_written_one_way(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not re.findall(r"\S*bin/interlace\b|python3? -m interlace(?!\.)", text)


def test_wrong_command_lines_are_seen() -> None:
    assert wrong_words("interlace studdy pagerank") == ["studdy"]
    assert wrong_words("interlace study pagerank --gpu 2 --json x") == ["--gpu"]
    assert wrong_words("interlace bench copie") == ["copie"]
    assert wrong_words("interlace tune copy --mechanisms inline") == ["--mechanisms"]
    assert not wrong_words("interlace run --quiet -- python --wrong  # a word")
    assert wrong_words("interlace study --gpu 2 | grep -o bulk") == ["--gpu"]
    text = "`interlace plan\ngpu0`\n```\n$ interlace study \\\n  --html x\n```\n"
    assert command_lines(text) == ["interlace study --html x", "interlace plan gpu0"]


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= LONGEST_README


def test_code_in_the_documents_is_that_of_the_examples() -> None:
    examples = [
        file.read_text(encoding="utf-8")
        for file in sorted((ROOT / "docs/example").iterdir())
        if file.suffix in (".hpp", ".cpp", ".cu", ".py")
    ]
    texts = [README, (DOCS / "how-to/kernels.md").read_text(encoding="utf-8")]
    found = [block for text in texts for block in FENCE.findall(text)]
    blocks = [code for language, code in found if language in ("cpp", "python")]
    blocks = [code for code in blocks if not code.startswith("import ")]
    assert len(blocks) == 3
    for block in blocks:
        assert any(block in example for example in examples), block


def test_documents_name_this_version() -> None:
    version = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
    named = [
        (file.name, number)
        for file in DOCUMENTS
        for number in re.findall(
            r"^interlace (\d\S+)$|\binterlace-(\d[\d.]+)-cp", file.read_text(), re.MULTILINE
        )
    ]
    assert {name for name, _ in named} >= {"install.md", "first-study.md"}
    assert {"".join(number) for _, number in named} == {version}
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", changelog, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    dated = [re.fullmatch(r"\[([\d.]+)\] - (\d{4}-\d\d-\d\d)", one) for one in headings[1:]]
    assert all(dated)
    assert dated[0] is not None
    assert dated[0][1] == version
    dates = [one[2] for one in dated if one]
    assert dates == sorted(dates, reverse=True)


def test_calls_in_the_readme_are_of_public_names() -> None:
    import interlace

    calls = set(re.findall(r"\binterlace\.(\w+)\(", README))
    assert {"load", "save", "copy"} <= calls
    assert calls <= set(interlace.__all__)


@pytest.mark.parametrize(
    ("script", "page", "rows"),
    [
        ("papers_table.py", "explanation/papers.md", 15),
        ("papers_table.py described", "explanation/papers.md", 15),
        ("proact_sizes_table.py", "explanation/papers.md", 7),
        ("papers_moved.py quick", "explanation/papers.md", 40),
        ("papers_moved.py full", "explanation/papers.md", 10),
        ("studies_table.py", "explanation/benchmarks.md", 15),
        ("studies_table.py 4xh200", "explanation/benchmarks.md", 20),
        ("results_table.py", "explanation/benchmarks.md", 15),
        ("calibration_table.py", "explanation/simulator.md", 10),
        ("packets_table.py", "explanation/simulator.md", 10),
        ("packets_table.py both", "explanation/simulator.md", 17),
        ("updates_table.py", "explanation/packed-updates.md", 25),
        ("updates_gpus_table.py", "explanation/packed-updates.md", 15),
        ("updates_bench_table.py gpu", "how-to/scattered-updates.md", 4),
        ("updates_bench_table.py host", "how-to/scattered-updates.md", 3),
        ("workloads_table.py", "explanation/simulator.md", 24),
        ("simulator_table.py", "explanation/benchmarks.md", 10),
        ("loads_table.py memory", "explanation/benchmarks.md", 10),
        ("loads_table.py cores", "explanation/benchmarks.md", 3),
        ("loads_table.py disk", "explanation/benchmarks.md", 8),
        ("loads_table.py gpus", "explanation/benchmarks.md", 12),
        ("loads_table.py four", "explanation/benchmarks.md", 13),
        ("offload_tables.py blocks", "explanation/benchmarks.md", 25),
        ("offload_tables.py two", "explanation/benchmarks.md", 10),
        ("offload_tables.py beside", "explanation/benchmarks.md", 5),
        ("offload_tables.py replay", "how-to/programs.md", 4),
        ("offload_tables.py park", "how-to/parked-memory.md", 4),
    ],
)
def test_a_page_has_the_table_of_the_files(script: str, page: str, rows: int) -> None:
    name, *tables = script.split()
    words = [sys.executable, str(ROOT / "bench" / name), *tables]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    lines = printed.split("\n\n")[0].strip()
    assert len(lines.splitlines()) > rows
    assert f"\n{lines}\n\n" in (DOCS / page).read_text(encoding="utf-8")


def rates_of_loads(name: str) -> set[str]:
    """Return the rates in a file of loads, in the form in which documents state them."""
    results = json.loads((ROOT / "bench/results" / name).read_text(encoding="utf-8"))
    return {f"{row['gb_per_s']:.1f}" for row in results["rows"]}


def test_the_documents_have_the_rates_of_loads() -> None:
    (row,) = re.findall(r"^\| Load a 16 GB checkpoint .*$", README, re.MULTILINE)
    said = re.findall(r"(\d+\.\d) GB/s", row)
    assert len(said) == 3
    assert set(said) <= rates_of_loads("load-2xh200.json")
    page = (DOCS / "how-to/checkpoints.md").read_text(encoding="utf-8")
    said = re.findall(r"(\d+\.\d)\s+GB/s", page)
    assert len(said) == 3
    assert set(said) <= rates_of_loads("load-h200.json") | rates_of_loads("load-2xh200.json")


@pytest.mark.parametrize("part", ["tutorials", "how-to", "reference", "explanation"])
def test_the_page_of_a_part_leads_to_all_its_pages(part: str) -> None:
    index = (DOCS / part / "index.md").read_text(encoding="utf-8")
    pages = {file.name for file in (DOCS / part).glob("*.md")} - {"index.md"}
    assert pages - {link for link, _ in LINK.findall(index)} == set()
    assert f"({part}/index.md)" in (DOCS / "index.md").read_text(encoding="utf-8")
