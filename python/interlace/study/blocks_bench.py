"""Measures batches of blocks between page-locked memory and a GPU, and compares copy methods.

The blocks are random rows of two arrays. A measured time begins with the call, on an idle stream,
and ends when all bytes have arrived. The methods take turns. The bytes of the first batch of each
method are verified.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from interlace.base.errors import UserError
from interlace.base.progress import progress
from interlace.base.turns import turn
from interlace.model.mechanisms import MIB, size_text
from interlace.model.results import BENCHMARK_FORMAT, BenchmarkFile, provenance

OWN, DRIVER, LOOP, TORCH = "interlace", "cuMemcpyBatchAsync", "cuMemcpyAsync", "torch"
METHODS = (OWN, DRIVER, LOOP, TORCH)
DIRECTIONS = ("to-gpu", "to-host")
POOL = 1024 * MIB  # bytes of each array
MOST_BATCH = 256 * MIB
IN_A_ROW = 8  # the number of batches that run without waits between them, for `in_a_row_us`
MOST_LOOP = 4096  # plain copies are not measured with more blocks, because such copies take long
WORK_SHAPE = 4096  # rows and columns of the matrices that a kernel multiplies during a batch
WORK_TIMES = 400


class BlocksRow(msgspec.Struct):
    """The measurements of one method, for one block size, number of blocks and direction."""

    method: str
    direction: str
    block_bytes: int
    blocks: int
    way: str | None  # the way that `interlace` chose; None for other methods
    time_us: list[float]
    median_us: float
    best_us: float
    host_ns: float  # the median of the host's time in the call, divided by the number of blocks
    gb_per_s: float  # the rate that follows from the median time
    # the time per batch when eight batches run without waits between them
    in_a_row_us: float | None
    # this method's time divided by the time of the fastest other library, minus 1
    slower: float | None
    wrong: int  # the number of blocks with wrong bytes


class BesideRow(msgspec.Struct):
    """The slowdown of a kernel while batches of blocks are copied."""

    kernel: str  # compute (multiplies matrices) or memory (reads and writes the GPU's memory)
    direction: str
    block_bytes: int
    method: str
    most_thread_blocks: int  # the limit on the thread blocks of a batch; 0 means no limit
    alone_ms: float
    beside_ms: float
    lost: float  # the fraction of its rate that the kernel loses
    gb_per_s: float  # the rate of the batches


class BlocksResults(BenchmarkFile):
    """The content of a results file of `interlace bench blocks`."""

    torch: str
    link_gb_per_s: dict[str, float]  # maps a direction to the rate of one copy of 256 MiB
    repeats: int
    rows: list[BlocksRow]
    beside: list[BesideRow]


class Machine:
    """The GPU, its memory and the driver's functions for copies."""

    def __init__(self) -> None:
        import numpy as np

        from interlace.runtime.blocks import copy_blocks

        self.copy_blocks = copy_blocks
        try:
            self.torch: Any = importlib.import_module("torch")
        except ImportError:
            raise UserError(
                "bench blocks needs PyTorch, because it also measures PyTorch's copies; install "
                "torch"
            ) from None
        if not self.torch.cuda.is_available():
            raise UserError("bench blocks needs a GPU, and PyTorch finds none")
        self.device = self.torch.device("cuda:0")
        self.stream = self.torch.cuda.Stream(self.device)
        byte = self.torch.uint8
        self.host = self.torch.empty(POOL, dtype=byte, pin_memory=True)
        self.gpu = self.torch.empty(POOL, dtype=byte, device=self.device)
        self.stage = self.torch.empty(MOST_BATCH, dtype=byte, pin_memory=True)
        self.gpu_stage = self.torch.empty(MOST_BATCH, dtype=byte, device=self.device)
        noise = np.random.default_rng(1).integers(0, 256, 1 << 20, np.uint8)
        self.host.numpy().reshape(-1, noise.size)[...] = noise
        self.host.numpy()[::4096] += np.arange(POOL // 4096, dtype=np.uint32).astype(np.uint8)
        self.gpu.copy_(self.host)
        self.gpu = self.gpu.flip(0)
        self.driver: Any = ctypes.CDLL("libcuda.so.1")
        # In CUDA 13, the function no longer has the parameter for the index of a failed copy.
        self.newer = hasattr(self.driver, "cuMemcpyBatchAsync_v2")
        self.batches = self.newer or hasattr(self.driver, "cuMemcpyBatchAsync")

    def wait(self) -> None:
        self.torch.cuda.synchronize(self.device)

    def description(self) -> dict[str, Any]:
        properties = self.torch.cuda.get_device_properties(self.device)
        gpus = self.torch.cuda.device_count()  # all GPUs, because other GPUs can relay
        return {
            "node": "cuda",
            "name": f"{gpus} x {properties.name}",
            "gpus": gpus,
            "multiprocessors": properties.multi_processor_count,
        }


class _Attributes(ctypes.Structure):
    """The driver's struct CUmemcpyAttributes. These values make the driver read in stream order."""

    _fields_ = (("order", ctypes.c_int), ("hints", ctypes.c_int * 4), ("flags", ctypes.c_uint))


class Batch:
    """The chosen rows of both arrays, and a function for each method to copy the rows."""

    def __init__(self, on: Machine, direction: str, size: int, count: int, seed: int) -> None:
        import numpy as np

        chance = np.random.default_rng(seed)
        self.on, self.direction, self.size, self.count = on, direction, size, count
        rows = POOL // size
        self.host_rows = chance.permutation(rows)[:count].astype(np.int64)
        self.gpu_rows = chance.permutation(rows)[:count].astype(np.int64)
        host, gpu = on.host.view(rows, size), on.gpu.view(rows, size)
        up = direction == "to-gpu"
        self.to, self.source = (gpu, host) if up else (host, gpu)
        self.to_rows, self.source_rows = (
            (self.gpu_rows, self.host_rows) if up else (self.host_rows, self.gpu_rows)
        )
        self.addresses = [
            (int(array.data_ptr()) + size * picked).astype(np.uint64)
            for array, picked in ((self.to, self.to_rows), (self.source, self.source_rows))
        ]
        self.sizes = np.full(count, size, np.uint64)
        word = on.torch.int64
        self.words = [one.view(word) for one in (host, gpu)]
        self.gpu_index = on.torch.from_numpy(self.gpu_rows).to(on.device)
        self.host_index = on.torch.from_numpy(self.host_rows)
        self.stages = [
            one[: size * count].view(word).view(count, -1) for one in (on.stage, on.gpu_stage)
        ]

    def interlace(self, **options: Any) -> str:
        return self.on.copy_blocks(
            *self.addresses, sizes=self.size, stream=self.on.stream, **options
        )

    def loop(self) -> None:
        self.interlace(only="copies")

    def driver_batch(self) -> None:
        how, first, failed = _Attributes(order=1), ctypes.c_size_t(0), ctypes.c_size_t(0)
        pointers = [ctypes.c_void_p(one.ctypes.data) for one in (*self.addresses, self.sizes)]
        last = [] if self.on.newer else [ctypes.byref(failed)]
        name = "cuMemcpyBatchAsync_v2" if self.on.newer else "cuMemcpyBatchAsync"
        result = getattr(self.on.driver, name)(
            *pointers,
            ctypes.c_size_t(self.count),
            *(ctypes.byref(how), ctypes.byref(first), ctypes.c_size_t(1), *last),
            ctypes.c_void_p(self.on.stream.cuda_stream),
        )
        if result != 0:
            raise UserError(f"cuMemcpyBatchAsync returned error {result}")

    def torch(self) -> None:
        """Gather the rows into one buffer, copy this buffer, and scatter it at the destination."""
        torch, (host, gpu), (stage, gpu_stage) = self.on.torch, self.words, self.stages
        with torch.cuda.stream(self.on.stream):
            if self.direction == "to-gpu":
                torch.index_select(host, 0, self.host_index, out=stage)
                gpu_stage.copy_(stage, non_blocking=True)
                gpu.index_copy_(0, self.gpu_index, gpu_stage)
            else:
                torch.index_select(gpu, 0, self.gpu_index, out=gpu_stage)
                stage.copy_(gpu_stage, non_blocking=True)
                self.on.stream.synchronize()
                host.index_copy_(0, self.host_index, stage)

    def methods(self) -> dict[str, Callable[[], Any]]:
        found: dict[str, Callable[[], Any]] = {OWN: self.interlace}
        if self.on.batches:
            found[DRIVER] = self.driver_batch
        if self.count <= MOST_LOOP:
            found[LOOP] = self.loop
        return {**found, TORCH: self.torch}

    def wrong(self, method: Callable[[], Any]) -> tuple[int, Any]:
        """Copy the blocks once. Return the number of wrong blocks and the method's result."""
        torch = self.on.torch
        up = self.direction == "to-gpu"
        to, source = reversed(self.words) if up else self.words
        indexes = (self.gpu_index, self.host_index) if up else (self.host_index, self.gpu_index)
        to.index_fill_(0, indexes[0], 0)
        self.on.wait()
        said = method()
        self.on.wait()
        found, wanted = (
            torch.index_select(array, 0, index).to(self.on.device)
            for array, index in zip((to, source), indexes, strict=True)
        )
        return int((found != wanted).any(dim=1).sum()), said


def _timed(on: Machine, method: Callable[[], Any], times: int = 1) -> tuple[float, float]:
    """Return the seconds until the calls return, and the seconds until all bytes have arrived."""
    on.wait()
    begin = time.perf_counter()
    for _ in range(times):
        method()
    called = time.perf_counter() - begin
    on.stream.synchronize()
    return called, time.perf_counter() - begin


def measure(batch: Batch, repeats: int) -> list[BlocksRow]:
    import numpy as np

    on, methods = batch.on, batch.methods()
    chance = np.random.default_rng(len(batch.addresses[0]) + batch.size)
    wrong = {name: batch.wrong(method) for name, method in methods.items()}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
    for _ in range(repeats):
        # Each round has another order of the methods, because PyTorch's threads keep the cores busy
        # for a while after PyTorch's turn.
        for name in chance.permutation(list(methods)).tolist():
            method = methods[name]
            # this call is not measured; it removes the previous method's data from the caches
            method()
            times[name].append(_timed(on, method))
    total = batch.size * batch.count
    rows = []
    for name, taken in times.items():
        median = statistics.median(whole for _, whole in taken)
        row = None
        if name == OWN:
            row = statistics.median(_timed(on, methods[name], IN_A_ROW)[1] for _ in range(3))
        rows.append(
            BlocksRow(
                method=name,
                direction=batch.direction,
                block_bytes=batch.size,
                blocks=batch.count,
                way=wrong[name][1] if name == OWN else None,
                time_us=[round(1e6 * whole, 3) for _, whole in taken],
                median_us=1e6 * median,
                best_us=1e6 * min(whole for _, whole in taken),
                host_ns=1e9 * statistics.median(called for called, _ in taken) / batch.count,
                gb_per_s=1e-9 * total / median,
                in_a_row_us=None if row is None else 1e6 * row / IN_A_ROW,
                slower=None,
                wrong=wrong[name][0],
            )
        )
    fastest = min(row.median_us for row in rows if row.method != OWN)
    rows[0].slower = rows[0].median_us / fastest - 1
    return rows


def _beside(
    on: Machine, batch: Batch, method: str, bound: int, kernel: str, work: Callable[[], None]
) -> BesideRow:
    """Time a kernel alone, and again while batches run back to back on another stream."""
    torch = on.torch
    other = torch.cuda.Stream(on.device)

    def event(stream: Any) -> Any:
        made = torch.cuda.Event(enable_timing=True)
        made.record(stream)
        return made

    def start() -> tuple[Any, Any]:
        begin = event(other)
        with torch.cuda.stream(other):
            for _ in range(WORK_TIMES):
                work()
        return begin, event(other)

    def copy() -> None:
        if method == DRIVER:
            batch.driver_batch()
        else:
            batch.interlace(most_thread_blocks=bound)

    def alone() -> float:
        begin, end = start()
        end.synchronize()
        return float(begin.elapsed_time(end))

    alone()
    copy()
    on.wait()
    alone_ms = statistics.median(alone() for _ in range(3))
    begin, end = start()
    copies = [event(on.stream)]
    while len(copies) < 3 or not end.query():
        copy()
        copies.append(event(on.stream))
        copies[-2].synchronize()  # after this, one batch runs and the next batch waits
    on.wait()
    beside_ms = float(begin.elapsed_time(end))
    seconds = 1e-3 * float(copies[0].elapsed_time(copies[-1]))
    return BesideRow(
        kernel=kernel,
        direction=batch.direction,
        block_bytes=batch.size,
        method=method,
        most_thread_blocks=bound,
        alone_ms=alone_ms,
        beside_ms=beside_ms,
        lost=1 - alone_ms / beside_ms,
        gb_per_s=1e-9 * (len(copies) - 1) * batch.size * batch.count / seconds,
    )


def measure_beside(on: Machine, size: int, bounds: Sequence[int]) -> list[BesideRow]:
    """Measure how much batches slow two kernels down: one computes, and one moves memory."""
    torch = on.torch
    left, right = (
        torch.randn(WORK_SHAPE, WORK_SHAPE, device=on.device, dtype=torch.bfloat16)
        for _ in range(2)
    )
    product = torch.empty_like(left)
    words = on.gpu_stage.view(torch.int64)
    source, target = words[: words.numel() // 2], words[words.numel() // 2 :]
    works: dict[str, Callable[[], None]] = {
        "compute": lambda: torch.matmul(left, right, out=product),
        "memory": lambda: torch.bitwise_not(source, out=target),
    }
    rows = []
    for direction in DIRECTIONS:
        batch = Batch(on, direction, size, min(16384, MOST_BATCH // size // 4), 3)
        for kernel, work in works.items():
            if on.batches:
                rows.append(_beside(on, batch, DRIVER, 0, kernel, work))
            rows += [_beside(on, batch, OWN, bound, kernel, work) for bound in bounds]
    return rows


def driver_version() -> str | None:
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"\s(\d+\.\d+(\.\d+)?)\s", text)
    return found[1] if found else None


def run(
    sizes: Sequence[int], counts: Sequence[int], directions: Sequence[str], repeats: int,
    beside: Sequence[int],
) -> BlocksResults:  # fmt: skip
    """Measure every method with all batches of at most 256 MiB."""
    with turn():
        on = Machine()
        wanted = [
            (direction, size, count)
            for size in sizes
            for count in counts
            for direction in directions
            if size * count <= MOST_BATCH
        ]
        if not wanted:
            raise UserError(
                f"every batch of these sizes is larger than {size_text(MOST_BATCH)}; give smaller "
                "blocks or fewer blocks"
            )
        link = {}
        for direction in DIRECTIONS:
            one = (on.gpu, on.host) if direction == "to-gpu" else (on.host, on.gpu)
            to, source = (array[:MOST_BATCH] for array in one)

            def copy(to: Any = to, source: Any = source) -> None:
                with on.torch.cuda.stream(on.stream):
                    to.copy_(source, non_blocking=True)

            link[direction] = 1e-9 * MOST_BATCH / min(_timed(on, copy)[1] for _ in range(5))
        rows: list[BlocksRow] = []
        with progress("batches of blocks", len(wanted)) as tick:
            for seed, (direction, size, count) in enumerate(wanted):
                rows += measure(Batch(on, direction, size, count, seed), repeats)
                tick()
        lost = measure_beside(on, 4096, beside) if beside else []
    return BlocksResults(
        format=BENCHMARK_FORMAT,
        benchmark="blocks",
        **provenance(),
        driver=driver_version(),
        machine=on.description(),
        torch=str(on.torch.__version__),
        link_gb_per_s=link,
        repeats=repeats,
        rows=rows,
        beside=lost,
    )
