"""Tests the number of cores that a process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

from interlace.base import cores


def test_the_least_quota_counts(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "cgroups"
    inner = root / "outer" / "inner"
    inner.mkdir(parents=True)
    own.write_text("1:cpu:/elsewhere\n0::/outer/inner\n")
    assert cores._quota(root, own) == math.inf  # no control group has a file with a limit
    (inner / "cpu.max").write_text("max 100000\n")
    assert cores._quota(root, own) == math.inf
    (root / "outer" / "cpu.max").write_text("250000 100000\n")
    assert cores._quota(root, own) == 2.5
    (inner / "cpu.max").write_text("150000 100000\n")
    assert cores._quota(root, own) == 1.5
    (inner / "cpu.max").write_text("broken\n")
    assert cores._quota(root, own) == 2.5
    assert cores._quota(root, tmp_path / "absent") == math.inf


def test_affinity_counts() -> None:
    assert 1 <= cores.allowed_cores() <= len(os.sched_getaffinity(0))
