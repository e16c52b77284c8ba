"""README's table of studies is what bench/studies_table.py prints of the files in bench/results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_readme_has_the_table_of_the_files() -> None:
    words = [sys.executable, str(ROOT / "bench" / "studies_table.py")]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    lines, said = printed.strip().rsplit("\n\n", 1)
    assert len(lines.splitlines()) == 2 + 17
    assert said.startswith("inline over the best of bulk-copy, split, nccl: ")
    assert f"\n{lines}\n" in (ROOT / "README.md").read_text(encoding="utf-8")
