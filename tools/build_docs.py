#!/usr/bin/env python3
"""Build the documentation site into build/docs/html, with every warning an error.

    .venv/bin/python tools/build_docs.py [--links]

The script always checks the links between the pages. With --links, it also checks the links to
other sites, but writes no pages. The script needs doxygen, the packages of the extra `docs` in
pyproject.toml, and an installed Interlace. tools/docs provides all three.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/docs"


def child(node: ElementTree.Element, path: str) -> ElementTree.Element:
    """Return the element at a path below a node. Doxygen always writes this element."""
    found = node.find(path)
    assert found is not None, f"Doxygen's XML has no {path}"
    return found


def arrange_by_file(folder: Path) -> None:
    """Rearrange Doxygen's XML so that it describes each header separately, as Breathe needs it.

    Several headers have the same base name, and a namespace spreads over several headers. Each file
    therefore gets its path as its name. Each file also gets the members of namespaces that it
    declares, by their qualified names. Members that are not public are left out.
    """
    index = ElementTree.parse(folder / "index.xml")
    files: dict[str, tuple[Path, ElementTree.Element]] = {}
    for entry in index.iterfind("compound[@kind='file']"):
        path = folder / f"{entry.get('refid')}.xml"
        root = ElementTree.parse(path).getroot()
        where = child(root, "compounddef/location").get("file", "")
        child(entry, "name").text = where
        files[where] = path, root
    for entry in index.iterfind("compound[@kind='namespace']"):
        space = ElementTree.parse(folder / f"{entry.get('refid')}.xml").getroot()
        for section in space.iterfind("compounddef/sectiondef"):
            for member in section.iterfind("memberdef"):
                name = child(member, "name")
                name.text = f"{child(entry, 'name').text}::{name.text}"
                root = files[child(member, "location").get("file", "")][1]
                file = child(root, "compounddef")
                place = ElementTree.Element("sectiondef", {"kind": section.get("kind", "")})
                place.append(member)
                # As in Doxygen's own files, sections precede the descriptions.
                file.insert(list(file).index(child(file, "briefdescription")), place)
    for path in folder.glob("class*.xml"):
        owner = ElementTree.parse(path)
        for part in child(owner.getroot(), "compounddef").findall("sectiondef"):
            if not part.get("kind", "").startswith(("public", "user-defined")):
                child(owner.getroot(), "compounddef").remove(part)
        owner.write(path, encoding="utf-8", xml_declaration=True)
    for path, root in files.values():
        file = child(root, "compounddef")
        for inner in file.findall("innernamespace"):
            file.remove(inner)
        ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
    index.write(folder / "index.xml", encoding="utf-8", xml_declaration=True)


def main() -> int:
    """Run Doxygen and Sphinx, and return the exit code."""
    if sys.argv[1:] not in ([], ["--links"]):
        print(__doc__, file=sys.stderr)
        return 2
    builder = "linkcheck" if sys.argv[1:] else "html"
    xml = BUILD / "doxygen"
    # The folder may have pages of headers that no longer exist.
    shutil.rmtree(xml, ignore_errors=True)
    xml.mkdir(parents=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # Doxygen's filter is written in Python, so PATH must lead to a Python.
    environment = {**os.environ, "NO_COLOR": "1", "PATH": path}
    doxygen = subprocess.run(["doxygen", "docs/Doxyfile"], cwd=ROOT, check=False, env=environment)
    if doxygen.returncode != 0:
        return 1
    arrange_by_file(xml / "xml")
    words = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", "--fresh-env"]
    words += ["--builder", builder, "--doctree-dir", str(BUILD / "doctrees"), "--jobs", "auto"]
    words += ["docs", str(BUILD / builder)]
    sphinx = subprocess.run(words, cwd=ROOT, check=False, env=environment)
    return int(sphinx.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
