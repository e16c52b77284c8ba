"""Parked memory: the contents of tensors leave the GPU and come back to the same addresses.

    with interlace.parkable("weights"):
        model = Model().cuda()
    interlace.park("weights")    # to page-locked host memory; the GPU's memory is free
    interlace.resume("weights")  # captured graphs and pointers are valid again

A pool of PyTorch or CuPy allocates memory through libinterlace.so (interlace/park.h). The library
maps physical memory to addresses that stay reserved. The promises of interlace/park.h also hold for
this module.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple

from interlace.base.errors import DeviceError, UserError
from interlace.base.installation import installed
from interlace.base.printable import printable
from interlace.runtime import tensor_memory
from interlace.runtime.copying import SHARED_OBJECT, check, open_library

# Constants of interlace/park.h.
ABI = 2
ON_HOST, NOWHERE = -1, -2
MOST_NAME_BYTES = 255

Device = Any  # "cuda", "cuda:1", 1, torch.device, cupy.cuda.Device


class _Report(ctypes.Structure):
    _fields_ = (
        ("bytes", ctypes.c_uint64),
        ("gpu_bytes", ctypes.c_uint64),
        ("locked_bytes", ctypes.c_uint64),
        ("seconds", ctypes.c_double),
    )


class _Facts(ctypes.Structure):
    _fields_ = (
        ("allocations", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("host_bytes", ctypes.c_uint64),
        ("parked", ctypes.c_int),
        ("place", ctypes.c_int),
    )


class _Range(ctypes.Structure):
    _fields_ = (("memory", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("gpu", ctypes.c_int))


class ParkReport(NamedTuple):
    """The bytes that a call of `park` or `resume` moved."""

    bytes: int  # the bytes of the contents
    gpu_bytes: int  # the physical memory that went back to the GPUs (park) or to the pools (resume)
    locked_bytes: int  # the host memory that this call page-locked
    seconds: float


class PoolState(NamedTuple):
    """A pool of parkable memory."""

    allocations: int
    bytes: int  # the bytes of all allocations
    parked: bool
    place: str | None  # where parked contents are: "host", "gpu:1" or "drop"
    host_bytes: int  # the page-locked memory that holds the contents


@cache
def _library() -> Any:
    library = open_library()
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    for name, arguments in (
        ("pool_create", [text]),
        ("pool_enter", [text]),
        ("pool_leave", []),
        ("pool_allocate", [text, ctypes.c_int, size, pointer]),
        ("pool_free", [pointer]),
        ("pool_prepare", [text, pointer]),
        ("pool_park", [text, ctypes.c_int, ctypes.c_int, pointer, size, pointer]),
        ("pool_resume", [text, pointer]),
        ("pool_look_up", [text, pointer]),
        ("pool_of", [pointer, pointer, size]),
        ("contents_keep", [pointer, size, pointer, pointer]),
        ("contents_restore", [pointer, pointer, size, pointer]),
        ("park_idle_bytes", [pointer]),
        ("park_free_idle", []),
    ):
        function = getattr(library, f"interlace_{name}")
        function.argtypes, function.restype = arguments, ctypes.c_int
    library.interlace_contents_destroy.argtypes = [pointer]
    library.interlace_contents_destroy.restype = None
    return library


def _call(name: str, *arguments: Any) -> None:
    library = _library()
    check(library, getattr(library, f"interlace_{name}")(*arguments))


def _encoded(name: object) -> bytes:
    if not isinstance(name, str) or not name or printable(name) != name:
        raise UserError(
            f"{name!r} cannot be the name of a pool; give a text without control characters"
        )
    if len(encoded := name.encode()) > MOST_NAME_BYTES:
        raise UserError(f"the name of a pool has {len(encoded)} bytes; give at most 255")
    return encoded


# --- pools of frameworks --------------------------------------------------------------------------

# The pools of the frameworks, by name and GPU.
_torch_pools: dict[str, dict[int, Any]] = {}
_cupy_pools: dict[str, dict[int, Any]] = {}
# the names of all pools of this module, in the order of their creation
_names: dict[str, None] = {}


@cache
def _torch_allocator() -> Any:
    torch: Any = importlib.import_module("torch")
    made = torch.cuda.memory.CUDAPluggableAllocator(
        str(installed(SHARED_OBJECT)),
        "interlace_park_torch_allocate",
        "interlace_park_torch_free",
    )
    # A pool of PyTorch does not keep its allocator alive. At the end of the process, the pool can
    # outlive this module, so the reference count is raised and never lowered.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return made


def _use_torch_pool(name: str, gpu: int) -> Any:
    torch: Any = importlib.import_module("torch")
    pools = _torch_pools.setdefault(name, {})
    if gpu not in pools:
        with torch.cuda.device(gpu):
            pools[gpu] = torch.cuda.MemPool(_torch_allocator().allocator())
    return torch.cuda.use_mem_pool(pools[gpu], device=gpu)


def _use_cupy_pool(name: str, gpu: int) -> Any:
    cupy: Any = importlib.import_module("cupy")
    encoded = _encoded(name)

    def allocate(size: int, _: int) -> int:
        memory = ctypes.c_void_p()
        try:
            _call("pool_allocate", encoded, gpu, size, ctypes.byref(memory))
        except DeviceError:
            raise cupy.cuda.memory.OutOfMemoryError(size, 0, 0) from None
        return memory.value or 0

    def free(memory: int, _: int) -> None:
        _call("pool_free", memory)

    pools = _cupy_pools.setdefault(name, {})
    if gpu not in pools:
        pools[gpu] = cupy.cuda.MemoryPool(cupy.cuda.PythonFunctionAllocator(allocate, free).malloc)
    return cupy.cuda.using_allocator(pools[gpu].malloc)


@contextmanager
def parkable(name: str, device: Device = "cuda", *, framework: str | None = None) -> Iterator[None]:
    """Allocate this thread's tensors in a pool that can be parked.

    Contexts can be nested. Inside nested contexts, the innermost pool gets the memory. A name can
    be used again. If it is used for another GPU, the pool has memory on both GPUs.

    Args:
        name: The name of the pool.
        device: "cuda" (the current GPU) or a GPU such as "cuda:1". Tensors on other devices are
            allocated as they are outside of this context.
        framework: "torch" (the default if it is installed) or "cupy".

    Raises:
        UserError: The pool is parked. Resume it before it gets more memory.

    The pool lasts until the process ends. PyTorch keeps freed memory in the pool for later tensors.
    PyTorch refuses pools while `expandable_segments` is on. Tensors that other threads make do not
    go to the pool. The threads of a backward pass are such threads.

    Example::

        import torch

        with interlace.parkable("made"):
            weights = torch.zeros(1 << 20, device="cuda:0")
    """
    encoded = _encoded(name)
    used = tensor_memory.framework_named(framework, gpu=True)
    gpu = tensor_memory.gpu_of(device)
    if gpu is None:
        raise UserError(f"{device!r} has no parkable memory; give a GPU")
    if gpu == -1:
        gpu = tensor_memory.current_gpu(used)
    _call("pool_create", encoded)
    _call("pool_enter", encoded)
    _names.setdefault(name)
    try:
        with (_use_torch_pool if used == "torch" else _use_cupy_pool)(name, gpu):
            yield
    finally:
        _call("pool_leave")


# --- parking --------------------------------------------------------------------------------------


def _place(to: object) -> int:
    kind, _, number = str(to).partition(":")
    if kind in ("host", "drop") and str(to) == kind:
        return ON_HOST if kind == "host" else NOWHERE
    if kind in ("gpu", "cuda") and number.isascii() and number.isdigit():
        return int(number)
    raise UserError(f"to={to!r}: give host, drop, or another GPU such as gpu:1")


def _address(tensor: Any) -> int:
    if hasattr(tensor, "data_ptr"):
        return int(tensor.data_ptr())
    if hasattr(tensor, "__cuda_array_interface__"):
        return int(tensor.__cuda_array_interface__["data"][0])
    raise UserError(f"a {type(tensor).__name__} is not a tensor on a GPU")


def _pools(what: Any) -> list[str]:
    """Return the names of the pools that `what` stands for.

    `what` is the name of a pool, or tensors in pools.
    """
    if isinstance(what, str):
        _encoded(what)
        return [what]
    one = hasattr(what, "data_ptr") or hasattr(what, "__cuda_array_interface__")
    if not one and not isinstance(what, Iterable):
        raise UserError(f"{what!r} is neither the name of a pool nor tensors")
    tensors = [what] if one else list(what)
    if not tensors:
        raise UserError("no tensor is given")
    found: dict[str, None] = {}
    name = ctypes.create_string_buffer(MOST_NAME_BYTES + 1)
    for number, tensor in enumerate(tensors):
        try:
            _call("pool_of", _address(tensor), name, MOST_NAME_BYTES + 1)
        except UserError:
            raise UserError(
                f"tensor {number} is not in parkable memory; make it inside of interlace.parkable"
            ) from None
        found.setdefault(name.value.decode())
    return list(found)


def _without_contents(name: str) -> list[int]:
    """Return the addresses of segments that PyTorch keeps for later tensors and that are unused."""
    return [
        int(segment["address"])
        for pool in _torch_pools.get(name, {}).values()
        for segment in pool.snapshot()
        if segment["active_size"] == 0
    ]


def _refuse_during_capture() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_current_stream_capturing():
        raise UserError("memory cannot be parked while this stream is being captured")


def _sum(reports: list[_Report]) -> ParkReport:
    return ParkReport(
        sum(one.bytes for one in reports),
        sum(one.gpu_bytes for one in reports),
        sum(one.locked_bytes for one in reports),
        sum(one.seconds for one in reports),
    )


def prepare_park(what: Any, *, wait: bool = False) -> None:
    """Page-lock the host memory of the next park in advance, while the program does other work.

    With this memory, the next `park` to the host is as fast as a later `park`. If `park` is called
    before all memory is locked, `park` uses the locked memory and locks the rest. The host memory
    stays allocated, as after a park with `keep_pool`. While memory is being locked, other calls of
    CUDA can take longer.

    Args:
        what: The name of a pool, or tensors, as for `park`. The host needs as much memory as these
            pools have now.
        wait: Whether the call returns only after the memory is locked. If False, the call returns
            at once, and a thread locks the memory.

    Raises:
        UserError: There is no such pool, or the pool is parked.
        MemoryError: The host has too little memory, and `wait` is True. Without `wait`, the next
            `park` raises this error.
        DeviceError: The driver failed, and `wait` is True.

    Example::

        import torch

        with interlace.parkable("prepared"):
            weights = torch.zeros(1 << 20, device="cuda:0")
        interlace.prepare_park("prepared", wait=True)
        interlace.park("prepared")
        interlace.resume("prepared")
    """
    encoded = [_encoded(name) for name in _pools(what)]
    for name in encoded:
        facts = _Facts()
        _call("pool_look_up", name, ctypes.byref(facts))
        if facts.parked:
            raise UserError(f"pool '{name.decode()}' is parked already")

    def prepare() -> None:
        for name in encoded:
            _call("pool_prepare", name, None)

    def in_background() -> None:
        with suppress(UserError, DeviceError, MemoryError):
            prepare()

    if wait:
        prepare()
    else:
        # Before the interpreter ends, it waits for this thread. The driver still works at that
        # time.
        threading.Thread(target=in_background, name="interlace prepare_park").start()


def park(what: Any, to: str = "host", *, keep_pool: bool = True) -> ParkReport:
    """Move the contents of pools away, and give the pools' physical memory back to the GPUs.

    The call waits for all work on the pools' GPUs, in all streams, and returns when the memory is
    free. The addresses stay reserved. Until `resume`, no work may use the tensors, and no graph
    that uses them may be launched.

    Args:
        what: The name of a pool, or tensors. Each pool that has one of the tensors is parked as a
            whole, with all its other tensors.
        to: "host" (page-locked memory), "gpu:1" (free memory of another GPU), or "drop". "drop"
            discards the contents: after `resume`, they are undefined.
        keep_pool: Whether to keep the page-locked memory for later parks after the pool has
            resumed. False gives this memory back to the system.

    Raises:
        UserError: There is no such pool, or the pool is already parked.
        MemoryError: The host has too little memory. The pools are unchanged.
        DeviceError: A GPU has too little memory or failed. Either the pools are unchanged, or the
            message says that the caller must call `resume`.

    Example::

        import torch

        with interlace.parkable("parked"):
            weights = torch.zeros(1 << 20, device="cuda:0")
        interlace.park("parked")
        interlace.resume("parked")
    """
    place = _place(to)
    names = _pools(what)
    _refuse_during_capture()
    reports: list[_Report] = []
    for name in names:
        without = _without_contents(name)
        report = _Report()
        try:
            _call(
                "pool_park",
                _encoded(name),
                place,
                int(keep_pool),
                (ctypes.c_void_p * len(without))(*without),
                len(without),
                ctypes.byref(report),
            )
        except (UserError, DeviceError, MemoryError):
            for parked in names[: len(reports)]:
                with suppress(DeviceError):
                    _call("pool_resume", _encoded(parked), None)
            raise
        reports.append(report)
    return _sum(reports)


def resume(what: Any) -> ParkReport:
    """Give parked pools physical memory again and bring their contents back.

    The call returns when the contents are in place.

    Args:
        what: The name of a pool, or tensors, as for `park`.

    Raises:
        UserError: There is no such pool, or the pool is not parked.
        DeviceError: A GPU has too little memory or failed. The pool is still parked.

    Example::

        import torch

        with interlace.parkable("resumed"):
            weights = torch.zeros(1 << 20, device="cuda:0")
        interlace.park("resumed")
        interlace.resume("resumed")
    """
    _refuse_during_capture()
    reports: list[_Report] = []
    for name in _pools(what):
        reports.append(_Report())
        _call("pool_resume", _encoded(name), ctypes.byref(reports[-1]))
    return _sum(reports)


def parked_memory() -> dict[str, PoolState]:
    """Return the state of every pool that `parkable` has made, by name.

    Example::

        import torch

        with interlace.parkable("listed"):
            weights = torch.zeros(1 << 20, device="cuda:0")
        assert "listed" in interlace.parked_memory()
    """
    states = {}
    for name in _names:
        facts = _Facts()
        _call("pool_look_up", _encoded(name), ctypes.byref(facts))
        place = {ON_HOST: "host", NOWHERE: "drop"}.get(facts.place, f"gpu:{facts.place}")
        states[name] = PoolState(
            facts.allocations,
            facts.bytes,
            bool(facts.parked),
            place if facts.parked else None,
            facts.host_bytes,
        )
    return states


# --- memory that other programs map --------------------------------------------------------------


class Contents:
    """Keeps the contents of GPU memory in page-locked host memory.

    This class is for programs that map and unmap memory themselves. Its functions wait for all work
    on the GPUs of the ranges.
    """

    def __init__(self, ranges: Iterable[tuple[int, int, int]]) -> None:
        """Copy the contents of ranges. A range is (address, bytes, GPU)."""
        self._library = _library()
        self._contents = ctypes.c_void_p()
        given = [_Range(*one) for one in ranges]
        report = _Report()
        _call(
            "contents_keep",
            (_Range * len(given))(*given),
            len(given),
            ctypes.byref(self._contents),
            ctypes.byref(report),
        )
        self.report = _sum([report])

    def restore(self, addresses: Iterable[int]) -> ParkReport:
        """Copy the contents of ranges back. Each address must be the address of a kept range."""
        wanted = list(addresses)
        report = _Report()
        array = (ctypes.c_void_p * len(wanted))(*wanted)
        _call("contents_restore", self._contents, array, len(wanted), ctypes.byref(report))
        return _sum([report])

    def close(self) -> None:
        """Drop the contents. Keep the page-locked memory for later parks."""
        contents, self._contents = self._contents, ctypes.c_void_p()
        self._library.interlace_contents_destroy(contents)

    def __del__(self) -> None:
        if getattr(self, "_contents", None):
            self.close()


def idle_host_bytes() -> int:
    """Return the bytes of page-locked memory that are kept for later parks."""
    size = ctypes.c_uint64()
    _call("park_idle_bytes", ctypes.byref(size))
    return size.value


def free_idle_host_memory() -> None:
    """Return the kept page-locked memory to the system."""
    _call("park_free_idle")
