"""Tests docs/example/overlap_torch.py with a stand-in for GPUs.

If a step of the example is removed, the stand-in must find the error. If there are GPUs, the
example itself runs on them.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlace.model.mechanism_table import BULK_COPY, COPY_ENGINE, INLINE, POLLING

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "docs/example/overlap_torch.py"
STAND_IN = ROOT / "tests/python/stand_ins/regions"
XCHG = 'atomic_xchg(flags + c, one, mask=complete, sem="release", scope="sys")'
SMALL = ("--elements", "5000", "--reach", "2", "--epochs", "3", "--chunk-bytes", "4096")


def run(program: Path, *words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(program), *words],
        env={**os.environ, **({"PYTHONPATH": str(path)} if path else {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("mechanism", "line", "mutation", "finding"),
    [
        (INLINE, "tl.store(other + i, value, mask=inside)", "pass", "the largest error is nan"),
        (INLINE, "addresses[d][epoch % 2],", "addresses[d][0],", "the largest error is nan"),
        (POLLING, "counters + c, high - low,", "counters + c, high - low - 1,", "wrongly"),
        (COPY_ENGINE, f"tl.{XCHG}", "pass", "AssertionError: flags"),
        (BULK_COPY, "tl.store(back + i, value", "tl.store(back + i + 1, value", "outside of the"),
    ],
)
def test_what_the_program_forgets_is_found(
    mechanism: str, line: str, mutation: str, finding: str, tmp_path: Path
) -> None:
    text = PROGRAM.read_text(encoding="utf-8")
    assert text.count(line) == 1
    mutant = tmp_path / PROGRAM.name
    mutant.write_text(text.replace(line, mutation))
    ended = run(mutant, *SMALL, "--mechanism", mechanism, path=STAND_IN)
    assert ended.returncode == 1, ended.stdout
    assert finding in ended.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("mechanism", [BULK_COPY, INLINE, POLLING, COPY_ENGINE])
def test_it_runs_on_a_gpu(mechanism: str) -> None:
    for name in ("torch", "triton", "interlace._cuda"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"there is no {name}")
    import torch

    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    ended = run(PROGRAM, "--mechanism", mechanism, "--ordinals", "0,0", "--elements", "1000000")
    assert ended.returncode == 0, ended.stderr
    assert "device 1: all 1000000 elements are right" in ended.stdout
