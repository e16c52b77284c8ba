"""Tests that every test in tests/README.md exists."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
README = (TESTS / "README.md").read_text(encoding="utf-8")


def test_each_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`((?:python|cpp)/[\w/]+\.(?:py|cpp|c))::(\w+)`", README)
    assert len(named) > 30
    for file, test in named:
        forms = {
            "py": rf"^def {test}\(",
            "cpp": rf"^TEST\w*\(\w+, {test}\)",
            "c": rf"^static void {test}\(",
        }
        form = forms[file.rsplit(".", 1)[1]]
        text = (TESTS / file).read_text(encoding="utf-8")
        assert re.search(form, text, re.MULTILINE), f"{file} has no {test}"


def test_each_weakness_has_a_test() -> None:
    rows = [line for line in README.splitlines() if re.match(r"\| (?!finding|-)", line)]
    findings = rows[rows.index(next(row for row in rows if "`PATH`" in row)) :]
    assert len(findings) >= 17
    assert all("::" in row for row in findings)


def test_each_file_and_folder_of_tests_is_there() -> None:
    for file in re.findall(r"`(python/test_\w+\.py)`", README):
        assert (TESTS / file).is_file(), file
    folders = {folder.name for folder in TESTS.iterdir() if folder.is_dir()}
    assert folders - {"__pycache__"} == set(re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE))
