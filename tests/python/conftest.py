"""Fixtures that several tests use."""

from __future__ import annotations

import gzip
import math
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fake_core import Fake, FakeCuda
from fault_commands import build_library
from interlace.base import progress
from interlace.cli import main as cli
from study_helpers import Ran, Run

# A shell starts background processes with Ctrl-C ignored. The tests send Ctrl-C and expect a
# reaction.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_profiles(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the profiles of the user from changing the results of a test."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))


@pytest.fixture(autouse=True)
def _no_lines_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep slow machines from printing lines of progress, because tests read the output."""
    monkeypatch.setattr(progress, "FIRST_LINE_S", math.inf)


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Replace the compiled module by the fake core. The fixture has no CUDA module."""
    fake = Fake()
    monkeypatch.setitem(sys.modules, "interlace._core", fake)
    monkeypatch.setitem(sys.modules, "interlace._cuda", None)
    return fake


@pytest.fixture
def cuda(core: Fake, monkeypatch: pytest.MonkeyPatch) -> FakeCuda:  # noqa: ARG001
    """Replace both compiled modules. The CUDA module is a fake with four GPUs."""
    fake = FakeCuda()
    monkeypatch.setitem(sys.modules, "interlace._cuda", fake)
    return fake


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in this process."""

    def call(*words: object) -> Ran:
        arguments = [str(word) for word in words]
        monkeypatch.setattr(sys, "argv", ["interlace", *arguments])
        capsys.readouterr()
        code = cli.run(arguments)
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return call


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the work of a reproduction in this process. The pieces of this work are too small for
    separate processes.
    """

    def here(work: Any, cases: Any, jobs: int) -> Any:
        assert len(work) == len(cases)
        assert jobs > 0
        return (call() for call in work)

    monkeypatch.setattr("interlace.reproduce.runs.in_processes", here)


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """Return a graph of 40 vertices. One vertex has no out-edge."""
    edges = [(i, (i * i + k) % 40) for i in range(39) for k in (1, 7, 12)]
    lines = [f"{i + 1} {j + 1}\n" for i, j in edges]
    head = "%%MatrixMarket matrix coordinate pattern general\n" + f"40 40 {len(lines)}\n"
    path = tmp_path / "forty.mtx.gz"
    path.write_bytes(gzip.compress((head + "".join(lines)).encode()))
    return path


@pytest.fixture(scope="session")
def faults_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("faults"))


# The libraries that stand in for the driver and for system functions. The key is the name of the
# library that is built, and the value is its source. The memory of the GPUs of these stand-ins is
# host memory.
STAND_INS = {
    "libcuda.so.1": "fake_driver.cpp",
    "libnvidia-ml.so.1": "fake_nvml.cpp",
    "failing_reads.so": "failing_reads.cpp",
}


@pytest.fixture(scope="session")
def gpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the stand-in libraries."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    folder = tmp_path_factory.mktemp("gpus")
    tests = Path(__file__).resolve().parents[1]
    options = ["-std=c++20", "-O0", "-shared", "-fPIC", "-Wl,-Bsymbolic", f"-I{tests.parent}/src"]
    made = [
        subprocess.Popen(
            [compiler, *options, f"-Wl,-soname,{name}", "-o", folder / name,
             tests / "cpp/preload" / source, "-ldl"]
        )
        for name, source in STAND_INS.items()
    ]  # fmt: skip
    assert [one.wait(timeout=120) for one in made] == [0] * len(STAND_INS)
    return folder
