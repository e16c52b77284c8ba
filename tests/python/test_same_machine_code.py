"""Tests which kernels of two builds bench/same_machine_code.py reports as the same."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).resolve().parents[2] / "bench" / "same_machine_code.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    specification = importlib.util.spec_from_file_location("same_machine_code", TOOL)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def listings(arch: str, kernels: dict[str, tuple[int, list[str]]]) -> tuple[str, str]:
    """Return the output of cuobjdump with -sass, and its output with -res-usage."""
    sass = [f"arch = {arch}", f"\tcode for {arch}"]
    usage = [f"arch = {arch}", "Resource usage:"]
    for name, (registers, code) in kernels.items():
        sass.append(f"\t\tFunction : {name}")
        for n, instruction in enumerate(code):
            sass.append(f"        /*{16 * n:04x}*/     {instruction} ;   /* 0x00000a00ff017b82 */")
            sass.append("                              /* 0x000ff00000000800 */")
        usage += [f" Function {name}:", f"  REG:{registers} STACK:0 SHARED:0"]
    return "\n".join(sass), "\n".join(usage)


LOAD, STORE, EXIT = "LDG.E R0, desc[UR4][R2.64]", "@P0 STG.E desc[UR4][R2.64], R0", "EXIT"


def test_kernels_are_compared(tool: ModuleType) -> None:
    before = {
        "same": (16, [LOAD, STORE, EXIT]),
        "other_registers": (16, [LOAD, EXIT]),
        "other_order": (16, [LOAD, STORE, EXIT]),
        "other_code": (16, [LOAD, EXIT]),
        "old_name": (20, [STORE, EXIT]),
        "gone": (8, [EXIT]),
        "_Z45_GLOBAL__N__846bcc25_8_agent_cu_f37ce65f4main": (8, [LOAD]),
    }
    after = {
        "same": (16, [LOAD, STORE, EXIT, "NOP"][:3]),
        "other_registers": (17, [LOAD, EXIT]),
        "other_order": (16, [STORE, LOAD, EXIT]),
        "other_code": (16, [LOAD, LOAD, EXIT]),
        "new_name": (20, [STORE, EXIT]),
        "fresh": (9, [EXIT]),
        "_Z45_GLOBAL__N__00000000_9_unity_cu_11111111_224main": (8, [LOAD]),
    }
    sides = [tool.kernels_of(*listings("sm_90", k), "sm_90") for k in (before, after)]
    found = tool.compare(*sides)
    assert found.same == ["_Z_GLOBAL__N_4main", "same"]
    assert found.same_opcodes == ["other_order"]
    assert found.different == ["other_code", "other_registers"]
    assert found.renamed == [("old_name", "new_name")]
    assert found.only_before == ["gone"]
    assert found.only_after == ["fresh"]
    changed = tool.change(sides[0]["other_code"], sides[1]["other_code"])
    assert changed == "registers 16 -> 16, LDG.E 1 -> 2"


def test_other_architectures_are_left_out(tool: ModuleType) -> None:
    first = listings("sm_80", {"x": (8, [LOAD, EXIT])})
    second = listings("sm_90", {"x": (9, [EXIT])})
    both = ["\n".join(pair) for pair in zip(first, second, strict=True)]
    assert tool.kernels_of(*both, "sm_90") == {"x": [tool.Code(9, (EXIT,))]}
    assert tool.kernels_of(*both, "sm_120") == {}
