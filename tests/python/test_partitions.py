"""Tests partitioned arrays in Python: refusals before a GPU is used, and calls of the extension."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest

import interlace
from interlace.base.errors import UserError
from interlace.model.mechanism_table import INLINE, PACKED
from interlace.runtime.partitions import PartitionedArray
from interlace.runtime.regions import Group


class FakeArray:
    made: ClassVar[list[tuple[Any, ...]]] = []

    def __init__(self, *arguments: Any) -> None:
        FakeArray.made.append(arguments)
        self.calls: list[tuple[Any, ...]] = []

    def part(self, device: int) -> tuple[int, int]:
        return 20 * device, 20 * device + 20

    def parts(self, device: int) -> list[int]:
        return [1000 * d + device for d in range(4)]

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.calls.append((name, *arguments))


class FakeGroup:
    def __init__(self) -> None:
        self.devices = 4
        self.local_devices = [0, 1, 2, 3]

    @classmethod
    def local(cls, ordinals: object, deadline: float) -> FakeGroup:
        del ordinals, deadline
        return cls()

    def ordinal(self, device: int) -> int:
        return device + 2


class FakeRegion:
    refused: ClassVar[list[str]] = []

    @staticmethod
    def refuse(group: object, why: str) -> None:
        assert isinstance(group, FakeGroup)
        FakeRegion.refused.append(why)
        raise UserError(why)


class Tensor:
    """A stand-in for a PyTorch tensor."""

    def __init__(self, count: int, dtype: str, pointer: int = 64, contiguous: bool = True) -> None:
        self.shape = (count,)
        self.dtype = f"torch.{dtype}"
        self._pointer = pointer
        self._contiguous = contiguous

    def data_ptr(self) -> int:
        return self._pointer

    def is_contiguous(self) -> bool:
        return self._contiguous


@pytest.fixture(autouse=True)
def fake_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("interlace._cuda")
    module.Group = FakeGroup  # type: ignore[attr-defined]
    module.Region = FakeRegion  # type: ignore[attr-defined]
    module.PartitionedArray = FakeArray  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "interlace._cuda", module)
    monkeypatch.setattr(interlace, "_cuda", module, raising=False)
    FakeArray.made = []
    FakeRegion.refused = []


def calls_of(array: PartitionedArray) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = array._array.calls
    return found


def test_the_package_offers_them() -> None:
    assert interlace.PartitionedArray is PartitionedArray


def test_arguments_reach_the_extension() -> None:
    group = Group.local()
    PartitionedArray(group, 100, np.float64, "min")
    PartitionedArray(
        group, 100, "torch.int32", "xor", mechanism=PACKED, boundaries=[0, 1, 2, 3, 100],
        packet_bytes=128, queued_updates=9, combine_in_packets=False, checks=True, name="counts",
    )  # fmt: skip
    assert [arguments[1:] for arguments in FakeArray.made] == [
        ("", 100, "float64", "min", [], INLINE, 512, 0, True, False),
        ("counts", 100, "int32", "xor", [0, 1, 2, 3, 100], PACKED, 128, 9, False, True),
    ]


def test_an_epoch() -> None:
    with PartitionedArray(Group.local(), 80, "int64", "add") as array:
        array.begin(1, 7)
        array.update(1, Tensor(5, "int64", 64), Tensor(5, "int64", 128), 7)
        array.exchange(1, 7)
        array.check(1)
        assert array.part(1) == (20, 40)
        own = array.array(1)
        assert (own.pointer, own.shape, own.dtype, own.device) == (1001, (20,), "int64", 3)
        assert array.parts(2) == [2, 1002, 2002, 3002]
    assert calls_of(array) == [
        ("begin", 1, 7),
        ("update", 1, 64, 128, 5, 7),
        ("exchange", 1, 7),
        ("check", 1, 0),
        ("close",),
    ]


@pytest.mark.parametrize(
    ("elements", "values", "why"),
    [
        (Tensor(5, "int32"), Tensor(5, "int64"), "the elements are int32; give a tensor of int64"),
        (Tensor(5, "int64"), Tensor(5, "float32"), "the values are float32; give a tensor of"),
        (Tensor(5, "int64"), Tensor(4, "int64"), "5 elements and 4 values are given; give one"),
        (Tensor(5, "int64"), Tensor(5, "int64", 64, False), "the values is not contiguous"),
        (Tensor(5, "int64"), [1, 2], "the values is a list; give a tensor of PyTorch"),
    ],
)
def test_tensors_that_do_not_fit(elements: Any, values: Any, why: str) -> None:
    array = PartitionedArray(Group.local(), 80, "int64", "add")
    with pytest.raises(UserError, match=why):
        array.update(0, elements, values)
    assert calls_of(array) == []


@pytest.mark.parametrize(
    ("arguments", "options", "why"),
    [
        ((-1, "int64", "add"), {}, "the number of elements is -1; give a whole number of at least"),
        ((10, "int63", "add"), {}, "'int63' is not a dtype"),
        ((10, "int64", 3), {}, "operation is 3; give a text"),
        ((10, "int64", "add"), {"mechanism": None}, "mechanism is None; give a text"),
        ((10, "int64", "add"), {"boundaries": [0, "a"]}, r"boundaries\[1\] is 'a'"),
        ((10, "int64", "add"), {"packet_bytes": 1.5}, "packet_bytes is 1.5; give a whole number"),
        ((10, "int64", "add"), {"queued_updates": -2}, "queued_updates is -2; give a whole number"),
    ],
)
def test_what_is_refused_is_told_to_all_ranks(
    arguments: tuple[Any, ...], options: dict[str, Any], why: str
) -> None:
    with pytest.raises(UserError, match=why):
        PartitionedArray(Group.local(), *arguments, **options)
    assert len(FakeRegion.refused) == 1
    assert FakeArray.made == []


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.gpu
@pytest.mark.parametrize(
    "program", ["docs/example/partition_torch.py", "tests/gpu/partitions_torch.py"]
)
def test_programs_on_devices_that_share_a_gpu(program: str) -> None:
    for name in ("torch", "interlace._cuda"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"there is no {name}")
    import torch

    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    ended = subprocess.run(
        [sys.executable, ROOT / program],
        env={**os.environ, "CUDA_DEVICE_MAX_CONNECTIONS": "32"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
