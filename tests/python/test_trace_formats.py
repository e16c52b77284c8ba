"""Tests the examples of docs/reference/trace-formats.md.

Interlace must read each example, and convert it to the bytes that the page shows.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from study_helpers import Run

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/trace-formats.md"
EXAMPLE = re.compile(r"^`([\w.-]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def examples(tmp_path: Path) -> dict[str, Path]:
    """Return the example files of the page by name."""
    found = {name: tmp_path / name for name, _ in EXAMPLE.findall(PAGE.read_text("utf-8"))}
    for name, text in EXAMPLE.findall(PAGE.read_text("utf-8")):
        found[name].write_text(text, encoding="utf-8")
    return found


def test_each_example_is_read(run: Run, examples: dict[str, Path]) -> None:
    where = ("--map", examples.pop("map.toml"))
    known = {"kernel-1.traceg": where, "output.txt": where, "mem.trace": ("--gpus", 1)}
    assert set(examples) == set(known)
    for name, options in known.items():
        ran = run("trace", "info", examples[name], *options)
        assert ran.code == 0, ran.err
        assert "1 kernel on 1 GPU, 1 block, 2 accesses of warps" in ran.out


@pytest.mark.usefixtures("examples")
def test_the_bytes_are_those_of_the_page(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the trace contains the relative path of its source
    ran = run("trace", "convert", "kernel-1.traceg", "out.trace", "--map", "map.toml")
    assert ran.code == 0, ran.err
    lines = re.findall(r"^\d{7} ((?: ?[0-9a-f]{2})+) +>", PAGE.read_text("utf-8"), re.MULTILINE)
    assert (tmp_path / "out.trace").read_bytes() == bytes.fromhex(" ".join(lines))
