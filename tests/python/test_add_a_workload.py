"""The example of docs/how-to/add-a-workload.md: its excerpts, a build beside the tree, tests."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import interlace

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs/example/heat_rod"
BUILDS = (ROOT / "build/host", ROOT / "build/dev")  # of ./check, and of CONTRIBUTING.md
ARCHIVE = "libinterlace_core_objects.a"


def test_excerpts_are_those_of_the_files() -> None:
    text = (ROOT / "docs/how-to/add-a-workload.md").read_text(encoding="utf-8")
    files = [file.read_text(encoding="utf-8") for file in EXAMPLE.iterdir() if file.is_file()]
    excerpts = re.findall(r"^```(?:cpp|python)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(excerpts) >= 3
    for excerpt in excerpts:
        inner = textwrap.indent(excerpt, "    ")  # of a class
        assert any(excerpt in file or inner in file for file in files), excerpt


def _package(folder: Path, module: Path) -> None:
    """The package as it is, with the example in it."""
    core = importlib.util.find_spec("interlace._core")
    assert core is not None
    assert core.origin is not None
    here = Path(interlace.__file__).parent
    view = folder / "interlace"
    (view / "workloads").mkdir(parents=True)
    beside = [file for file in here.iterdir() if file.name not in ("workloads", "__pycache__")]
    for file in {file.name: file for file in (*beside, Path(core.origin))}.values():
        (view / file.name).symlink_to(file)
    for file in (*(here / "workloads").iterdir(), EXAMPLE / "heat_rod.py", module):
        if file.name != "__pycache__":
            (view / "workloads" / file.name).symlink_to(file)


def test_the_example_runs_by_every_mechanism(tmp_path: Path) -> None:
    pytest.importorskip("interlace._core")
    built = next((build for build in BUILDS if (build / ARCHIVE).exists()), None)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    if built is None or not all(shutil.which(tool, path=path) for tool in ("cmake", "ninja")):
        pytest.skip("there is no build of this tree, or no cmake or ninja")

    def call(*words: object, **environment: str) -> None:
        done = subprocess.run(
            [str(word) for word in words],
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": path, **environment},
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]

    build = tmp_path / "build"
    call(
        "cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
        "-DCMAKE_CXX_FLAGS_DEBUG=-O0 -DNDEBUG", "-DCMAKE_UNITY_BUILD=ON", "-DINTERLACE_CUDA=OFF",
        "-DINTERLACE_PYTHON=ON", f"-DINTERLACE_HOST_BUILD={built}",
        f"-DINTERLACE_WORKLOADS={EXAMPLE}", f"-DPython_EXECUTABLE={sys.executable}",
    )  # fmt: skip
    call("cmake", "--build", build, "--target", "heat_rod")
    (module,) = build.glob("_heat_rod*.so")
    _package(tmp_path / "python", module)
    call(
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull,
        f"--rootdir={tmp_path}", EXAMPLE / "test_heat_rod.py",
        PYTHONPATH=str(tmp_path / "python"),
    )  # fmt: skip
