"""Tests interlace.copy without a GPU: its calls of the library, and the calls that it refuses."""

from __future__ import annotations

import array
import ctypes
import subprocess
import sys
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlace
from interlace.base.errors import DeviceError, UserError
from interlace.base.installation import installed
from interlace.runtime import copying

# --- GPUs that use the memory of the host ---------------------------------------------------------


class Library:
    """A stand-in for libinterlace.so. It knows which GPU owns an address, and makes copies
    immediately.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        # Maps an address to its GPU. All other memory is page-locked host memory.
        self.places: dict[int, int] = {}
        self.capturing: set[tuple[int, int]] = set()
        self.open: dict[int, tuple[int, int]] = {}  # the events that have not been freed yet
        self.done: set[int] = set()
        self.fails: tuple[int, bytes] | None = None

    def interlace_last_error(self) -> bytes:
        assert self.fails is not None
        return self.fails[1]

    def interlace_memory_place(self, address: int, size: int, place: Any) -> int:
        assert size > 0
        place._obj.value = self.places.get(address, copying.PAGE_LOCKED)
        return 0

    def interlace_stream_is_capturing(self, gpu: int, stream: int, answer: Any) -> int:
        answer._obj.value = (stream, gpu) in self.capturing
        return 0

    def interlace_event_record(self, gpu: int, stream: int, event: Any) -> int:
        event._obj.value = number = 1 + len(self.calls)
        self.open[number] = (stream, gpu)
        self.calls.append(("record", stream, gpu))
        return 0

    def interlace_event_wait(self, event: Any, gpu: int, stream: int) -> int:
        self.calls.append(("wait", stream, gpu, self.open[event.value]))
        return 0

    def interlace_event_done(self, event: Any, answer: Any) -> int:
        answer._obj.value = event.value in self.done
        return 0

    def interlace_event_destroy(self, event: Any) -> None:
        del self.open[event.value]

    def interlace_copier_copy_async(
        self, copier: None, gpu: int, dst: int, src: int, size: int, stream: int
    ) -> int:
        assert copier is None
        if self.fails is not None:
            return self.fails[0]
        self.calls.append(("copy", gpu, dst, src, size, stream))
        ctypes.memmove(dst, src, size)
        return 0

    def interlace_copier_all_gather_async(self, *call: Any) -> int:
        return self._collective("all_gather", *call)

    def interlace_copier_all_to_all_async(self, *call: Any) -> int:
        return self._collective("all_to_all", *call)

    def interlace_copier_all_reduce_async(
        self, copier: None, gpu: int, send: Any, receive: Any, participants: int, count: int,
        element: int, by: int, stream: int,
    ) -> int:  # fmt: skip
        assert copier is None
        assert len(send) == len(receive) == participants
        if self.fails is not None:
            return self.fails[0]
        name = copying.ELEMENTS[element]
        self.calls.append(("all_reduce", gpu, participants, count, name, by, stream))
        dtype = np.dtype("uint16" if name == "bfloat16" else name)
        arrays = [
            np.frombuffer(ctypes.string_at(one, count * dtype.itemsize), dtype) for one in send
        ]
        result = (np.add, np.minimum, np.maximum)[by].reduce(arrays)
        for one in receive:
            ctypes.memmove(one, result.astype(dtype).ctypes.data, count * dtype.itemsize)
        return 0

    def _collective(
        self, name: str, copier: None, gpu: int, send: Any, receive: Any, count: int, size: int,
        stream: int,
    ) -> int:  # fmt: skip
        assert copier is None
        assert len(send) == len(receive) == count
        if self.fails is not None:
            return self.fails[0]
        self.calls.append((name, gpu, count, size, stream))
        for i in range(count):
            for j in range(count):
                block = j * size if name == "all_to_all" else 0
                ctypes.memmove(receive[j] + i * size, send[i] + block, size)
        return 0

    def copies(self) -> list[tuple[Any, ...]]:
        return [call for call in self.calls if call[0] == "copy"]


class Tensor:
    """A tensor like PyTorch's. Its bytes are on "cpu" or "cuda:N"."""

    def __init__(self, values: Any, device: str = "cpu", dtype: str | None = None) -> None:
        self.values = values
        kind, _, index = device.partition(":")
        self.device = SimpleNamespace(type=kind, index=int(index) if index else None)
        self.dtype = f"torch.{dtype or values.dtype.name}"
        self.layout = "torch.strided"
        self.conj = False

    def is_conj(self) -> bool:
        return self.conj

    def is_neg(self) -> bool:
        return False

    def is_contiguous(self) -> bool:
        return bool(self.values.flags.c_contiguous)

    def numel(self) -> int:
        return int(self.values.size)

    def element_size(self) -> int:
        return int(self.values.itemsize)

    def data_ptr(self) -> int:
        return int(self.values.ctypes.data)


class CupyArray:
    def __init__(self, values: Any, gpu: int, **more: Any) -> None:
        self.values = values
        self.device = SimpleNamespace(id=gpu)
        self.__cuda_array_interface__ = {**exported(values), **more}


def exported(values: Any, **more: Any) -> dict[str, Any]:
    return {
        "shape": values.shape,
        "typestr": values.dtype.str,
        "data": (int(values.ctypes.data), False),
        "strides": values.strides,
        "version": 3,
        **more,
    }


class CupyDevice:
    current = 0

    def __init__(self, gpu: int) -> None:
        self.gpu = gpu

    def __enter__(self) -> None:
        self.before, CupyDevice.current = CupyDevice.current, self.gpu

    def __exit__(self, *_: object) -> None:
        CupyDevice.current = self.before


def torch_stream(number: int, gpu: int) -> SimpleNamespace:
    return SimpleNamespace(cuda_stream=number, device=SimpleNamespace(type="cuda", index=gpu))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """Return the stand-in library, with a PyTorch and a CuPy.

    The current stream on GPU g is 100 + g in this PyTorch and 200 + g in this CuPy.
    """
    made = Library()
    torch = SimpleNamespace(
        Tensor=Tensor,
        cuda=SimpleNamespace(current_stream=lambda gpu: torch_stream(100 + gpu, gpu)),
        from_dlpack=lambda one: one.tensor,
    )
    cupy = SimpleNamespace(
        ndarray=CupyArray,
        cuda=SimpleNamespace(
            Device=CupyDevice,
            get_current_stream=lambda: SimpleNamespace(ptr=200 + CupyDevice.current),
        ),
    )
    monkeypatch.setattr(copying, "_library", lambda: made)
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "cupy", cupy)  # type: ignore[arg-type]
    monkeypatch.setattr(copying, "_told", False)
    copying._kept.clear()
    yield made
    copying._kept.clear()


def values(count: int = 24, dtype: str = "float32", seed: int = 1) -> Any:
    raw = np.random.default_rng(seed).integers(0, 256, count * np.dtype(dtype).itemsize, np.uint8)
    return raw.view(dtype)


def poison(count: int = 24, dtype: str = "float32") -> Any:
    return np.full(count * np.dtype(dtype).itemsize, 0xA5, np.uint8).view(dtype)


def on_gpu(framework: str, memory: Any, gpu: int) -> Any:
    return Tensor(memory, f"cuda:{gpu}") if framework == "torch" else CupyArray(memory, gpu)


# --- what is copied, and in which stream ----------------------------------------------------------


def test_the_package_offers_it() -> None:
    for name in ("copy", "all_gather", "all_reduce", "all_to_all"):
        assert getattr(interlace, name) is getattr(copying, name)
        assert name in interlace.__all__


@pytest.mark.parametrize(
    ("destination", "source", "gpu", "stream"),
    [
        (("torch", 2), None, 2, 102),
        (("cupy", 2), None, 2, 202),
        (None, ("torch", 1), 1, 101),
        (None, ("cupy", 3), 3, 203),
        (("torch", 1), ("torch", 1), 1, 101),
        (("torch", 1), ("torch", 3), 1, 101),
        (("torch", 0), ("cupy", 3), 0, 100),
        (("cupy", 1), ("torch", 0), 1, 201),
    ],
)
def test_the_current_stream_of_the_destination_or_else_the_source(
    library: Library,
    destination: tuple[str, int] | None,
    source: tuple[str, int] | None,
    gpu: int,
    stream: int,
) -> None:
    into, given = poison(), values()
    to = into if destination is None else on_gpu(destination[0], into, destination[1])
    src = given if source is None else on_gpu(source[0], given, source[1])
    copying.copy(to, src)
    assert library.copies() == [
        ("copy", gpu, into.ctypes.data, given.ctypes.data, given.nbytes, stream)
    ]
    assert into.tobytes() == given.tobytes()


def test_two_gpus_without_a_stream_are_in_order_on_both(library: Library) -> None:
    into, given = poison(), values()
    copying.copy(Tensor(into, "cuda:1"), CupyArray(given, 3))
    assert [call[0] for call in library.calls] == ["record", "wait", "copy", "record", "wait"]
    assert library.calls[1] == ("wait", 101, 1, (203, 3))
    assert library.calls[4] == ("wait", 203, 3, (101, 1))
    assert library.open == {}
    library.calls.clear()
    # only the stream of GPU 1 is captured; the stream of GPU 3 is not
    library.capturing.add((101, 1))
    copying.copy(Tensor(into, "cuda:1"), CupyArray(given, 3))
    assert [call[0] for call in library.calls] == ["copy"]


def test_a_stream_of_one_gpu_needs_no_other(library: Library) -> None:
    copying.copy(Tensor(poison(), "cuda:1"), Tensor(values(), "cuda:1"))
    assert [call[0] for call in library.calls] == ["copy"]
    library.calls.clear()
    # PyTorch and CuPy each have their own stream on the GPU.
    copying.copy(Tensor(poison(), "cuda:1"), CupyArray(values(), 1))
    assert [call[0] for call in library.calls] == ["record", "wait", "copy", "record", "wait"]
    library.calls.clear()
    copying.copy(Tensor(poison(), "cuda:1"), CupyArray(values(), 3), 7)
    assert library.calls[0][0] == "copy"
    assert len(library.calls) == 1


@pytest.mark.parametrize(
    ("stream", "number", "gpu"),
    [
        (7, 7, 2),
        (0, 0, 2),
        (torch_stream(0, 1), 0, 1),
        (torch_stream(9, 2), 9, 2),
        (SimpleNamespace(ptr=9, device_id=3), 9, 3),
        (SimpleNamespace(ptr=9, device_id=-1), 9, 2),
        (SimpleNamespace(__cuda_stream__=lambda: (0, 11)), 11, 2),
    ],
)
def test_streams(library: Library, stream: object, number: int, gpu: int) -> None:
    copying.copy(Tensor(poison(), "cuda:2"), values(), stream)
    assert library.copies()[0][1] == gpu
    assert library.copies()[0][5] == number


def test_arrays_of_others(library: Library) -> None:
    into, given = poison(), values()
    library.places[given.ctypes.data] = 3
    library.places[into.ctypes.data] = copying.MANAGED
    foreign = SimpleNamespace(__cuda_array_interface__=exported(given, stream=55))
    copying.copy(np.zeros_like(given), foreign)
    assert library.copies()[-1][1] == 3
    assert library.copies()[-1][5] == 55
    copying.copy(SimpleNamespace(__cuda_array_interface__=exported(into)), given)
    assert library.copies()[-1][1] == copying.CURRENT_GPU
    assert into.tobytes() == given.tobytes()
    tensor = Tensor(poison(), "cuda:1", "bfloat16")
    packed = SimpleNamespace(__dlpack_device__=lambda: (2, 1), tensor=tensor)
    copying.copy(packed, Tensor(values(), dtype="bfloat16"))
    assert library.copies()[-1][1] == 1
    library.places[given.ctypes.data] = copying.PAGEABLE
    with pytest.raises(
        UserError, match="says that its memory is on a GPU, but the driver says that it is not"
    ):
        copying.copy(np.zeros_like(given), foreign)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, array.array])
def test_buffers_fit_any_dtype(library: Library, kind: Any) -> None:
    given = values(dtype="float16")
    source = kind(given.tobytes()) if kind is not array.array else array.array("B", given.tobytes())
    into = poison(dtype="float16")
    copying.copy(Tensor(into, "cuda:0"), source)
    assert into.tobytes() == given.tobytes()
    if kind in (bytearray, array.array):
        back = bytearray(b"\xa5" * given.nbytes) if kind is bytearray else source
        copying.copy(back, Tensor(given, "cuda:0"))
        assert bytes(back) == given.tobytes()
    assert len(library.copies()) == 1 + (kind in (bytearray, array.array))


DTYPES = ("bool", "int8", "uint16", "int64", "float16", "float64", "complex128")


@given(
    st.sampled_from(DTYPES),
    st.integers(0, 40),
    st.integers(0, 8),
    st.integers(0, 2**32 - 1),
    st.sampled_from(("torch", "cupy")),
    st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_any_part_of_an_array_and_no_other_byte(
    dtype: str, count: int, at: int, seed: int, framework: str, to_gpu: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        library = Library()
        patch.setattr(copying, "_library", lambda: library)
        cuda = SimpleNamespace(
            current_stream=lambda gpu: torch_stream(0, gpu),
            Device=CupyDevice,
            get_current_stream=lambda: SimpleNamespace(ptr=0),
        )
        patch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor, cuda=cuda))
        patch.setitem(sys.modules, "cupy", SimpleNamespace(ndarray=CupyArray, cuda=cuda))
        whole, given = poison(64, dtype), values(count, dtype, seed)
        part = whole[at : at + count]
        expected = whole.copy()
        expected[at : at + count] = given
        if to_gpu:
            copying.copy(on_gpu(framework, part, 1), given)
        else:
            copying.copy(part, on_gpu(framework, given, 1))
        assert whole.tobytes() == expected.tobytes()
        assert len(library.copies()) == (count > 0)


# --- resources that are reused, and messages
# ---------------------------------------------------------


def test_host_memory_is_kept_until_it_was_copied(library: Library) -> None:
    for _ in range(3):
        copying.copy(Tensor(poison(), "cuda:0"), values(), 7)
    assert len(copying._kept) == 3
    library.done |= set(library.open)
    into = poison()
    copying.copy(into, Tensor(values(), "cuda:0"), 7)
    assert [kept for _, kept in copying._kept] == [into]
    assert list(library.open.values()) == [(7, 0)]
    library.capturing.add((7, 0))
    copying.copy(into, Tensor(values(), "cuda:0"), 7)
    assert len(copying._kept) == 1


def test_pageable_memory_is_told_of_once(library: Library) -> None:
    pageable = values()
    library.places[pageable.ctypes.data] = copying.PAGEABLE
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copying.copy(Tensor(poison(), "cuda:0"), values())  # these values are page-locked
    into = poison()
    with pytest.warns(RuntimeWarning, match="not page-locked is copied by a plain copy") as told:
        copying.copy(Tensor(into, "cuda:0"), pageable)
    assert told[0].filename == __file__
    assert into.tobytes() == pageable.tobytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copying.copy(Tensor(poison(), "cuda:0"), pageable)


# --- what is refused ------------------------------------------------------------------------------


def read_only() -> Any:
    made = poison()
    made.flags.writeable = False
    return made


class Conjugate(Tensor):
    def is_conj(self) -> bool:
        return True


def gpu(count: int = 24, dtype: str = "float32") -> Tensor:
    return Tensor(poison(count, dtype), "cuda:0")


REFUSED: list[tuple[Any, Any, str]] = [
    (gpu(), values(23), "the destination has 96 bytes and the source has 92"),
    (gpu(), values(24, "int32"), "the destination is float32 and the source is int32; a copy"),
    (gpu(), values(24, ">f4"), "the destination is float32 and the source is >f4"),
    (poison(), values(), "both arrays are in the host's memory"),
    (read_only(), gpu(), "the destination is read-only"),
    (bytes(96), gpu(), "the destination is read-only"),
    (CupyArray(poison(), 0, data=(64, True)), values(), "the destination is read-only"),
    (gpu(), values(48)[::2], "the source is not contiguous; use numpy.ascontig"),
    (Tensor(poison(48)[::2], "cuda:0"), values(), "the destination is not contiguous; use tensor"),
    (CupyArray(poison(48)[::2], 0), values(), "the destination is not contiguous"),
    (gpu(), memoryview(bytes(192))[::2], "the source is not contiguous"),
    (CupyArray(poison(), 0, mask=3), values(), "the destination has a mask"),
    (gpu(), [1.0] * 24, "the source is a list; give an array of PyTorch, CuPy or NumPy"),
    (3, values(), "the destination is a int; give an array"),
    (gpu(3, "uint64"), np.array([1, "a", None], object), "its elements are Python's objects"),
    (Conjugate(poison(), "cuda:0"), values(), "is a lazy conjugate"),
    (Tensor(poison(), "meta"), values(), "the destination is strided on"),
]


@pytest.mark.parametrize(("dst", "src", "message"), REFUSED, ids=[str(k) for k in range(17)])
def test_arrays_that_do_not_fit(library: Library, dst: Any, src: Any, message: str) -> None:
    with pytest.raises(UserError) as error:
        copying.copy(dst, src)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert library.calls == []


@pytest.mark.parametrize(
    "wrong",
    [{"shape": None}, {"typestr": "<x9"}, {"typestr": 5}, {"data": 5}, {"data": ("a", False)}],
)
def test_a_description_that_is_wrong(library: Library, wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="has a __cuda_array_interface__ that is wrong: "):
        copying.copy(CupyArray(poison(), 0, **wrong), values())
    assert library.calls == []


@pytest.mark.parametrize("stream", ["0", 1.5, True, object()])
def test_what_is_no_stream(library: Library, stream: object) -> None:
    with pytest.raises(UserError, match="is not a CUDA stream"):
        copying.copy(gpu(), values(), stream)
    assert library.calls == []


def test_no_bytes_need_no_gpu(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "_library", lambda: pytest.fail("it was asked"))
    copying.copy(gpu(0), values(0))
    copying.copy(gpu(0), b"")
    assert library.calls == []


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5, 6])
def test_what_the_library_says(library: Library, code: int) -> None:
    library.fails = (code, b"one sentence")
    wanted: Any = UserError if code < 4 else MemoryError if code == 5 else DeviceError
    with pytest.raises(wanted, match=r"^one sentence$"):
        copying.copy(gpu(), values())


def test_a_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "installed", lambda _: None)
    with pytest.raises(UserError, match=r"lacks libinterlace\.so, the library that copies"):
        copying.open_library.__wrapped__()


# --- the library itself ---------------------------------------------------------------------------

needs_library = pytest.mark.skipif(
    installed(copying.SHARED_OBJECT) is None, reason="the library is not built"
)

WITHOUT_A_DRIVER = """
import numpy as np
from interlace.runtime import copying
from interlace.base.errors import UserError
class Foreign:
    def __init__(self, values):
        self.__cuda_array_interface__ = values.__array_interface__
for call in (
    lambda: copying.copy(Foreign(np.zeros(4)), np.zeros(4)),
    lambda: copying.copy_statistics(),
):
    try:
        call()
    except UserError as error:
        print(error)
"""


@needs_library
def test_without_a_driver_it_says_so() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_DRIVER], capture_output=True, text=True, check=True
    )
    lines = ended.stdout.splitlines()
    if not lines:
        pytest.skip("there is a driver")
    assert len(lines) == 2
    assert all("no NVIDIA driver was found" in line or "cuInit" in line for line in lines)


# --- collectives ----------------------------------------------------------------------------------


@pytest.mark.parametrize("framework", ["torch", "cupy"])
@pytest.mark.parametrize("gpus", [1, 2, 3, 4])
def test_collectives_bring_every_block_to_its_place(
    library: Library, framework: str, gpus: int
) -> None:
    sent = [values(6 * gpus, seed=1 + gpu) for gpu in range(gpus)]
    gathered = [poison(6 * gpus * gpus) for _ in range(gpus)]
    exchanged = [poison(6 * gpus) for _ in range(gpus)]

    def arrays(of: list[Any]) -> list[Any]:
        return [on_gpu(framework, memory, gpu) for gpu, memory in enumerate(of)]

    copying.all_gather(arrays(gathered), arrays(sent), 7)
    copying.all_to_all(arrays(exchanged), arrays(sent), torch_stream(9, gpus - 1))
    assert library.calls == [
        ("all_gather", 0, gpus, 24 * gpus, 7),
        ("all_to_all", gpus - 1, gpus, 24, 9),
    ]
    for gpu in range(gpus):
        assert gathered[gpu].tobytes() == np.concatenate(sent).tobytes()
        blocks = [one[6 * gpu : 6 * gpu + 6] for one in sent]
        assert exchanged[gpu].tobytes() == np.concatenate(blocks).tobytes()


def test_collectives_are_in_order_on_the_current_streams_of_all_gpus(library: Library) -> None:
    outputs = [Tensor(poison(), f"cuda:{gpu}") for gpu in (2, 0)]
    inputs: list[Any] = [Tensor(values(), "cuda:2"), CupyArray(values(), 0)]
    copying.all_to_all(outputs, inputs)
    assert [call[0] for call in library.calls] == [
        "record", "wait", "record", "wait", "all_to_all", "record", "wait", "wait"
    ]  # fmt: skip
    assert library.calls[1] == ("wait", 102, 2, (100, 0))
    assert library.calls[3] == ("wait", 102, 2, (200, 0))
    assert library.calls[6:] == [("wait", 100, 0, (102, 2)), ("wait", 200, 0, (102, 2))]
    assert library.open == {}
    library.calls.clear()
    library.capturing.add((102, 2))
    copying.all_to_all(outputs, inputs)
    assert [call[0] for call in library.calls] == ["all_to_all"]


@pytest.mark.parametrize("framework", ["torch", "cupy"])
@pytest.mark.parametrize("name", [name for name in copying.ELEMENTS if name != "bfloat16"])
def test_all_reduce_combines_the_arrays(library: Library, framework: str, name: str) -> None:
    sent = [np.arange(9).astype(name) * (gpu + 1) - 5 for gpu in range(3)]
    inputs = [on_gpu(framework, memory, gpu) for gpu, memory in enumerate(sent)]
    for k, op in enumerate(copying.REDUCTIONS):
        memories = [np.zeros(9, name) for _ in range(3)]
        outputs = [on_gpu(framework, memory, gpu) for gpu, memory in enumerate(memories)]
        if op == "sum":
            copying.all_reduce(outputs, inputs, stream=7)
        else:
            copying.all_reduce(outputs, inputs, op, 7)
        assert library.calls.pop() == ("all_reduce", 0, 3, 9, name, k, 7)
        wanted = (sum(sent), np.minimum.reduce(sent), np.maximum.reduce(sent))[k]
        assert all(np.array_equal(one, wanted) for one in memories)


def test_all_reduce_in_place_and_of_pytorchs_own_type(library: Library) -> None:
    tensors = [Tensor(np.full(4, 3, "uint16"), f"cuda:{gpu}", "bfloat16") for gpu in range(2)]
    copying.all_reduce(tensors, tensors, "max", 7)
    assert library.calls == [("all_reduce", 0, 2, 4, "bfloat16", 2, 7)]


def test_what_all_reduce_refuses(library: Library) -> None:
    arrays = [tensor(gpu) for gpu in range(2)]
    with pytest.raises(UserError, match="no reduction 'mean'; use one of sum, min, max"):
        copying.all_reduce(arrays, arrays, "mean")
    odd = [tensor(gpu, dtype="uint8") for gpu in range(2)]
    with pytest.raises(UserError, match="input 0 is uint8; all_reduce combines float32, "):
        copying.all_reduce(odd, odd)
    with pytest.raises(UserError, match="output 1 has 48 bytes and input 0 has 96"):
        copying.all_reduce([arrays[0], tensor(1, 12)], arrays)
    library.fails = (1, b"this library was built without nvcc")
    with pytest.raises(UserError, match="built without nvcc"):
        copying.all_reduce(arrays, arrays, stream=7)
    assert library.calls == []


def test_nothing_is_no_collective(library: Library) -> None:
    empty = [Tensor(values(0), f"cuda:{gpu}") for gpu in range(2)]
    copying.all_reduce(empty, empty)
    copying.all_gather(empty, empty)
    copying.all_to_all(empty, empty)
    assert library.calls == []


def test_what_the_library_says_of_a_collective_is_the_error(library: Library) -> None:
    library.fails = (1, b"copies 0 and 1 of a batch overlap")
    arrays = [Tensor(values(), f"cuda:{gpu}") for gpu in range(2)]
    with pytest.raises(UserError, match="copies 0 and 1 of a batch overlap"):
        copying.all_to_all(arrays, arrays, 7)


def tensor(gpu: int, count: int = 24, dtype: str = "float32") -> Tensor:
    return Tensor(values(count, dtype), f"cuda:{gpu}")


READ_ONLY = values()


@pytest.mark.parametrize("collective", [copying.all_gather, copying.all_to_all])
@pytest.mark.parametrize(
    ("outputs", "inputs", "message"),
    [
        ({3: tensor(3, 72)}, {}, "has 4 outputs and 3 inputs; give one output and one input"),
        ({}, {1: values()}, "input 1 is in the host's memory; all_"),
        ({}, {2: tensor(1)}, "output 2 is on GPU 2 and input 2 is on GPU 1; put both arrays"),
        ({2: tensor(0, 72)}, {2: tensor(0)}, "inputs 0 and 2 are both on GPU 0; give all_"),
        (
            {},
            {1: tensor(1, 12)},
            "input 1 has 48 bytes and input 0 has 96; give arrays of one size",
        ),
        ({1: tensor(1, 72, "int32")}, {}, "output 1 is int32 and input 0 is float32; all_"),
        ({1: tensor(1, 20)}, {}, "output 1 has 80 bytes"),
        (
            {0: CupyArray(READ_ONLY, 0, data=(READ_ONLY.ctypes.data, True))},
            {},
            "output 0 is read-only",
        ),
    ],
)
def test_arrays_that_are_no_collective(
    library: Library,
    collective: Any,
    outputs: dict[int, Any],
    inputs: dict[int, Any],
    message: str,
) -> None:
    size = 72 if collective is copying.all_gather else 24
    to: dict[int, Any] = {gpu: tensor(gpu, size) for gpu in range(3)}
    sent: dict[int, Any] = {gpu: tensor(gpu) for gpu in range(3)}
    collective(to.values(), sent.values(), 7)
    assert len(library.calls) == 1
    with pytest.raises(UserError, match=message):
        collective((to | outputs).values(), (sent | inputs).values(), 7)
    assert len(library.calls) == 1
    with pytest.raises(UserError, match="has 0 outputs and 0 inputs"):
        collective([], [])


@pytest.mark.usefixtures("library")
def test_blocks_are_of_whole_elements() -> None:
    arrays = [tensor(gpu, 10) for gpu in range(4)]
    with pytest.raises(UserError, match="inputs of 10 elements cannot be cut into a block"):
        copying.all_to_all(arrays, arrays)
