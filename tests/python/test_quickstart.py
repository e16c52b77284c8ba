"""Tests the last steps of `./quickstart`, and its advice on what to do next."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from interlace.machine.reading import load_machine
from interlace.model.mechanism_table import BULK_COPY, INFINITE_BANDWIDTH, INLINE
from study_helpers import Run

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "quickstart").read_text(encoding="utf-8").replace("\\\n", " ")


def study() -> list[str]:
    """Return the command line of quickstart's study on a described machine."""
    shared = re.search(r'interlace" (study \w+ .*?) "\$@"', TEXT)
    own = re.search(r"^study ct (--machine .*?) \|\|", TEXT, re.MULTILINE)
    assert shared is not None
    assert own is not None
    return shlex.split(f"{shared[1]} {own[1]}")


def test_its_table_makes_the_case(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("interlace._core")
    out = tmp_path / "out.json"
    names = ",".join((BULK_COPY, INLINE, INFINITE_BANDWIDTH))
    ran = run(*study(), "--mechanisms", names, "--json", out)
    assert ran.code == 0, ran.err
    speedup = {
        row["mechanism"]: row["speedup"]
        for row in json.loads(out.read_text())["rows"]
        if row["gpus"] == 4
    }
    assert 2 < speedup[BULK_COPY] < 0.9 * speedup[INLINE]
    assert speedup[INLINE] > 0.9 * speedup[INFINITE_BANDWIDTH]


def test_what_it_says_is_there() -> None:
    words = study()
    model = load_machine(words[words.index("--machine") + 1]).gpu.model
    assert model.removeprefix("Tesla ").partition("-")[0] in TEXT
    said = [line for line in re.findall(r'^ *say "(.*)"$', TEXT, re.MULTILINE) if line]
    for name in re.findall(r"(?:docs|data|\.venv/bin)/[\w./-]+", "\n".join(said)):
        assert name.startswith(".venv/") or (ROOT / name).is_file()
