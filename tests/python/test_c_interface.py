"""Tests interlace/copy.h: a C program of a user is compiled with the installed files, and runs."""

from __future__ import annotations

import ctypes
import ctypes.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from interlace.base.installation import installed
from interlace.base.version import version
from interlace.runtime import copying

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "include/interlace/copy.h"
HEADERS = [HEADER, ROOT / "include/interlace/park.h"]
FIRST_VERSION = ROOT / "tests/abi/copy_0_1_0.c"
PROGRAM = ROOT / "tests/cpp/cuda/copy_program.c"

library = installed(copying.SHARED_OBJECT)
if library is None:
    pytest.skip("the library is not built", allow_module_level=True)

c_compiler = shutil.which("gcc") or shutil.which("cc")
cpp_compiler = shutil.which("g++") or shutil.which("c++")
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic"]


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.mark.skipif(c_compiler is None, reason="there is no C compiler")
def test_a_program_in_c11(tmp_path: Path) -> None:
    headers = installed("include/interlace/copy.h")
    assert headers is not None
    assert headers.read_bytes() == HEADER.read_bytes()
    assert library is not None
    program = tmp_path / "program"
    folders = [f"-I{headers.parents[1]}", f"-L{library.parent}", f"-Wl,-rpath,{library.parent}"]
    made = run(
        c_compiler, "-std=c11", *WARNINGS, PROGRAM, *folders, "-linterlace", "-ldl", "-o", program
    )
    assert made.returncode == 0, made.stderr
    ended = run(program, *(("copies", "1") if has_driver() else ("nothing",)))
    if "cuInit failed" in ended.stderr:
        pytest.skip("there is a driver, but no GPU")
    assert ended.returncode == 0, ended.stderr
    wanted = "every byte is right" if has_driver() else "no NVIDIA driver was found"
    assert wanted in ended.stdout
    assert run(program, "else").returncode == 2


@pytest.mark.skipif(c_compiler is None or cpp_compiler is None, reason="there is no compiler")
@pytest.mark.parametrize(
    ("compiler", "language", "standard"),
    [(c_compiler, "c", "c11"), (c_compiler, "c", "c17"), (cpp_compiler, "c++", "c++20")],
)
@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.name)
def test_the_header_alone(
    tmp_path: Path, header: Path, compiler: str, language: str, standard: str
) -> None:
    source = tmp_path / "alone"
    source.write_text(f'#include "{header}"\n#include "{header}"\nint main(void) {{ return 0; }}\n')
    include = f"-I{ROOT / 'include'}"
    ended = run(
        compiler, f"-std={standard}", *WARNINGS, include, "-fsyntax-only", "-x", language, source
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.skipif(c_compiler is None, reason="there is no C compiler")
def test_everything_of_the_first_version_is_there(tmp_path: Path) -> None:
    """Check that the functions of version 0.1.0 still have their types, values, layouts and
    symbols.
    """
    headers = installed("include/interlace/copy.h")
    assert headers is not None
    assert library is not None
    program = tmp_path / "program"
    made = run(
        c_compiler, "-std=c11", *WARNINGS, FIRST_VERSION, f"-I{headers.parents[1]}", library,
        f"-Wl,-rpath,{library.parent}", "-o", program,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert run(program).stdout == f"{copying.ABI} {version()}\n"
    checked = set(re.findall(r"\binterlace_\w+(?=;)", FIRST_VERSION.read_text("utf-8")))
    assert len(checked) == 19


def test_everything_that_is_declared_is_exported_and_nothing_else() -> None:
    text = "".join(header.read_text("utf-8") for header in HEADERS)
    declared = set(re.findall(r"\b(interlace_\w+)\(", text))
    assert {"interlace_copy_async", "interlace_event_done", "interlace_pool_park"} <= declared
    assert library is not None
    loaded = ctypes.CDLL(str(library))
    for name in declared:
        getattr(loaded, name)
    if shutil.which("nm") is None:
        return
    listed = run("nm", "-D", "--defined-only", "--format=posix", library).stdout
    exported = {line.split()[0] for line in listed.splitlines()}
    assert exported == declared


def test_python_has_the_same_numbers() -> None:
    """Check that copying.py has the same numbers as the header."""
    text = HEADER.read_text("utf-8")
    numbers = {
        name: int(value)
        for name, value in re.findall(r"(INTERLACE_\w+)(?: =|) \(?(-?\d+)\)?(?:,|\n| )", text)
    }
    assert numbers["INTERLACE_COPY_ABI"] == copying.ABI
    assert numbers["INTERLACE_CURRENT_GPU"] == copying.CURRENT_GPU
    assert numbers["INTERLACE_PAGE_LOCKED"] == copying.PAGE_LOCKED
    assert numbers["INTERLACE_PAGEABLE"] == copying.PAGEABLE
    assert numbers["INTERLACE_MANAGED"] == copying.MANAGED
    assert numbers["INTERLACE_OUT_OF_MEMORY"] == copying.OUT_OF_MEMORY
    invalid = ("INVALID_ARGUMENT", "INVALID_SETTING", "NO_GPU")
    assert tuple(numbers[f"INTERLACE_{name}"] for name in invalid) == copying.INVALID
    members = text.partition("typedef struct interlace_copy_statistics {")[2].partition("}")[0]
    kinds = {"uint64_t": ctypes.c_uint64, "double": ctypes.c_double}
    found = [(name, kinds[kind]) for kind, name in re.findall(r"(uint64_t|double) (\w+);", members)]
    assert found == list(copying._Statistics._fields_)
