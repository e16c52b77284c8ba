"""Tests tools/make_wheels.py: the Python that it chooses, and the libraries that it refuses."""

from __future__ import annotations

import importlib.util
import io
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "make_wheels.py"

SYMBOLS = """
/x/_core.so:     file format elf64-x86-64

DYNAMIC SYMBOL TABLE:
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.34) pthread_create
0000000000000000      DF *UND*\t0000000000000000 (GLIBCXX_3.4.29) _ZSt28__throw_bad_array
0000000000000000      DF *UND*\t0000000000000000 (GCC_3.0) _Unwind_Resume
0000000000001000 g    DF .text\t0000000000000010  GLIBC_2.99  own_symbol
"""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    specification = importlib.util.spec_from_file_location("make_wheels", TOOL)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_old_symbols_pass(tool: ModuleType) -> None:
    assert tool.too_new(SYMBOLS) == []


@pytest.mark.parametrize(
    "symbol",
    ["(GLIBC_2.35) hypot", "(GLIBC_2.36) arc4random", "(GLIBCXX_3.4.30) wait", "(GLIBC_3.0) x"],
)
def test_new_symbols_are_named(tool: ModuleType, symbol: str) -> None:
    line = f"0000000000000000      DF *UND*\t0000000000000000 {symbol}\n"
    assert tool.too_new(SYMBOLS + line) == [symbol]


def compiler_version() -> str:
    said = subprocess.run(["g++", "-dumpversion"], capture_output=True, text=True, check=False)
    return said.stdout.partition(".")[0].strip()


@pytest.mark.skipif(
    shutil.which("objdump") is None or shutil.which("g++") is None or compiler_version() != "12",
    reason="wheels are built with g++ 12",
)
@pytest.mark.parametrize("name", ["_core", "_driver", "libinterlace"])
def test_what_is_installed_would_run_on_older_systems(tool: ModuleType, name: str) -> None:
    core = importlib.util.find_spec("interlace._core")
    if core is None or core.origin is None:
        pytest.skip("the compiled module is not built")
    (library,) = Path(core.origin).parent.glob(f"{name}.*so")
    said = subprocess.run(["objdump", "-T", library], check=True, capture_output=True, text=True)
    assert "*UND*" in said.stdout
    assert tool.too_new(said.stdout) == []


def test_a_library_that_needs_a_newer_glibc_is_refused(tool: ModuleType, tmp_path: Path) -> None:
    """Check a real library that needs a symbol of a newer glibc than allowed.

    If the system's glibc has no such symbol, the test is skipped.
    """
    source = tmp_path / "new.c"
    source.write_text("unsigned arc4random(void); unsigned f(void) { return arc4random(); }\n")
    library = tmp_path / "new.so"
    made = subprocess.run(
        ["gcc", "-shared", "-fPIC", "-s", "-Wl,--no-undefined", "-o", library, source],
        capture_output=True,
    )
    if made.returncode:
        pytest.skip("this glibc has no arc4random")
    with pytest.raises(tool.WheelError, match=r"new\.so needs more than .*arc4random"):
        tool.check_library(library)


def test_a_library_that_links_others_or_is_not_stripped_is_refused(
    tool: ModuleType, tmp_path: Path
) -> None:
    source = tmp_path / "plain.c"
    source.write_text("int plain(void) { return 1; }\n")
    library = tmp_path / "plain.so"
    build = ["gcc", "-shared", "-fPIC", "-o", library, source]
    subprocess.run([*build, "-g"], check=True)
    with pytest.raises(tool.WheelError, match="is not stripped"):
        tool.check_library(library)
    other = tmp_path / "libother.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", other, source], check=True)
    subprocess.run([*build, "-s", "-Wl,--no-as-needed", f"-L{tmp_path}", "-lother"], check=True)
    with pytest.raises(tool.WheelError, match=r"is linked with libother\.so"):
        tool.check_library(library)
    subprocess.run([*build, "-s"], check=True)
    tool.check_library(library)


def test_this_python_is_found_and_a_missing_one_is_refused(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert tool.find_python(here).parent == Path(sys.executable).parent
    with pytest.raises(tool.WheelError, match=r"^there is no Python 3\.99 with headers"):
        tool.find_python("3.99")


def test_files_that_are_the_same_keep_their_times(tool: ModuleType, tmp_path: Path) -> None:
    def pack(contents: dict[str, bytes]) -> Path:
        with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
            for name, data in contents.items():
                member = tarfile.TarInfo(f"interlace-1/{name}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return tmp_path / "a.tar.gz"

    folder = tmp_path / "source"
    tool.unpack(pack({"a/kept": b"1", "changed": b"2", "gone": b"3"}), folder)
    times = {name: (folder / name).stat().st_mtime_ns for name in ("a/kept", "changed")}
    tool.unpack(pack({"a/kept": b"1", "changed": b"two"}), folder)
    assert (folder / "a/kept").stat().st_mtime_ns == times["a/kept"]
    assert (folder / "changed").read_bytes() == b"two"
    assert not (folder / "gone").exists()


def test_the_command_and_cmake_name_the_same_architectures(tool: ModuleType) -> None:
    text = (ROOT / "CMakeLists.txt").read_text("utf-8")
    every = text[text.index("if(INTERLACE_EVERY_GPU)") :]
    codes = re.findall(r"code=\[([^\]]*)\]", every[: every.index("elseif")])
    targets = {target for code in codes for target in code.split(",")}
    assert {t for t in targets if t.startswith("sm_")} == tool.MACHINE_CODE
    assert {t.replace("compute", "sm") for t in targets if t.startswith("compute")} == tool.PTX


def test_the_source_distribution_has_every_source(tool: ModuleType, tmp_path: Path) -> None:
    hook = "import scikit_build_core.build as b, sys; print(b.build_sdist(sys.argv[1]))"
    run = subprocess.run(
        [sys.executable, "-c", hook, tmp_path], cwd=ROOT, check=True, capture_output=True, text=True
    )
    with tarfile.open(tmp_path / run.stdout.split()[-1]) as archive:
        packed = {str(Path(*Path(name).parts[1:])) for name in archive.getnames()}
    made = {".pyc", ".so"}
    for folder in ("cmake", "include", "machines", "python", "src", "tools"):
        there = {
            str(file.relative_to(ROOT))
            for file in (ROOT / folder).rglob("*")
            if file.is_file() and file.suffix not in made
        }
        assert there
        assert there <= packed
    assert not {name for name in packed if name.startswith(("bench/", "build/", "dist/"))}
    assert set(tool.LICENCES) <= packed
