"""Tests that the examples of the README work unchanged. Stand-ins replace GPUs where needed."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import interlace

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
LOAD, COPY, REGION = PYTHON
OWNERS = {"interlace": interlace, "group": interlace.Group, "vector": interlace.Region}

needs_core = pytest.mark.skipif(
    importlib.util.find_spec("interlace._core") is None, reason="the compiled module is not built"
)


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tutorials_tool", ROOT / "tools/tutorials.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module in sys.modules
    spec.loader.exec_module(module)
    return module


def run(program: str, folder: Path, environment: dict[str, str]) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("block", PYTHON)
def test_calls_have_arguments_that_exist(block: str) -> None:
    calls = 0
    for node in ast.walk(ast.parse(block)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = node.func.value
        if isinstance(owner, ast.Name) and owner.id in OWNERS:
            calls += 1
            function = getattr(OWNERS[owner.id], node.func.attr)
            positional = [None] * (len(node.args) + (owner.id != "interlace"))
            named = {word.arg: None for word in node.keywords if word.arg is not None}
            inspect.signature(function).bind(*positional, **named)
    assert calls


@needs_core
def test_a_checkpoint_is_loaded_and_saved(tmp_path: Path) -> None:
    weights = {"weight": np.arange(6, dtype=np.float32).reshape(2, 3)}
    interlace.save(weights, tmp_path / "model.safetensors")
    assert LOAD.count('"cuda:0"') == 1
    run(LOAD.replace('"cuda:0"', '"cpu", framework="numpy"'), tmp_path, {})
    found = interlace.load(tmp_path / "copy.safetensors", framework="numpy")
    assert np.array_equal(found["weight"], weights["weight"])


@needs_core
def test_a_copy_to_a_gpu(tmp_path: Path) -> None:
    environment = _tool().stand_in("driver", tmp_path)
    assert COPY.count("1 << 28") == 1
    program = COPY.replace("1 << 28", "1 << 24") + (
        "import ctypes\n"
        "ctypes.memset(pinned.data_ptr(), 7, 1 << 24)\n"
        "interlace.copy(on_gpu, pinned)\n"
        "torch.cuda.synchronize()\n"
        "from interlace.runtime.copying import copy_statistics\n"
        "made = copy_statistics()\n"
        "print(on_gpu[0].item(), on_gpu[-1].item(), made['streams'] + made['graphs'])\n"
    )
    assert run(program, tmp_path, environment) == "7 7 2\n"


def test_a_region_between_gpus(tmp_path: Path) -> None:
    program = f"""
import torch, interlace
group = interlace.Group.local()
vector = interlace.Region(group, 64, "float32")
streams = [torch.cuda.Stream(group.ordinal(d)) for d in group.local_devices]
for d in group.local_devices:
    torch.from_dlpack(vector.front(d)).array[:] = d == d

def multiply(d, front, out):
    begin, end = vector.part(d)
    out.array[:] = front.array[begin:end] + front.array[::-1][begin:end]

{REGION}
print(*(float(torch.from_dlpack(vector.front(d)).array.sum()) for d in group.local_devices))
"""
    both = 64 * 2.0**30
    environment = _tool().stand_in("regions", tmp_path)
    assert run(program, tmp_path, environment) == f"{both} {both}\n"


@needs_core
def test_the_study_without_a_gpu(tmp_path: Path) -> None:
    (command,) = re.findall(r"^interlace (study .*)$", README, re.MULTILINE)
    words = repr(["interlace", *command.split()])
    program = f"import sys\nsys.argv = {words}\nfrom interlace.cli.main import main\nmain()"
    said = run(program, tmp_path, {})
    assert "All rows verified" in said
    assert re.search(r"^ +4 inline ", said, re.MULTILINE)
