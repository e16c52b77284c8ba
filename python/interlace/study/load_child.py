"""A process that measures one loader. `interlace bench load` sends requests to this process.

    python -m interlace.study.load_child '{"method": "interlace", "file": ..., ...}'

The process imports the loader, makes a context on the GPU if the loader needs a context, and writes
"ready". Each line of standard input is a request in JSON. For each request, the process loads the
file once, and writes its measurements as one line of JSON.
"""

from __future__ import annotations

import gc
import importlib
import json
import mmap
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from interlace.study import load_model
from interlace.study.load_methods import BY_NAME, LIMITS, OWN_METHODS, Arrived, Asked, Method

PAGE = 4096
SETTLE_S = 0.2  # after a process frees its memory, the GPU is busy for up to this many seconds
SAMPLE_S = 0.005
SLACK = 1 << 30  # the bytes of reusable memory beyond the size of the tensors


class _Child:
    def __init__(self, given: dict[str, Any]) -> None:
        ring = given["ring"]
        self.devices = given["device"].split(",")
        self.files = tuple(Path(file) for file in given["files"])
        self.asked = Asked(
            self.files[0], self.devices[0], given["framework"], given["threads"],
            None if ring is None else tuple(ring),
        )  # fmt: skip
        self.method = BY_NAME[given["method"]]
        self.data = Path(given["bytes"])
        self.shapes = load_model.shapes(given["most"])[0]
        self.size = load_model.bytes_of(self.shapes)
        self.gpu = "cpu" not in self.devices
        self.cores = sorted(os.sched_getaffinity(0))
        self.framework: Any = importlib.import_module(self.asked.framework)
        importlib.import_module(self.method.module)
        if self.method.name in LIMITS:
            self.gpu = False
        if self.gpu and given["context"]:
            self._empty_each(1)
            self._synchronize()
        self.idle = _status(
            "VmRSS"
        )  # a loader's memory use includes the memory that it keeps after its first load

    def _empty_each(self, size: int) -> list[Any]:
        """Return memory of `size` bytes on each device."""
        if self.asked.framework == "torch":
            byte = self.framework.uint8
            return [self.framework.empty(size, dtype=byte, device=d) for d in self.devices]
        return [self.framework.empty(size, dtype="uint8")]

    def _synchronize(self) -> None:
        if not self.gpu:
            return
        if self.asked.framework == "torch":
            for device in self.devices:
                self.framework.cuda.synchronize(device)
        else:
            self.framework.cuda.Device().synchronize()

    def _settle(self) -> None:
        """Wait until no work is in flight, and free the cached memory."""
        gc.collect()
        if not self.gpu:
            return
        if self.asked.framework == "torch":
            if not self.framework.cuda.is_initialized():
                return  # nothing to free; the measurement includes the first use of CUDA
            self._synchronize()
            self.framework.cuda.empty_cache()
        else:
            self._synchronize()
            self.framework.get_default_memory_pool().free_all_blocks()

    def load(self, told: dict[str, Any]) -> dict[str, Any]:
        """Load once. Return the requested figures: times, wrong tensors, and peaks of memory."""
        if told["cores"] is not None:
            os.sched_setaffinity(0, self.cores[: told["cores"]])
        self._settle()
        if self.gpu:
            time.sleep(SETTLE_S)
        if told["reused"]:
            for memory in self._empty_each(self.size // len(self.devices) + SLACK):
                memory.fill_(1)
            del memory
            self._synchronize()
        found: dict[str, Any] = {}
        first = None
        with _peaks(self) if told["memory"] else _nothing() as peaks:
            begin = time.perf_counter()
            for name, tensor in self._arriving():
                if first is None:
                    self._synchronize()
                    first = time.perf_counter() - begin
                found[name] = tensor
            if self.gpu:
                self._synchronize()
            else:
                self._touch(found)
            seconds = time.perf_counter() - begin
        wrong = self._wrong(found) if told["verify"] and self.method.name not in LIMITS else None
        result = {"s": seconds, "first_s": first, "wrong": wrong, **peaks}
        del found
        self._settle()
        return result

    def _arriving(self) -> Arrived:
        """Return the tensors as they arrive. With several devices, each file goes to one device.

        Interlace loads all files in one call. Other loaders load to one device per call, so each
        file has a thread that loads it. These threads share the number of reading threads.
        """
        if len(self.devices) == 1:
            return self.method.load(self.asked)
        if self.method.name in OWN_METHODS:
            named = load_model.shards(self.shapes, len(self.devices))
            places = {n: d for names, d in zip(named, self.devices, strict=True) for n in names}
            return self.method.load(self.asked._replace(files=self.files, places=places))
        threads = max(1, self.asked.cores // len(self.devices))
        shares = [
            self.asked._replace(file=file, device=device, threads=threads)
            for file, device in zip(self.files, self.devices, strict=True)
        ]
        return at_once(self.method, shares)

    def _touch(self, found: dict[str, Any]) -> None:
        """Touch every page of the tensors.

        safetensors maps the file, so a page is read only when it is touched.
        """
        for tensor in found.values():
            flat = tensor.reshape(-1)
            if not isinstance(flat, np.ndarray):
                flat = flat.view(self.framework.uint8).numpy()
            flat.view(np.uint8)[::PAGE].sum()

    def _wrong(self, found: dict[str, Any]) -> int:
        """Return the number of wrong tensors.

        A tensor is wrong if its name, its dtype or its bytes differ from what was written.
        """
        data: Any = np.memmap(self.data, np.uint8, "c")
        if self.asked.framework == "torch":
            here = self.framework.from_numpy(data)
            copies = {device: here.to(device) for device in self.devices}
        elif self.asked.framework == "cupy":
            data = self.framework.asarray(data)
        wrong = len(set(self.shapes) ^ set(found))
        for number, (name, shape) in enumerate(self.shapes.items()):
            if name not in found:
                continue
            begin = load_model.STEP * number
            if self.asked.framework == "torch":
                if str(found[name].device) not in copies:
                    wrong += 1
                    continue
                data = copies[str(found[name].device)]
            expected = data[begin : begin + load_model.size_of(shape)]
            wrong += not self._equal(found[name], shape, expected)
        return wrong

    def _equal(self, tensor: Any, shape: tuple[int, ...], expected: Any) -> bool:
        if tuple(tensor.shape) != shape:
            return False
        if self.asked.framework == "torch":
            if tensor.dtype != self.framework.bfloat16:
                return False
            flat = tensor.contiguous().view(-1).view(self.framework.uint8)
            return bool(self.framework.equal(flat, expected))
        if tensor.dtype != np.float16:
            return False
        return bool((tensor.reshape(-1).view("uint8") == expected).all())

    def drop(self) -> float:
        """Drop the file from the page cache.

        Return the fraction of the file's pages that stayed in the page cache.
        """
        left = []
        for file in self.files:
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                left.append(resident(descriptor))
            finally:
                os.close(descriptor)
        return max(left)


def at_once(method: Method, shares: list[Asked]) -> Arrived:
    """Yield the tensors of several loads that run at once. Each load has a thread of its own."""
    arrived: queue.SimpleQueue[tuple[str, Any] | Exception | None] = queue.SimpleQueue()

    def load(asked: Asked) -> None:
        try:
            for one in method.load(asked):
                arrived.put(one)
            arrived.put(None)
        except Exception as error:
            arrived.put(error)

    for asked in shares:
        threading.Thread(target=load, args=(asked,), daemon=True).start()
    left = len(shares)
    while left:
        one = arrived.get()
        if isinstance(one, Exception):
            raise one
        if one is None:
            left -= 1
        else:
            yield one


def resident(descriptor: int) -> float:
    """Return the fraction of a file's pages that are in memory."""
    import ctypes

    size = os.fstat(descriptor).st_size
    pages = (ctypes.c_ubyte * -(-size // PAGE))()
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(
        descriptor, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
    ) as mapped:
        begin = ctypes.c_char.from_buffer(mapped)
        done = libc.mincore(ctypes.byref(begin), ctypes.c_size_t(size), pages)
        del begin
    if done != 0:
        return 1.0
    return float((np.frombuffer(memoryview(pages), np.uint8) & 1).mean())


@contextmanager
def _nothing() -> Iterator[dict[str, Any]]:
    yield {}


@contextmanager
def _peaks(child: _Child) -> Iterator[dict[str, Any]]:
    """Yield a table. When the block ends, the table gets the peaks of memory beyond the tensors."""
    peaks: dict[str, Any] = {}
    ended = threading.Event()
    least = [free := _free(child)]

    def sample() -> None:
        while not ended.wait(SAMPLE_S):
            least[0] = min(least[0], _free(child))

    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets VmHWM
    thread = threading.Thread(target=sample)
    if child.gpu:
        thread.start()
    try:
        yield peaks
    finally:
        if child.gpu:
            ended.set()
            thread.join()
            peaks["device_peak"] = max(free - least[0] - child.size, 0)
        peaks["host_peak"] = max(
            _status("VmHWM") - child.idle - (0 if child.gpu else child.size), 0
        )


def _free(child: _Child) -> int:
    if not child.gpu:
        return 0
    if child.asked.framework == "torch":
        info = child.framework.cuda.mem_get_info
        return sum(int(info(device)[0]) for device in child.devices)
    return int(child.framework.cuda.runtime.memGetInfo()[0])


def _status(key: str) -> int:
    """Return a memory size of this process in bytes, from /proc/self/status."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return 1024 * int(line.split()[1])
    return 0


def main() -> None:
    """Answer the requests on standard input."""
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # standard output is for answers, so a loader's output goes to standard error

    def tell(result: dict[str, Any]) -> None:
        results.write(json.dumps(result) + "\n")
        results.flush()

    try:
        child = _Child(json.loads(sys.argv[1]))
        tell({"ready": True})
        for line in sys.stdin:
            told = json.loads(line)
            left = child.drop() if told["cold"] else 0.0
            tell({"resident": left, **child.load(told)} if left <= 0.01 else {"resident": left})
    except Exception as error:
        text = " ".join(str(error).split())
        tell({"error": f"{type(error).__name__}: {text[:200]}"})


if __name__ == "__main__":
    main()
