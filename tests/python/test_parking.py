"""Tests parked memory.

The tests use the installed package with the stand-in driver, whose GPUs are host memory, and with
stand-ins for PyTorch and CuPy.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import interlace
from interlace.base.errors import UserError
from interlace.base.installation import installed
from interlace.runtime import copying, parking

HERE = Path(__file__).resolve().parent
HEADER = HERE.parents[1] / "include/interlace/park.h"
MIB = 1 << 20
SLAB = 64 * MIB

compiler = shutil.which("g++") or shutil.which("c++")
if installed(copying.SHARED_OBJECT) is None:
    pytest.skip("the library is not built", allow_module_level=True)
needs_compiler = pytest.mark.skipif(compiler is None, reason="there is no C++ compiler")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("gpus")
    source = HERE.parent / "cpp/preload/fake_driver.cpp"
    options = ["-std=c++20", "-O0", "-shared", "-fPIC", "-Wl,-Bsymbolic"]
    options.append(f"-I{HERE.parents[1]}/src")
    name = "-Wl,-soname,libcuda.so.1"
    subprocess.run(
        [str(compiler), *options, name, "-o", str(folder / "libcuda.so.1"), str(source), "-ldl"],
        check=True,
    )
    ended = subprocess.run(
        [sys.executable, str(HERE / "fake_parking.py")],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder), "INTERLACE_COPY_TRAFFIC": "none"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    found["log"] = ended.stderr.splitlines()
    return found


def rounded(size: int) -> int:
    return -(-size // 4096) * 4096


@needs_compiler
def test_tensors_of_nested_pools_and_two_gpus_come_back(answers: dict[str, Any]) -> None:
    found = answers["torch"]
    weights = 3 * MIB + rounded(100_000) + MIB
    assert found["pools"] == {"weights": [3, weights, False], "cache": [1, MIB, False]}
    assert found["parked"] == [weights, weights, "host"]
    assert found["the other pool"] is True
    assert found["resumed"] == [weights, True, True, True]
    assert found["same addresses"] is True
    assert found["idle"] is True
    assert found["at last"] == [True, True]


@needs_compiler
def test_host_memory_is_prepared(answers: dict[str, Any]) -> None:
    found = answers["torch"]
    assert found["prepared"] == SLAB
    assert found["both prepared"] == 2 * SLAB
    assert found["locked after preparing"] == 0


@needs_compiler
def test_tensors_name_their_pools(answers: dict[str, Any]) -> None:
    found = answers["torch"]
    assert found["again"] == 0  # the first attempt has already made the page-locked memory
    assert found["both parked"] == [True, True]
    assert found["both resumed"] == [True] * 4


@needs_compiler
def test_contents_go_to_another_gpu_or_are_dropped(answers: dict[str, Any]) -> None:
    found = answers["torch"]
    assert found["on a GPU"] == "gpu:2"
    assert found["from a GPU"] is True
    assert found["dropped"] == [0, MIB]


@needs_compiler
def test_segments_that_no_tensor_uses_are_not_copied(answers: dict[str, Any]) -> None:
    found = answers["torch"]
    assert found["without the free segment"] == 4 * MIB
    # keep_pool=False gave one slab back to the system. The slab of the other pool remains.
    assert found["without tensors"] == [True, SLAB, True]
    assert found["freed"] == [0, 0]


@needs_compiler
def test_bad_use_is_refused(answers: dict[str, Any]) -> None:
    found = answers["torch"]
    assert "entered" not in found
    refused = {
        "double park": "UserError: pool 'weights' is parked already",
        "double resume": "UserError: pool 'weights' is not parked",
        "pool of a parked tensor": "UserError: pool 'weights' is parked already",
        "enter parked": "UserError: pool 'weights' is parked; resume it before it gets memory",
        "capture": "UserError: memory cannot be parked while this stream is being captured",
        "no pool": "UserError: there is no pool 'else'; give one of: cache, weights",
        "no name": "UserError: '' cannot be the name of a pool; give a text without "
        "control characters",
        "control characters": "UserError: '\\x1b[2J' cannot be the name of a pool; give a "
        "text without control characters",
        "empty prepared": "UserError: there is no pool 'else'; give one of: cache, weights",
        "prepare parked": "UserError: pool 'weights' is parked already",
        "no place": "UserError: to='disk': give host, drop, or another GPU such as gpu:1",
        "own GPU": "UserError: pool 'weights' has memory on GPU 1 itself; park it elsewhere",
        "no tensors": "UserError: no tensor is given",
        "no tensor": "UserError: 7 is neither the name of a pool nor tensors",
        "no memory": "UserError: tensor 0 is not in parkable memory; make it inside of "
        "interlace.parkable",
        "no GPU": "UserError: 'cpu' has no parkable memory; give a GPU",
        "too much": "MemoryError: CUDA out of memory",
    }
    assert {key: found[key] for key in refused} == refused
    assert found["undone"] == [True, False]
    assert len(answers["log"]) == 1
    assert re.fullmatch(
        r"interlace: GPU 0 has \d+ of \d+ bytes free, and 1099511627776 more are needed",
        answers["log"][0],
    )


@needs_compiler
def test_contents_of_memory_that_others_map(answers: dict[str, Any]) -> None:
    found = answers["torch"]
    assert found["contents"] == [4 * MIB, [False, False], False, True]
    assert found["no contents"] == (
        "UserError: these contents were not kept, or are restored twice"
    )
    assert found["closed contents"] == "UserError: there are no contents to restore"


@needs_compiler
def test_arrays_of_cupy(answers: dict[str, Any]) -> None:
    assert answers["cupy"] == {"intact": True, "refused": True, "freed": 0}


def test_python_has_the_numbers_and_structures_of_the_header() -> None:
    text = HEADER.read_text("utf-8")
    numbers = {
        name: int(value)
        for name, value in re.findall(r"#define (INTERLACE_PARK_\w+) \(?(-?\d+)\)?", text)
    }
    assert numbers == {
        "INTERLACE_PARK_ABI": parking.ABI,
        "INTERLACE_PARK_ON_HOST": parking.ON_HOST,
        "INTERLACE_PARK_NOWHERE": parking.NOWHERE,
    }
    kinds = {
        "uint64_t ": ctypes.c_uint64,
        "double ": ctypes.c_double,
        "int ": ctypes.c_int,
        "size_t ": ctypes.c_size_t,
        "void* ": ctypes.c_void_p,
    }
    for structure, name in (
        (parking._Report, "park_report"),
        (parking._Facts, "pool_facts"),
        (parking._Range, "gpu_range"),
    ):
        found = re.search(rf"struct interlace_{name} \{{(.*?)\}}", text, re.DOTALL)
        assert found is not None
        members = re.findall(r"^  ([\w* ]+ )(\w+);", found.group(1), re.MULTILINE)
        assert [(member, kinds[kind]) for kind, member in members] == list(structure._fields_)


def test_without_a_driver_it_says_so() -> None:
    if shutil.which("nvidia-smi") is not None:
        pytest.skip("there is a driver")
    with pytest.raises(UserError, match="no NVIDIA driver was found"):
        interlace.park("weights")
