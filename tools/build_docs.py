#!/usr/bin/env python3
"""Build the documentation site into build/docs/html, with every warning an error.

    .venv/bin/python tools/build_docs.py [--links]

Links between the pages are always followed. With --links, links to other sites are followed too,
and no page is written. It needs doxygen, what the extra `docs` of pyproject.toml names, and
Interlace installed. tools/docs sees to all three.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/docs"


def main() -> int:
    """Run Doxygen and Sphinx; the exit code."""
    if sys.argv[1:] not in ([], ["--links"]):
        print(__doc__, file=sys.stderr)
        return 2
    builder = "linkcheck" if sys.argv[1:] else "html"
    xml = BUILD / "doxygen"
    shutil.rmtree(xml, ignore_errors=True)  # a header that is gone
    xml.mkdir(parents=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "NO_COLOR": "1", "PATH": path}  # Doxygen's filter is Python
    doxygen = subprocess.run(["doxygen", "docs/Doxyfile"], cwd=ROOT, check=False, env=environment)
    if doxygen.returncode != 0:
        return 1
    words = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", "--fresh-env"]
    words += ["--builder", builder, "--doctree-dir", str(BUILD / "doctrees"), "--jobs", "auto"]
    words += ["docs", str(BUILD / builder)]
    sphinx = subprocess.run(words, cwd=ROOT, check=False, env=environment)
    return int(sphinx.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
