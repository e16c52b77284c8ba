"""Tests INTERLACE_UCX_SOURCE. The module for UCX is built only for the version that it fits."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECK = ROOT / "tools/ucx_source.cmake"

cmake = shutil.which("cmake")
pytestmark = pytest.mark.skipif(cmake is None, reason="there is no cmake")


def tree(folder: Path, *version: int) -> Path:
    """Make those files of a UCX source tree that the check reads."""
    header = folder / "src/uct/base/uct_iface.h"
    header.parent.mkdir(parents=True)
    header.touch()
    parts = zip(("major", "minor", "patch"), version, strict=False)
    lines = [
        f"define([ucx_ver_{name}], {number}) # {name.title()} version.\n" for name, number in parts
    ]
    (folder / "configure.ac").write_text(
        "AC_PREREQ([2.63])\n" + "".join(lines) + "AC_INIT([ucx])\n"
    )
    return folder


def refused(folder: Path) -> str:
    """Return the error of the check, or "" if the tree is accepted."""
    assert cmake is not None
    ended = subprocess.run(
        [cmake, f"-DINTERLACE_UCX_SOURCE={folder}", "-P", str(CHECK)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode != 0) == ("CMake Error" in ended.stderr)
    return " ".join(ended.stderr.split("(message):")[-1].split())


@pytest.mark.parametrize("patch", [0, 1])
def test_the_version_that_it_is_for(tmp_path: Path, patch: int) -> None:
    assert refused(tree(tmp_path, 1, 22, patch)) == ""


@pytest.mark.parametrize("version", [(1, 21, 0), (1, 23, 0), (2, 22, 0), (1, 2, 2)])
def test_another_version_is_refused(tmp_path: Path, version: tuple[int, int, int]) -> None:
    folder = tree(tmp_path, *version)
    assert refused(folder) == (
        f"INTERLACE_UCX_SOURCE={folder} is UCX {'.'.join(map(str, version))}, and the module is "
        "for 1.22; give a source tree of that version"
    )


def test_what_is_no_source_tree_of_ucx(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert refused(missing) == (
        f"INTERLACE_UCX_SOURCE={missing} is not a source tree of UCX; give one of version 1.22"
    )
    assert "does not tell the version of UCX" in refused(tree(tmp_path / "cut", 1, 22))
