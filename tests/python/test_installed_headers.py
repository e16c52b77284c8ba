"""Programs outside of the tree: the headers that are installed."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_examples_are_short() -> None:
    examples = sorted((ROOT / "docs/example").glob("region*"))
    assert len(examples) == 3
    for file in examples:
        assert len(file.read_text("utf-8").splitlines()) <= 60, file.name
