"""Tests tools/setup.sh: when quickstart builds with CUDA, and when it fetches a CUDA toolkit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlace.base import installation

ROOT = Path(__file__).resolve().parents[2]

# These functions replace those that examine the machine. `reply` is the output of
# tools/find_gpus.py.
SCRIPT = """
. "{root}/tools/setup.sh"
python() {{ printf '%s' "$reply"; }}
python=python
reply=$'{answer}'
has_nvcc={nvcc}
find_nvcc() {{ if ((has_nvcc)); then nvcc=/x/nvcc; else nvcc=; fi; }}
setup_step() {{ say "step: $1"; has_nvcc=1; }}
INTERLACE_CUDA={asked}
cuda_toolkit
say_cuda_plan
say "cuda=$cuda gpus=$gpus"
"""


def decided(answer: str, nvcc: bool, asked: str = "AUTO") -> list[str]:
    script = SCRIPT.format(root=ROOT, answer=answer, nvcc=int(nvcc), asked=asked)
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    return (run.stdout + run.stderr).splitlines()


WITH = "Interlace will be built with CUDA, by /x/nvcc (INTERLACE_CUDA=OFF leaves CUDA out)."
WITHOUT = (
    "Interlace will be built without CUDA: there is no nvcc of CUDA 13, and no GPU that needs one."
)
FETCHED = "step: CUDA toolkit 13.0 from PyPI"
OLD_GPU = "GPU 0 has compute capability 7.0, but 8.0 is needed"


@pytest.mark.parametrize(
    ("answer", "nvcc", "asked", "said"),
    [
        ("90 90\\n", True, "AUTO", [WITH, "cuda=ON gpus=2"]),
        ("80\\n", False, "AUTO", [FETCHED, WITH, "cuda=ON gpus=1"]),
        ("\\n", True, "AUTO", [WITH, "cuda=ON gpus=0"]),  # a login node has no GPUs
        ("\\n", False, "AUTO", [WITHOUT, "cuda=OFF gpus=0"]),
        ("\\n", False, "ON", [FETCHED, WITH, "cuda=ON gpus=0"]),
        (f"\\n{OLD_GPU}", False, "AUTO", [f"No real GPUs: {OLD_GPU}.", WITHOUT, "cuda=OFF gpus=0"]),
        (
            "90\\nGPU 1 is old",
            True,
            "AUTO",
            ["Real GPUs: 1, since GPU 1 is old.", WITH, "cuda=ON gpus=1"],
        ),
        (
            "90\\n",
            True,
            "OFF",
            [
                "Interlace will be built without CUDA, since INTERLACE_CUDA is OFF.",
                "cuda=OFF gpus=0",
            ],
        ),
    ],
)
def test_the_rule(answer: str, nvcc: bool, asked: str, said: list[str]) -> None:
    assert decided(answer, nvcc, asked) == said


def test_another_word_is_refused() -> None:
    assert decided("\\n", False, "maybe") == [
        "bash: INTERLACE_CUDA is 'maybe'; give ON, OFF or AUTO; see ./bash --help"
    ]


def test_a_package_says_how_it_was_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "build.json"
    file.write_text('{"built": "with CUDA 13.0 for sm_90, PTX compute_90"}\n', "utf-8")
    monkeypatch.setattr(installation, "installed", lambda name: tmp_path / name)
    assert installation.built() == "with CUDA 13.0 for sm_90, PTX compute_90"
    for damaged in ("", "[]", "7", "{"):
        file.write_text(damaged, "utf-8")
        assert installation.built() == ""
    monkeypatch.setattr(installation, "installed", lambda _name: None)
    assert installation.built() == ""


def test_a_message_says_why_kernels_are_missing() -> None:
    sentence = "this Interlace was built without CUDA"
    how = "without CUDA, since INTERLACE_CUDA was OFF"
    assert installation.built_without_cuda(how) == f"{sentence}, since INTERLACE_CUDA was OFF"
    assert installation.built_without_cuda("") == sentence
    assert installation.built_without_cuda("with CUDA 13.0 for sm_90") == sentence


def test_an_activated_venv_is_not_made_by_its_own_python(tmp_path: Path) -> None:
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "python3").symlink_to(sys.executable)
    script = f'. "{ROOT}/tools/setup.sh"; venv={tmp_path}/.venv; find_python; say "$python"'
    path = f"{folder}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    assert run.stdout == f"{Path(sys.executable).parent / 'python3'}\n", run.stderr
