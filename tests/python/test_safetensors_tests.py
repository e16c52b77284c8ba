"""Runs the tests of safetensors for `safe_open`, with Interlace's `safe_open` in its place.

The tests are fetched with the source package and run unchanged. The `safe_open` that they import
from safetensors is Interlace's. safetensors' own `load_file` also calls Interlace's `safe_open`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from fetched import needs_fetching, packages, source, torch

VERSION = "0.9.0rc1"
SHA256 = "8a70d139a45d71557e116339f5115afe88af2d80b08701c31ce0478d5bfc8d93"
TESTS = ("simple", "pread_backend", "pt_comparison", "pt_model", "multithreaded")

IN_ITS_PLACE = """
import atexit
import pathlib

import interlace
import pytest
import safetensors
import safetensors.numpy
import safetensors.torch
import torch

opened = 0


class safe_open(interlace.safe_open):
    def __init__(self, *arguments, **options):
        global opened
        opened += 1
        super().__init__(*arguments, **options)


for module in (safetensors, safetensors.numpy, safetensors.torch):
    module.safe_open = safe_open
safetensors.PrefetchLoader = interlace.PrefetchLoader


@pytest.fixture(autouse=True)
def _no_memory_of_earlier_tests():
    # Some tests measure the free memory of a GPU. PyTorch keeps memory that earlier tests used.
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


atexit.register(lambda: pathlib.Path("opened").write_text(str(opened)))
"""


@needs_fetching
def test_they_pass(tmp_path: Path) -> None:
    folder = source("safetensors", VERSION, SHA256)
    needs = packages("safetensors", f"safetensors=={VERSION}")
    torch()
    shutil.copytree(folder / "bindings/python/tests", tmp_path / "tests")
    (tmp_path / "tests/conftest.py").write_text(IN_ITS_PLACE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("--junitxml=found.xml", *(f"tests/test_{name}.py" for name in TESTS)),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{needs}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr
    cases = list(ElementTree.parse(tmp_path / "found.xml").iter("testcase"))
    skipped = [case for case in cases if case.find("skipped") is not None]
    print(f"safetensors {VERSION}: {len(cases) - len(skipped)} passed, {len(skipped)} skipped")
    assert len(cases) == 109
    for case in skipped:  # these tests need libraries or devices that this machine lacks
        reason = case.find("skipped")
        assert reason is not None
        text = f"{reason.get('message')} {case.get('name')}".lower()
        assert any(word in text for word in ("cuda", "mps", "npu", "hpu", "gpu", "device")), text
    assert int((tmp_path / "opened").read_text()) > 40
