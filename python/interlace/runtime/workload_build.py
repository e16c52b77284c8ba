"""Builds the library of a workload outside of the source tree. This needs only a C++ compiler."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

from interlace.base.errors import UserError
from interlace.base.files import check_writable
from interlace.base.installation import installed
from interlace.workloads.own_library import library_name

NAME = re.compile(r"[a-z][a-z0-9_]*")
FLAGS = (
    "-std=c++20", "-O3", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
)  # fmt: skip
LINKED = ("-pthread", "-ldl", "-Wl,--exclude-libs,ALL", "-Wl,--gc-sections", "-Wl,--no-undefined")
SOURCE = """\
#include "{header}"
#include <interlace/run/module_on_cpu.hpp>
INTERLACE_MODULE_ON_CPU(interlace::workload::{name}_problem)
"""


def build_library(header: Path, folder: Path) -> Path:
    """Compile the workload of a header, and put the library into the folder.

    If the compilation fails, the folder is unchanged.
    """
    name = header.stem
    try:
        text = header.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"{header}: {error.strerror}") from None
    if header.suffix != ".hpp" or not NAME.fullmatch(name):
        raise UserError(
            f"{header}: give a header with the name NAME.hpp, where NAME has lower-case letters "
            "and _"
        )
    if not re.search(rf"\bstruct\s+{name}_problem\b", text):
        raise UserError(
            f"{header}: there is no struct {name}_problem, with which the header must end"
        )
    library, include = _development()
    target = folder / library_name(name, on_gpus=False)
    check_writable(target, "--to")
    compiler = shlex.split(os.environ.get("CXX", "")) or ["g++"]
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder) as made:
        source, new = Path(made) / f"{name}.cpp", Path(made) / target.name
        source.write_text(SOURCE.format(header=header.resolve(), name=name), encoding="utf-8")
        command = [*compiler, *FLAGS, f"-I{include}", str(source), str(library), *LINKED]
        try:
            status = subprocess.run([*command, "-o", str(new)], check=False).returncode
        except OSError as error:
            raise UserError(
                f"the compiler {compiler[0]} cannot be run ({error.strerror}); install g++ 12 or "
                "later, or name another compiler in CXX"
            ) from None
        if status != 0:
            raise UserError(
                f"{header}: {compiler[0]} cannot compile this header; see the compiler's messages "
                "above (g++ 12 or later is required)"
            )
        new.replace(target)
    return target


def _development() -> tuple[Path, Path]:
    """Return the static library and the folder with the headers of this installation."""
    library, header = (
        installed("lib/libinterlace_core.a"),
        installed("include/interlace/kernel.hpp"),
    )
    if library is None or header is None:
        raise UserError(
            "this installation has no lib/libinterlace_core.a with headers; install Interlace anew"
        )
    return library, header.parents[1]
