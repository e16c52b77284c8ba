"""Tests regions in Python: refusals before a GPU is used, and the calls of the extension."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import interlace
from interlace.base import activities, user_folder
from interlace.base.errors import UserError
from interlace.model.mechanism_table import POLLING
from interlace.runtime import regions
from interlace.runtime.regions import DeviceArray, Group, Region, dtype_name, stream_number


class FakeRegion:
    made: ClassVar[list[tuple[Any, ...]]] = []
    refused: ClassVar[list[str]] = []

    @staticmethod
    def refuse(group: FakeGroup, why: str) -> None:
        assert isinstance(group, FakeGroup)
        FakeRegion.refused.append(why)
        raise UserError(why)

    def __init__(self, *arguments: Any) -> None:
        FakeRegion.made.append(arguments)
        self.parity = 0
        self.calls: list[tuple[str, int, int]] = []

    def front(self, device: int) -> int:
        return 1000 * device + self.parity

    def back(self, device: int) -> int:
        return 1000 * device + (self.parity ^ 1)

    def close(self) -> None:
        self.calls.append(("close", 0, 0))

    def begin(self, device: int, stream: int) -> None:
        self.calls.append(("begin", device, stream))

    def exchange(self, device: int, stream: int) -> None:
        self.calls.append(("exchange", device, stream))
        self.parity ^= 1

    def part(self, device: int) -> tuple[int, int]:
        return 20 * device, 20 * device + 20

    def notes(self, device: int) -> tuple[int, int]:
        return 100 + device, 200 + device

    def chunks(self, device: int) -> list[tuple[int, int]]:
        return [(device, 10), (10, 30)]

    def table(self, device: int) -> dict[str, int]:
        return {"counters": 7 + device, "chunks": 8, "flags": 9, "launches": 10}


class FakeGroup:
    joined: ClassVar[tuple[Any, ...]] = ()

    def __init__(self, devices: list[int]) -> None:
        self.devices = 4
        self.local_devices = devices

    @classmethod
    def local(cls, ordinals: list[int] | None, deadline: float) -> FakeGroup:
        assert deadline > 0
        return cls(list(range(4 if ordinals is None else len(ordinals))))

    @classmethod
    def join(cls, *arguments: Any) -> FakeGroup:
        cls.joined = arguments
        return cls([arguments[0]])

    def ordinal(self, device: int) -> int:
        return device + 2

    def waits(self) -> str:
        if self.devices == 0:
            raise interlace.DeviceError("the driver failed")
        return "GPU 0 waits for chunk 3 of a, whose counter is 5 and not 8"


@pytest.fixture(autouse=True)
def fake_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("interlace._cuda")
    module.Group = FakeGroup  # type: ignore[attr-defined]
    module.Region = FakeRegion  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "interlace._cuda", module)
    monkeypatch.setattr(interlace, "_cuda", module, raising=False)
    FakeRegion.made = []
    FakeRegion.refused = []


class Tensor:
    """A stand-in for a PyTorch tensor, with the attributes that regions read."""

    def __init__(self, shape: tuple[int, ...], pointer: int, contiguous: bool = True) -> None:
        self.shape = shape
        self.dtype = "torch.float32"
        self._pointer = pointer
        self._contiguous = contiguous

    def data_ptr(self) -> int:
        return self._pointer

    def is_contiguous(self) -> bool:
        return self._contiguous


def exported(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> SimpleNamespace:
    interface = {"shape": shape, "typestr": "<f4", "data": (64, False), "strides": strides}
    return SimpleNamespace(__cuda_array_interface__=interface)


def test_the_package_offers_them() -> None:
    assert interlace.Group is Group
    assert interlace.Region is Region
    assert interlace.UserError is UserError
    assert issubclass(interlace.DeviceError, RuntimeError)
    assert issubclass(interlace.ModelError, RuntimeError)
    with pytest.raises(AttributeError, match="no attribute 'Regio'"):
        _ = interlace.Regio


@pytest.mark.parametrize(
    ("stream", "number"),
    [
        (None, 0),
        (0, 0),
        (140, 140),
        (SimpleNamespace(cuda_stream=5), 5),
        (SimpleNamespace(ptr=6), 6),
        (SimpleNamespace(__cuda_stream__=lambda: (0, 7)), 7),
        (SimpleNamespace(__cuda_stream__=(0, 8), ptr=9), 8),
    ],
)
def test_streams(stream: object, number: int) -> None:
    assert stream_number(stream) == number


@pytest.mark.parametrize("stream", ["0", 1.5, True, object()])
def test_what_is_no_stream_is_refused(stream: object) -> None:
    with pytest.raises(UserError, match="is not a CUDA stream; pass a torch"):
        stream_number(stream)


def test_dtypes() -> None:
    assert dtype_name("float32") == "float32"
    assert dtype_name(np.int8) == "int8"
    assert dtype_name("torch.bfloat16") == "bfloat16"
    assert dtype_name(np.dtype("<f8")) == "float64"
    assert dtype_name(bool) == "bool"
    for wrong in ("float33", ">f4", "M8[s]", "U4"):
        with pytest.raises(UserError):
            dtype_name(wrong)


def test_a_region_asks_for_what_it_was_told() -> None:
    group = Group.local([2, 3])
    Region(
        group,
        (10, 4),
        "bfloat16",
        mechanism=POLLING,
        boundaries=[0, 8, 40],
        subscribers=[[(0, 8, [1])], [(8, 9, [0])]],
        chunk_bytes=4096,
        agent_threads=64,
        agent_copy="bulk",
        checks=True,
        name="x",
    )
    assert FakeRegion.made[0][1:] == (
        "x",
        40,
        2,
        [0, 8, 40],
        [[(0, 8, 2)], [(8, 9, 1)]],
        POLLING,
        4096,
        64,
        "bulk",
        True,
        [],
    )


def test_replicas_swap_and_name_their_gpu() -> None:
    region = Region(Group.local([2, 3]), 40, "float32")
    assert region.front(1).pointer == 1000
    region.begin(1, SimpleNamespace(cuda_stream=5))
    region.exchange(1, SimpleNamespace(cuda_stream=5))
    assert region._region.calls == [("begin", 1, 5), ("exchange", 1, 5)]
    front = region.front(1)
    assert front.pointer == 1001
    assert front.__dlpack_device__() == (2, 3)
    assert front.__cuda_array_interface__ == {
        "shape": (40,),
        "typestr": "<f4",
        "data": (1001, False),
        "strides": None,
        "version": 3,
    }
    counters = region.counters(1)
    assert (counters.pointer, counters.shape, counters.dtype) == (8, (2,), "int64")
    assert region.chunks_on(0).shape == (2, 3)
    assert region.chunks(0).tolist() == [[0, 10], [10, 30]]
    narrow = DeviceArray(0, (1,), "bfloat16", 0, None)
    assert not hasattr(narrow, "__cuda_array_interface__")


def test_memory_that_the_caller_brings() -> None:
    group = Group.local([0, 1])
    region = Region.over(
        group,
        [Tensor((4, 5), 64), Tensor((4, 5), 128)],
        [Tensor((4, 5), 192), exported((4, 5), (20, 4))],
        name="mine",
    )
    assert FakeRegion.made[0][1:4] == ("mine", 20, 4)
    assert FakeRegion.made[0][-1] == [(64, 192), (128, 64)]
    assert region.shape == (4, 5)


@pytest.mark.parametrize(
    ("front", "back", "message"),
    [
        (Tensor((4,), 64, contiguous=False), Tensor((4,), 128), "the front is not contiguous"),
        (Tensor((4, 5), 64), exported((4, 5), (4, 16)), "the back is not contiguous"),
        (Tensor((4,), 64), Tensor((5,), 128), "must have one shape and one dtype"),
        (Tensor((4,), 64), [Tensor((4,), 128)] * 2, "1 fronts and 2 backs are given for 1 devices"),
        (np.zeros(4), Tensor((4,), 128), "the front is a ndarray; give a tensor"),
    ],
)
def test_memory_that_does_not_fit(front: object, back: object, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        Region.over(Group.local([0]), front, back)
    assert FakeRegion.made == []
    # The group tells the refusal to the other ranks, because they would otherwise wait for this
    # rank.
    assert FakeRegion.refused == [str(caught.value)]


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        (-5, {}, "a length of a region's shape is -5; give a whole number of at least 0"),
        ((4, 2.5), {}, "a length of a region's shape is 2.5; give a whole"),
        ((1 << 40, 1 << 40), {}, "the number of elements is 1208925819614629174706176; give"),
        (8, {"mechanism": None}, "mechanism is None; give a text"),
        (8, {"name": 3}, "name is 3; give a text"),
        (True, {}, "a length of a region's shape is True; give a whole"),
        (8, {"chunk_bytes": "1M"}, "chunk_bytes is '1M'; give a whole number of at least 1"),
        (8, {"chunk_bytes": 0}, "chunk_bytes is 0; give a whole number of at least 1"),
        (8, {"agent_threads": 1 << 17}, "agent_threads is 131072; give a whole number from 32 to"),
        (8, {"boundaries": [0, -4, 8]}, r"boundaries\[1\] is -4; give a whole number"),
        (
            8,
            {"subscribers": [[(0, 4, [1])], [(4, 8, [-1])]]},
            r"a device of subscribers\[1\] is -1; give a whole number from 0 to 3",
        ),
        (
            8,
            {"subscribers": [[(0, 4, [4])]]},
            r"a device of subscribers\[0\] is 4; give a whole number from 0 to 3",
        ),
        (8, {"subscribers": [[(0, -1, [1])]]}, r"the end of a range of subscribers\[0\] is -1;"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_on_all_ranks(
    shape: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        Region(Group.local([0, 1]), shape, "float32", **options)
    assert FakeRegion.made == []
    assert FakeRegion.refused == [str(caught.value)]


def test_a_group_has_all_gpus_or_those_that_are_named() -> None:
    assert Group.local().local_devices == [0, 1, 2, 3]
    assert Group.local(range(2)).local_devices == [0, 1]


def test_what_a_group_waits_for_is_shown_as_long_as_there_is_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setattr(user_folder, "_places", lambda: iter([(tmp_path, False)]))
    monkeypatch.setattr(activities, "_told", activities._Told())
    group = Group.local([0, 1])
    region = Region(group, 40, "float32", name="a")
    other = Region(group, 40, "float32")
    for device in (0, 1):
        region.begin(device)
    region.exchange(1)
    (answer,) = activities.ask_all()
    (one,) = answer["activities"]
    assert one["what"] == "a group of 4 devices, of which this process has 0, 1"
    assert [line.partition("; its last call was ")[0] for line in one["note"].splitlines()] == [
        "a: device 0 has begun 1 epoch and exchanged 0",
        "a: device 1 has begun 1 epoch and exchanged 1",
        "region 1: device 0 has begun 0 epochs and exchanged 0",
        "region 1: device 1 has begun 0 epochs and exchanged 0",
        "GPU 0 waits for chunk 3 of a, whose counter is 5 and not 8",
    ]
    other.close()
    region.close()
    group._group.devices = 0
    (answer,) = activities.ask_all()
    assert answer["activities"][0]["note"] == "the driver failed"
    del group, region, other
    gc.collect()
    assert activities.ask_all() == []


def test_numbers_of_numpy_are_numbers() -> None:
    Region(Group.local([0]), np.array([2, 3]), "int8", chunk_bytes=np.int64(4096))  # type: ignore[arg-type]
    assert FakeRegion.made[0][2] == 6
    assert FakeRegion.made[0][7] == 4096


def test_kernels_note_what_they_do_in_the_debug_mode() -> None:
    region = Region(Group.local([2, 3]), 40, "float32", mechanism=POLLING, checks=True)
    stored, published = region.stored_by(1), region.published_by(1)
    assert (stored.pointer, stored.shape, stored.dtype, stored.device) == (101, (20,), "int32", 3)
    assert (published.pointer, published.shape) == (201, (20,))
    with pytest.raises(UserError, match="make the region with checks=True"):
        Region(Group.local([2, 3]), 40, "float32").stored_by(0)


def test_a_function_gathers() -> None:
    Group.join(lambda own: (own, b"other"), 0, 2, ordinal=3, deadline=2.5)
    rank, size, ordinal, gather, deadline = FakeGroup.joined
    assert (rank, size, ordinal, deadline) == (0, 2, 3, 2.5)
    assert gather(b"own") == [b"own", b"other"]
    with pytest.raises(UserError, match="needs rank= and size="):
        Group.join(lambda own: [own])
    with pytest.raises(UserError, match="a int is not an all-gather"):
        Group.join(3)


def test_communicators_are_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    class Communicator:
        __module__ = "mpi4py.MPI"

        def Get_rank(self) -> int:  # noqa: N802
            return 1

        def Get_size(self) -> int:  # noqa: N802
            return 2

        def allgather(self, own: bytes) -> list[bytes]:
            return [b"", own]

    Group.join(Communicator())
    assert FakeGroup.joined[:3] == (1, 2, 1)
    assert FakeGroup.joined[3](b"x") == [b"", b"x"]

    def all_gather_object(every: list[Any], own: bytes, group: object) -> None:
        assert group is None
        every[:] = [own, own]

    torch = ModuleType("torch")
    dist = ModuleType("torch.distributed")
    dist.get_rank = lambda _group: 0  # type: ignore[attr-defined]
    dist.get_world_size = lambda _group: 2  # type: ignore[attr-defined]
    dist.all_gather_object = all_gather_object  # type: ignore[attr-defined]
    torch.distributed = dist  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.distributed", dist)
    Group.join(dist, ordinal=5)
    assert FakeGroup.joined[:3] == (0, 2, 5)
    assert FakeGroup.joined[3](b"y") == [b"y", b"y"]


def test_the_last_call_of_each_device_is_told() -> None:
    calls = regions._Calls("a", [0, 1])
    calls.last[0] -= 100
    assert [line.partition("; ")[2] for line in calls.lines()] == [
        "its last call was 1 min 40 s ago",
        "its last call was 0 s ago",
    ]
