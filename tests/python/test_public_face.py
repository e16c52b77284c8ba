"""Tests the package `interlace`: each public name exists, and is loaded when a program first uses
the name.
"""

from __future__ import annotations

import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import interlace
from interlace.base.version import version


@pytest.mark.parametrize("name", interlace.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(interlace, name) is not None
    assert name in dir(interlace)


def test_the_version_is_that_of_the_command() -> None:
    assert interlace.__version__ == version()


def test_there_is_nothing_else() -> None:
    assert sorted(dir(interlace)) == sorted(interlace.__all__)  # completion offers these names
    said = pydoc.render_doc(interlace, renderer=pydoc.plaintext)
    # Under this heading, help() lists objects that are neither functions nor classes.
    assert "DATA" not in said
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        interlace.nothing  # noqa: B018
    assert sorted(interlace._HOMES) == sorted(set(interlace.__all__) - {"__version__"})


def test_it_loads_nothing_before_it_is_asked() -> None:
    code = "import sys, interlace; print([m for m in sys.modules if m.startswith('interlace.')])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(interlace.__file__).parents[1],
        check=True,
    )
    assert done.stdout == "[]\n"
