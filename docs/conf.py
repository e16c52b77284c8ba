"""The configuration of Sphinx, which makes the documentation site. tools/docs runs Sphinx.

The sources are Markdown, which a forge such as GitHub shows without this file. When Sphinx reads a
page, this file adds the parts that only the site needs: the lists of pages, the references that are
generated from the program, the pictures that follow the theme, and links to files that are not
pages.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from reference_pages import PAGES as MADE  # noqa: E402

project = "Interlace"
author = "the Interlace developers"
copyright = author  # noqa: A001
release = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "breathe",
]
exclude_patterns = ["example"]
root_doc = "index"
# Text in single backquotes is code, as in Markdown, also in the tables of docstrings.
default_role = "code"
highlight_language = "none"

myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 4  # headings have the same anchors as on a forge

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
cpp_maximum_signature_line_length = 80
c_maximum_signature_line_length = 80

breathe_projects = {"interlace": str(ROOT / "build/docs/doxygen/xml")}
breathe_default_project = "interlace"
breathe_domain_by_extension = {"h": "c", "cuh": "cpp", "hpp": "cpp"}

copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"

html_theme = "furo"
html_title = f"Interlace {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False

linkcheck_timeout = 20
linkcheck_retries = 2
linkcheck_anchors = False
linkcheck_workers = 4

PARTS = {
    "tutorials": "Tutorials",
    "how-to": "How-to",
    "reference": "Reference",
    "explanation": "Explanation",
}
PICTURES = re.compile(
    r'<picture>\s*<source [^>]*srcset="(?P<dark>[^"]+)">\s*'
    r'<img alt="(?P<alt>[^"]*)" src="(?P<light>[^"]+)">\s*</picture>'
)
OUTSIDE = re.compile(r"\]\((?=(?:\.\./)+[A-Z]+\.md\))")  # links to files such as CHANGELOG.md


def add_what_the_site_needs(_app: Any, name: str, source: list[str]) -> None:
    """Handle Sphinx's event `source-read`: make lists of pages, and pictures for each theme."""
    text = PICTURES.sub(
        r"![\g<alt>](\g<light>){.only-light}\n![\g<alt>](\g<dark>){.only-dark}", source[0]
    )
    text = OUTSIDE.sub("](path:", text)  # the link opens the file, which is no page of the site
    part, _, page = name.partition("/")
    if name == "index":
        entries = "\n".join(f"{title} <{folder}/index>" for folder, title in PARTS.items())
        text += f"\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"
    elif page == "index" and part in PARTS:
        pages = {file.stem for file in (ROOT / "docs" / part).glob("*.md")} - {"index"}
        named = re.findall(r"\]\(([\w-]+)\.md\)", text)  # pages in the order of their links
        entries = "\n".join([*dict.fromkeys(named), *sorted(pages - set(named))])
        text += f"\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"
    elif part == "reference" and page in MADE:
        text += f"\n{MADE[page]()}\n"
    source[0] = text


def code_blocks_of_docstrings(
    _app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]
) -> None:
    """Handle Sphinx's event `autodoc-process-docstring`: mark indented blocks as code."""
    made: list[str] = []
    inside = False
    for k, line in enumerate(lines):
        indented = line.startswith("    ")
        if inside and line and not indented:
            inside = False
        if not inside and indented and k > 0 and not lines[k - 1]:
            before = next((one for one in reversed(lines[:k]) if one), "")
            in_list = re.match(r"\s*([-*]|\d+\.|:\w)", before) or before.startswith(" ")
            if before and not in_list and not before.endswith("::"):
                made += [".. code-block:: python", ""]
                inside = True
        made.append(line)
    lines[:] = made


def setup(app: Any) -> dict[str, bool]:
    """Register the handlers of this file. Sphinx calls this function."""
    app.connect("source-read", add_what_the_site_needs)
    app.connect("autodoc-process-docstring", code_blocks_of_docstrings)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
