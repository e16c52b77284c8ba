"""Tests programs outside of the source tree.

Each public header must compile alone. The example of docs/how-to/kernels.md is built only with
installed files, in both ways that the page shows.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interlace.base.installation import installed
from interlace.base.version import version

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/how-to/kernels.md"
EXAMPLE = ROOT / "docs/example"
PUBLIC = re.findall(
    r"`(interlace/[\w/]+\.\w+)`",
    (ROOT / "docs/reference/versions.md").read_text("utf-8").partition("## Public headers")[2],
)
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
gpp = shutil.which("g++")
nvcc = os.environ.get("CUDACXX") or shutil.which(
    "nvcc", path=f"{os.environ['PATH']}:/usr/local/cuda/bin"
)

needs_library = pytest.mark.skipif(
    installed("lib/libinterlace_core.a") is None or gpp is None,
    reason="needs g++, and Interlace as `pip install` or ./check installs it",
)


def folder_of_headers() -> Path:
    found = installed("include/interlace/kernel.hpp")
    assert found is not None
    return found.parents[1]


def run(*words: object, cwd: Path | None = None, code: str = "") -> str:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        [*map(str, words)],
        input=code,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PATH": path},
        check=False,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


def uses_cuda(header: str) -> bool:
    return header.endswith((".cuh", "_on_gpus.hpp")) or "/cuda/" in header


def test_the_public_headers_are_listed() -> None:
    assert len(PUBLIC) == len(set(PUBLIC)) > 15
    for header in PUBLIC:
        assert (ROOT / "include" / header).is_file() or header == "interlace/version.hpp"


@needs_library
def test_what_is_installed_is_what_the_tree_has() -> None:
    folder = folder_of_headers()
    tree = {file.relative_to(ROOT / "include") for file in (ROOT / "include").rglob("*.*")}
    made = {file.relative_to(folder) for file in folder.rglob("*.*")}
    assert made - tree == {Path("interlace/version.hpp")}
    assert tree <= made


@needs_library
def test_each_public_header_compiles_alone() -> None:
    """Compile two copies of each header with g++, because a program may include a header twice."""

    def compiled(header: str) -> None:
        run(
            *(gpp, "-std=c++20", *WARNINGS, "-fsyntax-only", f"-I{folder_of_headers()}"),
            *("-x", "c++", "-"),
            code=f"#include <{header}>\n#include <{header}>\nint main() {{}}\n",
        )

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compiled, (header for header in PUBLIC if not uses_cuda(header))))


@needs_library
@pytest.mark.skipif(nvcc is None, reason="there is no nvcc")
def test_each_public_header_of_cuda_compiles_alone(tmp_path: Path) -> None:
    def compiled(header: str) -> None:
        source = tmp_path / f"{Path(header).name}.cu"
        source.write_text(f"#include <{header}>\n#include <{header}>\nint main() {{}}\n")
        run(
            *(nvcc, "-std=c++20", "-arch=sm_90", "--expt-relaxed-constexpr", "-rdc=true"),
            *("-Werror=all-warnings", "-ptx", f"-I{folder_of_headers()}", source),
            *("-o", source.with_suffix(".ptx")),
        )

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compiled, filter(uses_cuda, PUBLIC)))


@needs_library
def test_the_version_macros_are_the_version(tmp_path: Path) -> None:
    code = (
        "#include <cstdio>\n#include <interlace/version.hpp>\n"
        'int main() { std::printf("%s %d.%d.%d %d", INTERLACE_VERSION, INTERLACE_VERSION_MAJOR, '
        "INTERLACE_VERSION_MINOR, INTERLACE_VERSION_PATCH, INTERLACE_VERSION_NUMBER); }\n"
    )
    program = tmp_path / "version"
    run(gpp, f"-I{folder_of_headers()}", "-xc++", "-", "-o", program, code=code)
    text, parts, number = run(program).split()
    assert text == parts == version()
    major, minor, patch = map(int, parts.split("."))
    assert int(number) == 10000 * major + 100 * minor + patch


@needs_library
def test_the_page_builds_and_prints_what_it_says(tmp_path: Path) -> None:
    for file in EXAMPLE.glob("smooth.*"):
        shutil.copy(file, tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    session = next(
        block for block in re.findall(r"^```\n(.*?)^```$", page, re.M | re.S) if "$ g++" in block
    )
    printed = []
    for line in session.splitlines():
        if line.startswith("$ "):
            found = run("bash", "-c", line[2:], cwd=tmp_path).splitlines()
            printed = [] if line.startswith("$ interlace topo") else found
        else:
            assert line == printed.pop(0)
    assert printed == []

    block = re.search(r"^```cmake\n(.*?)^```$", page, re.M | re.S)
    assert block is not None
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22...3.24)\nproject(smooth LANGUAGES CXX)\n" + block[1]
    )
    prefix = run("interlace", "config", "--prefix").strip()
    run(
        "cmake",
        "-S",
        ".",
        "-B",
        "made",
        "-G",
        "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}",
        cwd=tmp_path,
    )
    run("cmake", "--build", "made", cwd=tmp_path)
    assert run(tmp_path / "made/smooth").endswith("element 0 is 0.108231\n")


def test_the_examples_are_short() -> None:
    examples = sorted(EXAMPLE.glob("region*"))
    assert len(examples) == 3
    for file in examples:
        assert len(file.read_text("utf-8").splitlines()) <= 60, file.name
