"""Tests how much memory a process may use. The limits are those of the machine, of control groups,
and of ulimit.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from interlace.base import memory

GIB = 1 << 30


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "sys")
    monkeypatch.setattr(memory, "OWN_CGROUPS", tmp_path / "own")
    return tmp_path


def _limit(file: Path, text: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def test_the_least_limit_of_a_group_and_those_above_counts(groups: Path) -> None:
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert memory.memory_bytes() == machine
    (groups / "own").write_text("0::/slice/job\n")
    assert memory.memory_bytes() == machine  # this control group has no files
    _limit(groups / "sys/slice/job/memory.max", "max")
    assert memory.memory_bytes() == machine
    _limit(groups / "sys/slice/memory.max", GIB)
    assert memory.memory_bytes() == GIB
    _limit(groups / "sys/slice/job/memory.max", GIB // 2)
    assert memory.memory_bytes() == GIB // 2
    # Inside a container, the control group of the container is the root.
    _limit(groups / "sys/memory.max", GIB // 4)
    (groups / "own").write_text("0::/not/seen/from/here\n")
    assert memory.memory_bytes() == GIB // 4


def test_groups_of_version_1(groups: Path) -> None:
    (groups / "own").write_text("3:cpu,cpuacct:/job\n2:memory:/job\n1:name=systemd:/x:y\n")
    _limit(groups / "sys/memory/job/memory.limit_in_bytes", GIB)
    assert memory.memory_bytes() == GIB


@pytest.mark.usefixtures("groups")
def test_a_ulimit_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {resource.RLIMIT_AS: GIB, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (given[kind], -1))
    assert memory.memory_bytes() == GIB
