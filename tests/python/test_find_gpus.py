"""Tests tools/find_gpus.py: the GPUs for which a build is made, and why other GPUs are left out."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "find_gpus.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    specification = importlib.util.spec_from_file_location("find_gpus", TOOL)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class FakeDriver:
    """The libcuda of a machine with the given GPUs."""

    def __init__(self, version: int, capabilities: list[int], error: int = 0) -> None:
        self.version, self.capabilities, self.error = version, capabilities, error

    def cuInit(self, _flags: int) -> int:  # noqa: N802
        return self.error

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802
        count._obj.value = len(self.capabilities)
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802
        version._obj.value = self.version
        return 0

    def cuDeviceGetAttribute(self, value: Any, which: int, gpu: int) -> int:  # noqa: N802
        number = self.capabilities[gpu]
        value._obj.value = {75: number // 10, 76: number % 10}[which]
        return 0


@pytest.mark.parametrize(
    ("driver", "capabilities", "reason"),
    [
        (FakeDriver(13000, [90, 90]), [90, 90], ""),
        (FakeDriver(13010, [80, 120]), [80, 120], ""),
        (FakeDriver(12020, [90]), [], "the NVIDIA driver is for CUDA 12.2, but 13.0 is needed"),
        (FakeDriver(13000, [70]), [], "GPU 0 has compute capability 7.0, but 8.0 is needed"),
        (FakeDriver(13000, [86, 75]), [86], "GPU 1 has compute capability 7.5, but 8.0 is needed"),
        (
            FakeDriver(13000, [90], error=999),
            [],
            "an NVIDIA driver is installed, but it does not answer (CUDA error 999)",
        ),
    ],
)
def test_what_a_driver_answers(
    tool: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    driver: FakeDriver,
    capabilities: list[int],
    reason: str,
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: driver)
    assert tool.find_gpus() == (capabilities, reason)


def test_no_driver_is_no_reason(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: str) -> Any:
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", missing)
    monkeypatch.setattr(tool.Path, "exists", lambda _path: False)
    assert tool.find_gpus() == ([], "")
    monkeypatch.setattr(tool.Path, "exists", lambda _path: True)
    assert tool.find_gpus() == ([], "there is an NVIDIA device (/dev/nvidia0), but no libcuda.so.1")
