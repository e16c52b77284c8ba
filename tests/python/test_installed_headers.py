"""What `cmake --install` puts into include/: every header that one of them names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = re.compile(r"install\(FILES ((?:src/\S+\s+)+)DESTINATION \"\S*/interlace/(\w+)\"\)")
INCLUDE = re.compile(r'^#include ([<"])([^>"]+)[>"]', re.MULTILINE)


def installed() -> dict[str, Path]:
    """Name below include/ of each installed header, and its file in the tree."""
    folder = ROOT / "include"
    headers = {f.relative_to(folder).as_posix(): f for f in (folder / "interlace").iterdir()}
    for files, place in INSTALLED.findall((ROOT / "CMakeLists.txt").read_text("utf-8")):
        for name in files.split():
            headers[f"interlace/{place}/{Path(name).name}"] = ROOT / name
    return headers


def test_every_header_that_is_named_is_installed() -> None:
    headers = installed()
    assert "interlace/kernel/mapping.hpp" in headers
    for name, file in headers.items():
        for mark, included in INCLUDE.findall(file.read_text("utf-8")):
            if mark == "<":
                assert not included.startswith("interlace/"), f"{name}: {included} in <>"
                continue
            # Quotes look beside the file first, then in include/.
            beside = (Path(name).parent / included).as_posix()
            assert beside in headers or included in headers, f"{name} names {included}"


def test_the_examples_are_short() -> None:
    examples = sorted((ROOT / "docs/example").glob("region*"))
    assert len(examples) == 3
    for file in examples:
        assert len(file.read_text("utf-8").splitlines()) <= 60, file.name
