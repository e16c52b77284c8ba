"""Tests that every public name has a summary line and stands on the reference pages."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

import interlace

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs/reference"
# Kinds in Doxygen that must have a comment. Fields and values have a comment only if they need one.
KINDS = {"class", "struct", "function", "enum", "typedef", "define"}


def members(owner: type) -> dict[str, object]:
    """Return the public members that a class itself defines: methods, properties and named
    fields.
    """
    return {
        name: value
        for name, value in vars(owner).items()
        if not name.startswith("_")
        and (inspect.isroutine(value) or isinstance(value, property | classmethod | staticmethod))
    }


def python_names() -> dict[str, object]:
    """Return each public name of the package and of the classes in it."""
    found: dict[str, object] = {}
    for name in interlace.__all__:
        if name == "__version__":
            continue
        value = getattr(interlace, name)
        found[name] = value
        if inspect.isclass(value) and value.__module__.startswith("interlace."):
            found |= {f"{name}.{one}": it for one, it in members(value).items()}
    return found


def test_every_public_name_in_python_has_a_docstring() -> None:
    names = python_names()
    assert {"copy", "Region", "Region.begin", "Group.local"} <= set(names)
    assert [name for name, value in names.items() if not inspect.getdoc(value)] == []


def test_the_page_of_python_has_every_public_name() -> None:
    page = (REFERENCE / "python.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\.\. auto(?:function|class|exception):: (\w+)$", page, re.MULTILINE)
    assert sorted(shown) == sorted(set(interlace.__all__) - {"__version__"})


def text_of(node: ElementTree.Element, name: str) -> str:
    found = node.find(name)
    return "" if found is None else "".join(found.itertext()).strip()


def wanted(node: ElementTree.Element) -> bool:
    """Return whether a name needs a comment. Moves, deleted functions and include guards do not
    need one.
    """
    name, definition = node.findtext("name", ""), node.findtext("definition", "")
    arguments = node.findtext("argsstring", "")
    special = re.fullmatch(
        rf"\((const )?{re.escape(name)}\s*&&?( ?\w+)?\)( noexcept)?( ?=.*)?", arguments
    )
    if special or name.startswith("operator") or arguments.endswith("=delete"):
        return False
    guard = node.get("kind") == "define" and node.find("initializer") is None
    return not guard and not definition.startswith("friend ")


def undocumented(folder: Path) -> tuple[int, list[str]]:
    """Return the number of names in Doxygen's XML, and a list of the names without a comment.

    The page of versions says that namespaces called detail or device are not public, so the
    Doxyfile leaves out their names. The number and the list leave out private members, protected
    members, and names that `wanted` refuses.
    """
    count, missing = 0, []
    for file in sorted(folder.glob("*.xml")):
        for compound in ElementTree.parse(file).iter("compounddef"):
            if compound.get("kind") not in ("class", "struct", "file", "namespace"):
                continue
            owner = compound.findtext("compoundname", "")
            for node in (compound, *compound.iter("memberdef")):
                public = node.get("prot", "public") == "public"
                if not public or node.get("kind") not in {*KINDS, "file"} or not wanted(node):
                    continue
                name = owner if node is compound else f"{owner}: {node.findtext('name')}"
                count += 1
                if not (text_of(node, "briefdescription") or text_of(node, "detaileddescription")):
                    missing.append(name)
    return count, missing


def public_headers() -> set[str]:
    """Return the headers that the page of versions lists as public."""
    text = (REFERENCE / "versions.md").read_text(encoding="utf-8")
    table = text[text.index("## Public headers") : text.index("## What a version number says")]
    return set(re.findall(r"`(interlace/[\w/]+\.(?:hpp|cuh|h))`", table))


def test_doxygen_reads_the_public_headers_and_the_pages_show_them() -> None:
    settings = (ROOT / "docs/Doxyfile").read_text(encoding="utf-8")
    read = re.findall(r"(?:include/|cmake/)([\w/]+\.(?:hpp|cuh|h)(?:\.in)?)\b", settings)
    pages = "".join((REFERENCE / f"{page}.md").read_text(encoding="utf-8") for page in ("c", "cpp"))
    shown = re.findall(r"^```\{doxygenfile\} (?:cmake/)?(\S+)$", pages, re.MULTILINE)
    # The build makes version.hpp from a template. This test runs without a build, so it reads the
    # template.
    headers = sorted({*public_headers(), "version.hpp.in"} - {"interlace/version.hpp"})
    assert len(headers) > 20
    assert sorted(read) == headers
    assert sorted(shown) == headers


def test_every_public_name_of_the_headers_has_a_comment(tmp_path: Path) -> None:
    if shutil.which("doxygen") is None:
        pytest.skip("there is no doxygen (apt-get install doxygen)")
    settings = (ROOT / "docs/Doxyfile").read_text(encoding="utf-8")
    settings += f"\nOUTPUT_DIRECTORY = {tmp_path}\n"
    subprocess.run(["doxygen", "-"], cwd=ROOT, input=settings, text=True, check=True)
    count, missing = undocumented(tmp_path / "xml")
    assert count > 300
    assert missing == []
