"""Measures cycles of parked memory.

The benchmark compares `interlace` with a replica of vLLM's sleep mode and with torch_memory_saver.
The tensors belong to a transformer with 8 billion parameters (interlace.study.load_model). As many
copies of the transformer are made as fit. Each method runs in a process of its own, because the
first cycle of a process page-locks memory. The command of this process is `python -m
interlace.study.park_bench METHOD BYTES REPEATS`.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import msgspec

from interlace.base.errors import UserError
from interlace.base.progress import progress
from interlace.model.mechanisms import GIB, MIB
from interlace.model.results import BENCHMARK_FORMAT, BenchmarkFile, provenance
from interlace.model.run import RunFailure
from interlace.study.load_model import ELEMENT, shapes

OWN, PREPARED, TO_GPU = "interlace", "interlace-prepared", "interlace-gpu"
CUMEM, SAVER = "cumem", "torch_memory_saver"
METHODS = (OWN, PREPARED, TO_GPU, CUMEM, SAVER)
POOL = "interlace bench park"
GPU, OTHER_GPU = 0, 1
LEAST_BYTES = 64 * MIB  # if fewer bytes are left, no further copy of the model is added
LINK_BYTES = GIB
LINK_REPEATS = 5
DRIVER_VERSION = Path("/sys/module/nvidia/version")


def _parking() -> Any:
    """Return `interlace.runtime.parking`. It loads slowly, and help texts do not need it."""
    from interlace.runtime import parking

    return parking


class ParkRow(msgspec.Struct):
    """The measurements of a method.

    A time begins with the call and ends when all bytes have arrived.
    """

    method: str
    bytes: int
    allocations: int
    first_park_s: float  # the first park of the process, which also page-locks host memory
    first_resume_s: float
    park_s: list[float]
    resume_s: list[float]
    first_park_gb_per_s: float
    park_gb_per_s: float  # from the median of `park_s`
    resume_gb_per_s: float
    freed_bytes: (
        # the GPU's free memory while the tensors are parked, minus the free memory before the
        # tensors were made
        int
    )
    wrong: int  # the number of tensors with wrong bytes
    prepare_s: float | None = None  # the time of prepare_park, which ran before the first park
    # The time of the first park of a second process. This process may get the pages that the first
    # process had page-locked.
    second_process_first_park_s: float | None = None


class ParkResults(BenchmarkFile):
    """The content of a results file of `interlace bench park`."""

    torch: str  # the version of PyTorch
    versions: dict[str, str]  # the versions of the other libraries
    left_out: dict[str, str]  # maps a method to the reason why it was not measured
    bytes: int
    tensors: int
    repeats: int
    link_to_host_gb_per_s: float  # the rate of one copy to page-locked host memory
    link_to_gpu_gb_per_s: float
    rows: list[ParkRow]


def sizes(most: int) -> list[int]:
    """Return the sizes of the tensors, with at most `most` bytes in all.

    Add models, each as large as fits, until fewer than LEAST_BYTES bytes are left.
    """
    found: list[int] = []
    while most >= LEAST_BYTES or not found:
        model = [ELEMENT * prod(shape) for shape in shapes(most)[0].values()]
        found += model
        most -= sum(model)
    return found


# --- methods --------------------------------------------------------------------------------------


class _Interlace:
    def __init__(self, torch: Any) -> None:
        self._torch = torch

    @contextmanager
    def pool(self) -> Iterator[None]:
        with _parking().parkable(POOL, GPU):
            yield

    def empty(self, size: int) -> Any:
        return self._torch.empty(size // 8, dtype=self._torch.int64, device=f"cuda:{GPU}")

    def park(self) -> None:
        _parking().park(POOL)

    def resume(self) -> None:
        _parking().resume(POOL)

    def allocations(self) -> int:
        return int(_parking().parked_memory()[POOL].allocations)


class _Prepared(_Interlace):
    """Page-locks the host memory before the first park."""

    def prepare(self) -> None:
        _parking().prepare_park(POOL, wait=True)


class _ToGpu(_Interlace):
    """Moves the contents to the memory of another GPU."""

    def park(self) -> None:
        _parking().park(POOL, f"gpu:{OTHER_GPU}")


class _Saver:
    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._saver = importlib.import_module("torch_memory_saver").torch_memory_saver
        self._saver.hook_mode = "torch"
        self._count = 0

    @contextmanager
    def pool(self) -> Iterator[None]:
        with self._saver.region(tag=POOL, enable_cpu_backup=True):
            yield

    def empty(self, size: int) -> Any:
        self._count += 1
        return self._torch.empty(size // 8, dtype=self._torch.int64, device=f"cuda:{GPU}")

    def park(self) -> None:
        self._saver.pause(POOL)

    def resume(self) -> None:
        self._saver.resume(POOL)

    def allocations(self) -> int:
        return self._count


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    """The driver's struct CUmemAllocationProp."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("reserved", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    """The driver's struct CUmemAccessDesc."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class _OnAddress:
    """Memory at an address, as an object that torch.as_tensor accepts."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size // 8,),
            "typestr": "<i8",
            "data": (address, False),
            "version": 3,
        }


class _Cumem:
    """A replica of vLLM's CuMemAllocator that sleeps and wakes as the original does.

    To sleep, the replica makes a page-locked tensor for each allocation, copies with a call that
    waits, unmaps the memory and releases it. To wake up, the replica makes and maps the memory
    again, and copies the contents back with the same call.
    """

    GRANULE = 2 * MIB
    # Pairs (limit, bytes). Tensors smaller than the limit share segments of this many bytes, as in
    # PyTorch's caching allocator. The first pair whose limit exceeds a tensor's size applies.
    TOGETHER = ((MIB, 2 * MIB), (10 * MIB, 20 * MIB))
    ALIGNMENT = 512

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        torch.cuda.init()
        torch.empty(1, device=f"cuda:{GPU}")
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._place = _Properties(1, 0, _Location(1, GPU))
        self._segments: list[tuple[int, int]] = []
        self._open: dict[
            int, tuple[int, int]
        ] = {}  # maps the size of a segment to the next free address and the free bytes
        self._handles: dict[int, int] = {}
        self._backups: dict[int, Any] = {}

    def _call(self, name: str, *arguments: Any) -> None:
        if result := getattr(self._driver, name)(*arguments):
            raise RunFailure(f"{name} of the replica failed with error {result}")

    @contextmanager
    def pool(self) -> Iterator[None]:
        yield

    def empty(self, size: int) -> Any:
        address = self._place_for(size)
        made = self._torch.as_tensor(_OnAddress(address, size), device=f"cuda:{GPU}")
        assert made.data_ptr() == address
        return made

    def _place_for(self, size: int) -> int:
        segment = next((one for limit, one in self.TOGETHER if size < limit), None)
        if segment is None:
            return self._reserve(-(-size // self.GRANULE) * self.GRANULE)
        taken = -(-size // self.ALIGNMENT) * self.ALIGNMENT
        address, left = self._open.get(segment, (0, 0))
        if left < taken:
            address, left = self._reserve(segment), segment
        self._open[segment] = (address + taken, left - taken)
        return address

    def _reserve(self, size: int) -> int:
        address, zero = ctypes.c_uint64(), ctypes.c_uint64(0)
        whole, none = ctypes.c_size_t(size), ctypes.c_size_t(0)
        self._call("cuMemAddressReserve", ctypes.byref(address), whole, none, zero, zero)
        self._segments.append((address.value, size))
        self._map(address.value, size)
        return address.value

    def _map(self, address: int, size: int) -> None:
        handle = ctypes.c_uint64()
        at, whole, zero = ctypes.c_uint64(address), ctypes.c_size_t(size), ctypes.c_uint64(0)
        self._call("cuMemCreate", ctypes.byref(handle), whole, ctypes.byref(self._place), zero)
        self._call("cuMemMap", at, whole, ctypes.c_size_t(0), handle, zero)
        access = _Access(self._place.location, 3)
        self._call("cuMemSetAccess", at, whole, ctypes.byref(access), ctypes.c_size_t(1))
        self._handles[address] = handle.value

    def park(self) -> None:
        for address, size in self._segments:
            backup = self._torch.empty(size, dtype=self._torch.uint8, pin_memory=True)
            at, whole = ctypes.c_uint64(address), ctypes.c_size_t(size)
            self._call("cuMemcpyDtoH_v2", ctypes.c_void_p(backup.data_ptr()), at, whole)
            self._backups[address] = backup
            self._call("cuMemUnmap", at, whole)
            self._call("cuMemRelease", ctypes.c_uint64(self._handles.pop(address)))
        gc.collect()
        self._torch.cuda.empty_cache()

    def resume(self) -> None:
        for address, size in self._segments:
            self._map(address, size)
            backup = self._backups.pop(address)
            self._call(
                "cuMemcpyHtoD_v2",
                *(ctypes.c_uint64(address), ctypes.c_void_p(backup.data_ptr())),
                ctypes.c_size_t(size),
            )

    def allocations(self) -> int:
        return len(self._segments)


_HOW: dict[str, Any] = {
    OWN: _Interlace,
    PREPARED: _Prepared,
    TO_GPU: _ToGpu,
    CUMEM: _Cumem,
    SAVER: _Saver,
}


# --- the process of a method ----------------------------------------------------------------------


def _random(torch: Any, tensor: Any, seed: int) -> Any:
    generator = torch.Generator(device=f"cuda:{GPU}").manual_seed(seed)
    return tensor.random_(generator=generator)


def _link(torch: Any) -> tuple[float, float]:
    """Return the rate of one copy to the host and the rate of one copy to the GPU, in GB/s."""
    host = torch.empty(LINK_BYTES, dtype=torch.uint8, pin_memory=True)
    gpu = torch.empty(LINK_BYTES, dtype=torch.uint8, device=f"cuda:{GPU}")
    best = []
    for to, source in ((host, gpu), (gpu, host)):
        times = []
        for _ in range(LINK_REPEATS):
            torch.cuda.synchronize(GPU)
            began = time.perf_counter()
            to.copy_(source, non_blocking=True)
            torch.cuda.synchronize(GPU)
            times.append(time.perf_counter() - began)
        best.append(1e-9 * LINK_BYTES / min(times))
    return best[0], best[1]


def measure(method: str, most: int, repeats: int) -> dict[str, Any]:
    """Return the measurements of a method, and the rates of the link."""
    torch: Any = importlib.import_module("torch")
    how = _HOW[method](torch)
    of = sizes(most)
    with how.pool():
        tensors = [how.empty(size) for size in of]
    for seed, tensor in enumerate(tensors):
        _random(torch, tensor, seed)

    def timed(call: Any) -> float:
        torch.cuda.synchronize(GPU)
        began = time.perf_counter()
        call()
        torch.cuda.synchronize(GPU)
        return time.perf_counter() - began

    prepare_s = timed(how.prepare) if method == PREPARED else None
    before = torch.cuda.mem_get_info(GPU)[0]
    park_s = [timed(how.park)]
    freed = torch.cuda.mem_get_info(GPU)[0] - before
    resume_s = [timed(how.resume)]
    for _ in range(repeats):
        park_s.append(timed(how.park))
        resume_s.append(timed(how.resume))
    wrong = sum(
        not torch.equal(tensor, _random(torch, torch.empty_like(tensor), seed))
        for seed, tensor in enumerate(tensors)
    )
    total = sum(of)
    row = ParkRow(
        method=method,
        bytes=total,
        allocations=how.allocations(),
        first_park_s=park_s[0],
        first_resume_s=resume_s[0],
        park_s=park_s[1:],
        resume_s=resume_s[1:],
        first_park_gb_per_s=1e-9 * total / park_s[0],
        park_gb_per_s=1e-9 * total / statistics.median(park_s[1:]),
        resume_gb_per_s=1e-9 * total / statistics.median(resume_s[1:]),
        freed_bytes=freed,
        wrong=wrong,
        prepare_s=prepare_s,
    )
    return {
        "row": msgspec.to_builtins(row),
        "link": _link(torch),
        "gpu": f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(GPU)}",
        "cuda": torch.version.cuda,
    }


def _run_method(method: str, most: int, repeats: int, seconds: float | None) -> dict[str, Any]:
    words = [sys.executable, "-m", "interlace.study.park_bench", method, str(most), str(repeats)]
    try:
        ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise RunFailure(f"{method} took longer than the {seconds:.0f} s that were left") from None
    with suppress(ValueError, IndexError):
        found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
        return found
    said = [line for line in ended.stderr.splitlines() if line.strip()]
    raise RunFailure(
        f"{method} ended with code {ended.returncode}: "
        f"{said[-1] if said else 'it printed no reason'}"
    )


# --- the command ----------------------------------------------------------------------------------


def _versions(methods: list[str], left_out: dict[str, str]) -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    if SAVER in methods:
        try:
            found[SAVER] = version(SAVER)
        except PackageNotFoundError:
            left_out[SAVER] = "it is not installed"
            methods.remove(SAVER)
    return found


def run(most: int, methods: list[str], repeats: int, limit: int | None = None) -> ParkResults:
    """Measure the methods, each in a process of its own. All together may take `limit` seconds."""
    began = time.monotonic()
    if find_spec("torch") is None:
        raise UserError("bench park needs PyTorch; install torch")
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise UserError("bench park needs a GPU, and PyTorch finds none")
    left_out: dict[str, str] = {}
    wanted = list(methods)
    versions = _versions(wanted, left_out)
    if TO_GPU in wanted and torch.cuda.device_count() < 2:
        left_out[TO_GPU] = "PyTorch finds one GPU"
        wanted.remove(TO_GPU)
    found = {}

    def run_process(method: str, cycles: int) -> dict[str, Any]:
        left = None if limit is None else max(limit - (time.monotonic() - began), 1)
        return _run_method(method, most, cycles, left)

    with progress("park", len(wanted)) as tick:
        for method in wanted:
            try:
                found[method] = run_process(method, repeats)
            except RunFailure as failure:
                if method == OWN:
                    raise
                left_out[method] = str(failure)
            if method == OWN:
                try:
                    again = run_process(method, 1)["row"]["first_park_s"]
                    found[method]["row"]["second_process_first_park_s"] = again
                except RunFailure as failure:
                    left_out[f"{OWN} in a second process"] = str(failure)
            tick()
    if not found:
        raise RunFailure("; ".join(f"{name}: {why}" for name, why in left_out.items()))
    first = next(iter(found.values()))
    of = sizes(most)
    driver = DRIVER_VERSION.read_text("ascii").strip() if DRIVER_VERSION.exists() else None
    return ParkResults(
        format=BENCHMARK_FORMAT,
        benchmark="park",
        **provenance(),
        driver=driver,
        machine={"node": "cuda", "name": first["gpu"], "cuda": first["cuda"]},
        torch=str(torch.__version__),
        versions=versions,
        left_out=left_out,
        bytes=sum(of),
        tensors=len(of),
        repeats=repeats,
        link_to_host_gb_per_s=first["link"][0],
        link_to_gpu_gb_per_s=first["link"][1],
        rows=[msgspec.convert(one["row"], ParkRow) for one in found.values()],
    )


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
