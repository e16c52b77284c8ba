"""Tests workloads of other packages.

The example of docs/how-to/add-a-workload.md is built, installed into a separate environment, and
run with every mechanism. Packages that cannot be used must be refused.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

from interlace.base.errors import UserError
from interlace.base.installation import installed
from interlace.runtime.workload_build import build_library
from interlace.workloads import SHIPPED, Workload
from interlace.workloads.packages import installed_workloads

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs/example/heat_rod"
HEADER = EXAMPLE / "src/heat_rod/heat_rod.hpp"
PAGE = ROOT / "docs/how-to/add-a-workload.md"

needs_library = pytest.mark.skipif(
    installed("lib/libinterlace_core.a") is None or shutil.which("g++") is None,
    reason="needs g++, and Interlace as `pip install` or ./check installs it",
)


def test_the_page_has_every_file_whole() -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown = dict(re.findall(r"^`(\S+)`:\n\n```\w+\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    assert "`test_heat_rod.py` in the example" in text
    files = {
        file.relative_to(EXAMPLE).as_posix(): file.read_text(encoding="utf-8")
        for file in EXAMPLE.rglob("*")
        if file.is_file() and file.name not in ("__init__.py", "test_heat_rod.py")
    }
    assert shown == files


def environment_in(folder: Path) -> Path:
    """Make a virtual environment that also sees the packages of this environment. Return its
    interpreter.
    """
    venv.create(folder, symlinks=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    for name in ("purelib", "platlib"):
        line = f"import site; site.addsitedir({sysconfig.get_path(name)!r})\n"
        (site / f"outer_{name}.pth").write_text(line)
    return folder / "bin/python"


def call(*words: object, cwd: Path, **environment: str) -> str:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PATH": path, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@needs_library
def test_a_package_is_installed_and_runs_by_every_mechanism(tmp_path: Path) -> None:
    pytest.importorskip("scikit_build_core")
    python = environment_in(tmp_path / "venv")
    package = tmp_path / "package"
    shutil.copytree(EXAMPLE, package)
    call(
        *(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"),
        *("--no-deps", "--no-build-isolation", package),
        cwd=tmp_path,
    )
    call(
        *(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull),
        *(f"--rootdir={tmp_path}", "--import-mode=importlib", package / "test_heat_rod.py"),
        cwd=tmp_path,
    )
    words = ("study", "--help")
    assert "heat-rod" in call(python, "-m", "interlace", *words, cwd=tmp_path)


@needs_library
def test_a_compiler_alone_builds_the_library(tmp_path: Path) -> None:
    package = tmp_path / "heat_rod"
    shutil.copytree(HEADER.parent, package)
    header = package / HEADER.name
    said = call(sys.executable, "-m", "interlace", "build-workload", header, cwd=tmp_path)
    assert said == f"wrote {package}/_heat_rod.so\n"
    assert sorted(file.name for file in package.iterdir() if file.name != "__pycache__") == [
        "__init__.py", "_heat_rod.so", "heat_rod.hpp", "workload.py",
    ]  # fmt: skip
    code = (
        "from heat_rod.workload import *\nfrom interlace import _core\n"
        "from interlace.model.run import Case\n"
        "rod = HeatRod.load(HeatRodInputs(size=100), None)\n"
        "outcome = rod._run(_core, Case(2, 'inline'), ('host', None), (3, 0.0))\n"
        "outcome.time_s = 1.0\nprint(rod.verify(outcome) < 1e-6)\n"
        "library = _core.WorkloadLibrary('heat_rod/_heat_rod.so')\n"
        "def run(*data):\n"
        "    try:\n"
        "        library.run('host', None, 'inline', np.array([0, 4], np.uint64), 1, 0.0, 1, 64,\n"
        "                    32, '', *data)\n"
        "    except Exception as error:\n"
        "        print(f'{type(error).__name__}: {error}')\n"
        "import numpy as np\n"
        "run(np.zeros(4, np.float32))\n"
        "run(np.zeros(4), 0.1)\n"
        "run(np.zeros((2, 2), np.float32), 0.1)\n"
        "run(np.zeros(4, np.float32), 'much')\n"
        "run(np.zeros(4, np.float32), 0.9)\n"
        "run(np.zeros(5, np.float32), 0.1)\n"
    )
    where = "heat_rod/_heat_rod.so"
    assert call(sys.executable, "-c", code, cwd=tmp_path).splitlines() == [
        "True",
        f"TypeError: {where} takes 2 arguments, not 1",
        f"TypeError: {where}: argument 'start' must be a contiguous array of float32 with 1 "
        "dimensions",
        f"TypeError: {where}: argument 'start' must be a contiguous array of float32 with 1 "
        "dimensions",
        f"TypeError: {where}: argument 'rate' must be a number",
        "UserError: a rod's rate must be above 0 and at most 0.5",
        "UserError: the boundaries do not cut the elements into a part for each GPU",
    ]


@needs_library
def test_libraries_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    core = pytest.importorskip("interlace._core")

    def library(source: str) -> str:
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.so"
        command = ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(file)]
        subprocess.run(command, input=source, text=True, check=True)
        return str(file)

    with pytest.raises(UserError, match=r"is not the library of a workload; build it again with"):
        core.WorkloadLibrary(library("int nothing;"))
    other = (
        'static const char* of[] = {"0.0.9"};\nextern "C" void* interlace_workload() { return of; }'
    )
    with pytest.raises(UserError, match=r"was built for Interlace 0\.0\.9, and this is \d.*again"):
        core.WorkloadLibrary(library(other))
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(UserError, match=r"cannot be loaded: .*text\.so"):
        core.WorkloadLibrary(str(tmp_path / "text.so"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("gone.hpp", None, "gone.hpp: No such file or directory"),
        (
            "Rod.hpp",
            "",
            "Rod.hpp: give a header with the name NAME.hpp, where NAME has lower-case letters and "
            "_",
        ),
        ("rod.h", "", "rod.h: give a header with the name NAME.hpp"),
        ("rod.hpp", "struct rod {};", "rod.hpp: there is no struct rod_problem"),
    ],
)
def test_headers_that_cannot_be_built(
    tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=re.escape(message)):
        build_library(tmp_path / name, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ([] if text is None else [name])


@needs_library
def test_a_failed_compilation_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    header = tmp_path / "rod.hpp"
    header.write_text("struct rod_problem { wrong };")
    with pytest.raises(UserError, match=r"rod\.hpp: g\+\+ cannot compile this header; see the"):
        build_library(header, tmp_path)
    assert "wrong" in capfd.readouterr().err
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UserError, match=r"no-such-compiler cannot be run .*install g\+\+ 12"):
        build_library(header, tmp_path)
    assert list(tmp_path.iterdir()) == [header]


MODULE = """
from dataclasses import dataclass
from typing import Annotated
from interlace.workloads import SHIPPED
from interlace.workloads.options import Inputs, Option

@dataclass(frozen=True, kw_only=True)
class Wrong(Inputs):
    seed: Annotated[str | None, Option("WORD", "no number")] = None

class Twin(SHIPPED["jacobi"]):
    name = "twin"

class WrongOption(Twin):
    name = "wrong-option"
    takes = Wrong

class Renamed(Twin):
    name = "another-name"

class Taken(Twin):
    name = "jacobi"

class Number:
    pass
"""


def test_entry_points_that_cannot_be_used_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outer_module.py").write_text(MODULE)
    about = tmp_path / "outer-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: outer\nVersion: 1\n")
    entries = {
        "twin": "outer_module:Twin",
        "renamed": "outer_module:Renamed",
        "jacobi": "outer_module:Taken",
        "wrong-option": "outer_module:WrongOption",
        "number": "outer_module:Number",
        "lost": "outer_lost:Lost",
    }
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (about / "entry_points.txt").write_text("\n".join(["[interlace.workloads]", *lines]))
    monkeypatch.syspath_prepend(str(tmp_path))
    found, unusable = installed_workloads(SHIPPED)
    assert found["twin"].__name__ == "Twin"
    assert {name: why.partition(" cannot be used: ")[2] for name, why in unusable.items()} == {
        "lost": "ModuleNotFoundError: No module named 'outer_lost'",
        "number": "outer_module:Number is not a subclass of interlace.workloads.Workload",
        "renamed": "outer_module:Renamed has the name 'another-name', not 'renamed'",
        "wrong-option": "--seed is a int elsewhere, and a str in outer_module:WrongOption; rename "
        "the option",
    }
    assert found.keys() >= {"twin"}
    assert "jacobi" not in found

    done = subprocess.run(
        [sys.executable, "-m", "interlace", "study", "lost"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "interlace: workload lost: the package outer has this workload, but the workload cannot "
        "be used: ModuleNotFoundError: No module named 'outer_lost'\n"
    )


def test_a_workload_without_a_library_says_what_to_do() -> None:
    class Bare:
        __name__ = "interlace._core"

    class Cuda:
        __name__ = "interlace._cuda"

    jacobi: type[Workload] = SHIPPED["jacobi"]
    workload: Any = object.__new__(jacobi)
    with pytest.raises(UserError, match=r"jacobi has no _jacobi\.so next to .*build-workload"):
        workload._compiled(Bare())
    with pytest.raises(UserError, match=r"has no _jacobi_on_gpus\.so .* with cmake, where nvcc is"):
        workload._compiled(Cuda())
