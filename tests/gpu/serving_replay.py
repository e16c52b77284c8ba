"""Replay the calls that move key-value caches in vLLM and SGLang, with and without `interlace run`.

python tests/gpu/serving_replay.py [--json FILE]

The script needs one GPU, PyTorch, numpy and cuda-bindings. It replays the calls in the sources of
vLLM (SimpleCPUOffloadConnector, OffloadingConnector) and SGLang (HiCache, direct). Each call copies
a batch of scattered blocks. vLLM calls cuMemcpyBatchAsync in the form of CUDA 12.8, which it finds
through cuda.bindings. SGLang calls the runtime's cudaMemcpyBatchAsync. The model's work comes
before and after each batch, so a batch that runs out of order gives wrong bytes.

The exit code is 1 if a program fails, if bytes differ, or if no batch was taken over.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

KIB = 1 << 10
MIB = 1 << 20
CACHE = 256 * MIB  # bytes of each cache
LAYERS = 16
SIZES = (4 * KIB, 16 * KIB, 64 * KIB)
MOST = 16384  # the largest number of blocks in a batch
REPEATS = 6
STREAM, ANY = 1, 3  # values of CUmemcpySrcAccessOrder
TARGETS = {  # the least gain that is wanted, for each direction and block size
    ("to_gpu", 4 * KIB): 8.0,
    ("to_gpu", 16 * KIB): 5.0,
    ("to_gpu", 64 * KIB): 1.2,
    ("to_host", 4 * KIB): 2.5,
    ("to_host", 16 * KIB): 2.5,
    ("to_host", 64 * KIB): 1.2,
}


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint), ("id", ctypes.c_int)]


class Attributes(ctypes.Structure):
    _fields_ = [
        ("order", ctypes.c_uint),
        ("source", Location),
        ("destination", Location),
        ("flags", ctypes.c_uint),
    ]


Batch = Callable[[Any, Any, Any, int, int], None]  # to, from, sizes, order, stream


def driver_batch() -> Batch:
    """Return a function that calls cuMemcpyBatchAsync.

    Like vLLM, this module gets the driver's function from cuGetProcAddress.
    """
    from cuda.bindings import driver

    error, address, *_ = driver.cuGetProcAddress(b"cuMemcpyBatchAsync", 12080, 0)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"cuGetProcAddress: {error}")
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    function = ctypes.CFUNCTYPE(
        ctypes.c_uint, pointer, pointer, pointer, size, pointer, pointer, size, pointer, pointer
    )(address)
    first, failed = ctypes.c_size_t(0), ctypes.c_size_t(0)

    def call(to: Any, source: Any, sizes: Any, order: int, stream: int) -> None:
        attributes = Attributes(order=order)
        code = function(
            to.ctypes.data,
            source.ctypes.data,
            sizes.ctypes.data,
            len(to),
            ctypes.addressof(attributes),
            ctypes.addressof(first),
            1,
            ctypes.addressof(failed),
            stream,
        )
        if code != 0:
            raise RuntimeError(f"cuMemcpyBatchAsync: {code}, block {failed.value}")

    return call


def runtime_batch() -> Batch | None:
    """Return cudaMemcpyBatchAsync of CUDA 13's runtime, as SGLang calls it. Return None if the
    runtime lacks it.
    """
    try:
        function = ctypes.CDLL("libcudart.so.13").cudaMemcpyBatchAsync
    except (OSError, AttributeError):
        return None
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    function.argtypes = [pointer, pointer, pointer, size, pointer, pointer, size, pointer]
    first = ctypes.c_size_t(0)

    def call(to: Any, source: Any, sizes: Any, order: int, stream: int) -> None:
        attributes = Attributes(order=order)
        code = function(
            to.ctypes.data,
            source.ctypes.data,
            sizes.ctypes.data,
            len(to),
            ctypes.addressof(attributes),
            ctypes.addressof(first),
            1,
            stream,
        )
        if code != 0:
            raise RuntimeError(f"cudaMemcpyBatchAsync: {code}")

    return call


class Caches:
    """A key-value cache on the GPU and one in page-locked host memory. Each has a tensor for each
    layer.
    """

    def __init__(self, torch: Any, numpy: Any) -> None:
        self.torch, self.numpy = torch, numpy
        each = CACHE // LAYERS
        self.gpu = [torch.empty(each, dtype=torch.int8, device="cuda") for _ in range(LAYERS)]
        # vLLM registers its tensors. PyTorch's allocator would round up the sizes.
        self.host = [torch.empty(each, dtype=torch.int8) for _ in range(LAYERS)]
        for tensor in self.host:
            code = torch.cuda.cudart().cudaHostRegister(tensor.data_ptr(), tensor.nbytes, 0)
            if code.value != 0:
                raise RuntimeError(f"cudaHostRegister: {code}")
        self.random = numpy.random.default_rng(7)
        self.fill()

    def fill(self) -> None:
        for at, tensor in enumerate(self.host):
            words = tensor.view(self.torch.int64)
            words.copy_(self.torch.arange(words.numel()) * (2 * at + 1) + 13 * at)
        for at, tensor in enumerate(self.gpu):
            words = tensor.view(self.torch.int64)
            self.torch.arange(words.numel(), out=words)
            words.mul_(3 * at + 7)
        self.torch.cuda.synchronize()

    def lists(self, size: int, to_gpu: bool) -> tuple[Any, Any, Any]:
        """Return blocks at random places of all layers. No two blocks have the same destination."""
        numpy = self.numpy
        places = CACHE // LAYERS // size
        number = min(MOST // LAYERS, places // 2)
        here = [self.random.permutation(places)[:number] for _ in range(2)]
        bases = [
            numpy.array([tensor.data_ptr() for tensor in side], dtype=numpy.uint64)
            for side in (self.gpu, self.host)
        ]
        gpu, host = (
            (base[:, None] + (ids.astype(numpy.uint64) * numpy.uint64(size))[None, :]).ravel()
            for base, ids in zip(bases, here, strict=True)
        )
        sizes = numpy.full(len(gpu), size, dtype=numpy.uint64)
        return (gpu, host, sizes) if to_gpu else (host, gpu, sizes)

    def checksum(self) -> int:
        self.torch.cuda.synchronize()
        found = 0
        for side in (self.gpu, self.host):
            for tensor in side:
                found = zlib.crc32(tensor.cpu().numpy(), found)
        return found


# --- patterns -------------------------------------------------------------------------------------


def simple_offload(caches: Caches, batch: Batch, rounds: int) -> None:
    """Act as vLLM's SimpleCPUOffloadConnector: a separate thread copies, with one stream for each
    direction.
    """
    torch = caches.torch
    load, store = torch.cuda.Stream(), torch.cuda.Stream()
    work: queue.SimpleQueue[Any] = queue.SimpleQueue()
    failed: list[BaseException] = []

    def loop() -> None:
        torch.cuda.set_device(0)
        while (item := work.get()) is not None:
            lists, order, stream, wait, done, enqueued = item
            try:
                stream.wait_event(wait)
                batch(*lists, order, stream.cuda_stream)
                done.record(stream)
            except BaseException as error:
                failed.append(error)
            enqueued.set()

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    for index in range(rounds):
        size = SIZES[index % len(SIZES)]
        for to_gpu, order, stream in ((False, STREAM, store), (True, ANY, load)):
            for tensor in caches.gpu:  # the work of the model on the cache
                tensor.view(torch.int64).add_(index + 1)
            computed, done = torch.cuda.Event(), torch.cuda.Event()
            computed.record()
            enqueued = threading.Event()
            work.put((caches.lists(size, to_gpu), order, stream, computed, done, enqueued))
            if not enqueued.wait(30):
                raise RuntimeError("the thread that copies has stopped")
            done.synchronize()
    work.put(None)
    thread.join(30)
    if failed:
        raise failed[0]


def offloading_worker(caches: Caches, batch: Batch, rounds: int) -> None:
    """Act as vLLM's OffloadingConnector: each transfer has a stream and waits for the previous
    transfer.
    """
    torch = caches.torch
    streams: list[Any] = []
    kept: list[Any] = []
    last = None
    for index in range(rounds):
        to_gpu = index % 2 == 1
        stream = streams.pop() if len(streams) > 3 else torch.cuda.Stream()
        streams.insert(0, stream)
        lists = caches.lists(SIZES[index % len(SIZES)], to_gpu)
        if not to_gpu:
            for tensor in caches.gpu:
                tensor.view(torch.int64).mul_(5)
            stream.wait_stream(torch.cuda.current_stream())
        if last is not None:
            stream.wait_event(last)
            if to_gpu:  # load only blocks that have already been stored
                last.synchronize()
        with torch.cuda.stream(stream):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record(stream)
            batch(*lists, ANY if to_gpu else STREAM, stream.cuda_stream)
            end.record(stream)
        last = end
        kept.append(end)
        torch.cuda.current_stream().wait_event(end)
    for event in kept:
        event.synchronize()


def hicache(caches: Caches, batch: Batch, rounds: int) -> None:
    """Act as SGLang's HiCache, direct: copy layer by layer to the GPU, and all layers together to
    the host.
    """
    torch = caches.torch
    load, write = torch.cuda.Stream(), torch.cuda.Stream()
    for index in range(rounds):
        size = SIZES[index % len(SIZES)]
        to, source, sizes = caches.lists(size, to_gpu=False)
        write.wait_stream(torch.cuda.current_stream())
        batch(to, source, sizes, STREAM, write.cuda_stream)
        write.synchronize()
        to, source, sizes = caches.lists(size, to_gpu=True)
        each = len(to) // LAYERS
        load.wait_stream(torch.cuda.current_stream())
        for layer in range(LAYERS):
            part = slice(layer * each, (layer + 1) * each)
            batch(
                to[part].copy(), source[part].copy(), sizes[part].copy(), STREAM, load.cuda_stream
            )
            ready = torch.cuda.Event()
            ready.record(load)
            torch.cuda.current_stream().wait_event(ready)
            # The work of a layer waits for the blocks of the layer.
            caches.gpu[layer].view(torch.int64).add_(index)
        torch.cuda.current_stream().synchronize()


# --- what is timed --------------------------------------------------------------------------------


def rates(caches: Caches, batch: Batch) -> list[dict[str, Any]]:
    """Measure batches of each size and direction, from the call until the stream has ended."""
    stream = caches.torch.cuda.Stream()
    found = []
    for to_gpu in (True, False):
        for size in SIZES:
            lists = caches.lists(size, to_gpu)
            calls, wholes = [], []
            for _ in range(REPEATS + 1):
                begin = time.perf_counter()
                batch(*lists, ANY if to_gpu else STREAM, stream.cuda_stream)
                called = time.perf_counter()
                stream.synchronize()
                calls.append(called - begin)
                wholes.append(time.perf_counter() - begin)
            blocks = len(lists[0])
            took = statistics.median(wholes[1:])
            found.append(
                {
                    "direction": "to_gpu" if to_gpu else "to_host",
                    "block_bytes": size,
                    "blocks": blocks,
                    "seconds": took,
                    "gb_per_s": blocks * size / took / 1e9,
                    "host_ns_per_block": statistics.median(calls[1:]) / blocks * 1e9,
                }
            )
    return found


def beside(caches: Caches, batch: Batch) -> dict[str, float]:
    """Measure the time of matrix products, alone and during batches of 16 KiB blocks."""
    torch = caches.torch
    side = 8192
    one = torch.ones(side, side, dtype=torch.bfloat16, device="cuda")
    out = torch.empty_like(one)
    compute, stream = torch.cuda.Stream(), torch.cuda.Stream()
    lists = caches.lists(16 * KIB, to_gpu=True)

    def run(batches: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        with torch.cuda.stream(compute):
            begin.record(compute)
            for _ in range(30):
                torch.mm(one, one, out=out)
            end.record(compute)
        for _ in range(batches):
            batch(*lists, ANY, stream.cuda_stream)
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    run(0)
    alone = min(run(0) for _ in range(3))
    # Enqueues batches as long as the products run.
    begin = time.perf_counter()
    batch(*lists, ANY, stream.cuda_stream)
    stream.synchronize()
    batches = max(1, int(alone / (time.perf_counter() - begin)))
    with_batches = statistics.median(run(batches) for _ in range(3))
    return {"alone_s": alone, "beside_s": with_batches, "batches": batches}


def work() -> int:
    begin = time.monotonic()

    def say(what: str) -> None:
        print(f"  {time.monotonic() - begin:5.1f} s: {what}", file=sys.stderr, flush=True)

    import numpy
    import torch

    caches = Caches(torch, numpy)
    batch = driver_batch()
    of_runtime = runtime_batch()
    say("caches and functions are ready")
    sums = {}
    for pattern, call in (
        (simple_offload, batch),
        (offloading_worker, batch),
        (hicache, of_runtime or batch),
    ):
        caches.fill()
        pattern(caches, call, 6)
        sums[pattern.__name__] = caches.checksum()
        say(f"{pattern.__name__}: {sums[pattern.__name__]}")
    found = {
        "gpu": torch.cuda.get_device_name(0),
        "runtime_batch": of_runtime is not None,
        "checksums": sums,
        "rates": rates(caches, batch),
        "beside": beside(caches, batch),
    }
    say("rates and products")
    print(json.dumps(found), flush=True)
    return 0


# --- both runs ------------------------------------------------------------------------------------


def run(words: list[str], *, preloaded: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the last line of a program, and what `interlace run` counted."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "counted.json"
        interlace = [sys.executable, "-m", "interlace", "run", "--json", str(file), "--"]
        ended = subprocess.run(
            [*(interlace if preloaded else []), *words],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            timeout=100,
        )
        if ended.returncode != 0:
            raise RuntimeError(f"{' '.join(words)} ends with {ended.returncode}")
        counted = json.loads(file.read_text()) if preloaded else {}
        return json.loads(ended.stdout.splitlines()[-1]), counted


def driver_version() -> str | None:
    """Return the NVIDIA driver's version, or None if nvidia-smi does not print it."""
    words = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        ended = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return ended.stdout.split()[0]


def cost_of_a_call() -> dict[str, float] | None:
    """Return how long a copy of 64 bytes keeps the host busy in ns, without and with the library,
    in a C program.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    source = Path(__file__).with_name("preload_cost.c")
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "cost")
        subprocess.run([compiler, "-O2", "-o", program, str(source), "-ldl"], check=True)
        # The two programs alternate, because the machine may have other work. The script takes the
        # best time of each program.
        found: dict[bool, list[float]] = {False: [], True: []}
        for preloaded in (False, True) * 3:
            found[preloaded].append(run([program], preloaded=preloaded)[0]["ns"])
    return {"as_it_is_ns": min(found[False]), "run_ns": min(found[True])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="file for the measurements")
    asked = parser.parse_args()
    if asked.work:
        return work()

    own = [sys.executable, str(Path(__file__).resolve()), "--work"]
    plain, _ = run(own, preloaded=False)
    print(f"as it is: {json.dumps(plain)}", flush=True)
    taken, counted = run(own, preloaded=True)
    same = plain["checksums"] == taken["checksums"]
    print(f"run: {json.dumps(taken)}", flush=True)
    print(f"checksums {'are the same' if same else 'DIFFER'}: {taken['checksums']}")
    print(f"{counted['batches']} batches were taken over")
    rows = []
    print("direction  block KiB  blocks  as it is GB/s  run GB/s   gain  wanted  host ns a block")
    for one, other in zip(plain["rates"], taken["rates"], strict=True):
        gain = other["gb_per_s"] / one["gb_per_s"]
        wanted = TARGETS[one["direction"], one["block_bytes"]]
        print(
            f"{one['direction']:9}  {one['block_bytes'] // KIB:9}  {one['blocks']:6}  "
            f"{one['gb_per_s']:13.2f}  {other['gb_per_s']:8.2f}  {gain:5.2f}  {wanted:6.1f}  "
            f"{one['host_ns_per_block']:.0f} -> {other['host_ns_per_block']:.0f}"
        )
        rows.append({"as_it_is": one, "run": other, "gain": gain, "wanted_gain": wanted})
    for name, found in (("as it is", plain), ("run", taken)):
        both = found["beside"]
        print(
            f"products of matrices {name}: {both['alone_s'] * 1e3:.1f} ms alone, "
            f"{both['beside_s'] * 1e3:.1f} ms beside {both['batches']} batches"
        )
    sys.stdout.flush()
    cost = cost_of_a_call()
    if cost is not None:
        print(
            f"a copy of 64 bytes takes the host {cost['as_it_is_ns']:.1f} ns, "
            f"{cost['run_ns']:.1f} ns under interlace run"
        )
    if asked.json is not None:
        from interlace.model.results import provenance

        result = {
            "format": 1,
            **provenance(),
            "command": "python tests/gpu/serving_replay.py",
            "gpu": plain["gpu"],
            "driver": driver_version(),
            "checksums_are_the_same": same,
            "batches": counted["batches"],
            "copies": counted["copies"],
            "runtime_batch": taken["runtime_batch"],
            "rates": rows,
            "beside": {"as_it_is": plain["beside"], "run": taken["beside"]},
            "cost_of_a_call": cost,
        }
        asked.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if same and counted["batches"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
