"""Checks PyTorch's own copies under `interlace run`, on real GPUs.

python tests/gpu/preload_torch.py            # every kind of copy, byte by byte; then 1 GiB, timed
python tests/gpu/preload_torch.py --model    # and the tensors of a transformer of 8e9 parameters

The script needs PyTorch. `interlace run` takes over copies only if there is a second GPU. The exit
code is 1 if a byte is wrong, if a program fails, or if no copy was taken over. The bytes to compare
come back in pieces that are too small to be taken over.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MIB = 1 << 20
PIECE = 1 * MIB  # below the threshold for copies that are taken over

# For the checks, the library takes over every copy that it can, from the first copy on.
ALL = {"INTERLACE_PRELOAD_AFTER": "0", "INTERLACE_PRELOAD_START": "wait"}
ALLOCATORS = ("", "expandable_segments:True", "backend:cudaMallocAsync")


# --- the program under test -----------------------------------------------------------------------


class Checks:
    """Makes copies and compares every byte."""

    def __init__(self, torch: Any, seed: int) -> None:
        self.torch = torch
        self.random = random.Random(seed)
        self.count = 0
        self.wrong: list[str] = []
        self.gpus = torch.cuda.device_count()

    def bytes_of(self, tensor: Any) -> Any:
        """Return the tensor's bytes. Small copies bring them into host memory."""
        torch = self.torch
        flat = tensor.contiguous().view(-1).view(torch.uint8)
        if flat.device.type == "cpu":
            return flat.clone()
        torch.cuda.synchronize(flat.device)
        parts = [flat[at : at + PIECE].cpu() for at in range(0, flat.numel(), PIECE)]
        return torch.cat(parts)

    def same(self, what: str, found: Any, wanted: Any) -> None:
        self.count += 1
        if not self.torch.equal(self.bytes_of(found), self.bytes_of(wanted)):
            self.wrong.append(what)
            print(f"wrong bytes: {what}", flush=True)

    def host(self, elements: int, dtype: Any, *, pinned: bool) -> Any:
        torch = self.torch
        size = torch.empty(0, dtype=dtype).element_size()
        made = torch.randint(0, 256, (elements * size,), dtype=torch.uint8)
        if dtype == torch.bool:
            made &= 1
        made = made.view(dtype)
        return made.pin_memory() if pinned else made

    def upload(self, host: Any, gpu: int) -> Any:
        """Return a copy of a host tensor on the GPU, made by small copies."""
        torch = self.torch
        made = torch.empty_like(host, device=f"cuda:{gpu}", pin_memory=False)
        to, source = made.view(-1).view(torch.uint8), host.contiguous().view(-1).view(torch.uint8)
        for at in range(0, to.numel(), PIECE):
            to[at : at + PIECE].copy_(source[at : at + PIECE])
        torch.cuda.synchronize(gpu)
        return made

    def dtypes(self) -> Iterator[Any]:
        for name in (
            *("uint8", "int8", "int16", "int32", "int64", "bool"),
            *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
            *("float8_e4m3fn", "float8_e5m2"),
        ):
            if hasattr(self.torch, name):
                yield getattr(self.torch, name)

    def run(self) -> None:
        self.kinds()
        self.strides()
        self.order()
        self.windows()
        self.capture()
        self.registered()
        self.threads()

    def kinds(self) -> None:
        torch = self.torch
        pairs = [(0, gpu) for gpu in range(1, min(self.gpus, 3))] + [(1, 0)] * (self.gpus > 1)
        for dtype in self.dtypes():
            size = torch.empty(0, dtype=dtype).element_size()
            for total in (3 * MIB + 16, 33 * MIB):
                for pinned in (True, False):
                    for later in (True, False):
                        host = self.host(total // size, dtype, pinned=pinned)
                        what = f"{dtype} {total} B, pinned {pinned}, non_blocking {later}"
                        gpu = self.random.randrange(self.gpus)
                        there = host.to(f"cuda:{gpu}", non_blocking=later)
                        self.same(f"host to GPU, {what}", there, host)
                        back = torch.empty_like(host, pin_memory=pinned)
                        back.copy_(there, non_blocking=later)
                        torch.cuda.synchronize(gpu)
                        self.same(f"GPU to host, {what}", back, host)
                for one, other in pairs:
                    source = self.upload(self.host(total // size, dtype, pinned=False), one)
                    self.same(
                        f"GPU {one} to GPU {other}, {dtype} {total} B",
                        source.to(f"cuda:{other}", non_blocking=True),
                        source,
                    )

    def strides(self) -> None:
        torch = self.torch
        host = self.host(12 * MIB // 4, torch.int32, pinned=True).view(1024, -1)
        for name, view in {
            "transposed": host.t(),
            "columns": host[:, 5:2005],
            "every other row": host[::2],
            "rows from the third on": host[3:],
            "one element on": host.view(-1)[1:],
            "expanded": host[:1].expand(512, -1),
        }.items():
            there = view.to("cuda:0", non_blocking=True)
            self.same(f"host to GPU, {name}", there, view)
            whole = self.upload(host, 0)
            part = whole.as_strided(view.size(), view.stride(), view.storage_offset())
            back = torch.empty(view.shape, dtype=view.dtype, pin_memory=True)
            back.copy_(part, non_blocking=True)
            torch.cuda.synchronize()
            self.same(f"GPU to host, {name}", back, view)
        numbers = torch.rand(4 * MIB).pin_memory()
        self.same("float32 to float16", numbers.to("cuda", torch.float16), numbers.half())

    def order(self) -> None:
        """Check that a copy runs after earlier work on its stream, and before later work."""
        torch = self.torch
        elements = 8 * MIB
        for gpu in range(min(self.gpus, 2)):
            with torch.cuda.device(gpu):
                side = torch.cuda.Stream()
                for stream in (torch.cuda.default_stream(), side):
                    with torch.cuda.stream(stream):
                        on_gpu = torch.zeros(elements, dtype=torch.int32, device="cuda")
                        hosts = [
                            torch.zeros(elements, dtype=torch.int32).pin_memory() for _ in range(4)
                        ]
                        for turn, host in enumerate(hosts):
                            on_gpu.fill_(turn + 1)
                            host.copy_(on_gpu, non_blocking=True)
                            on_gpu.fill_(-1)
                        stream.synchronize()
                        for turn, host in enumerate(hosts):
                            self.same(f"order out, {turn}", host, torch.full_like(host, turn + 1))
                        sums = []
                        for host in hosts:
                            on_gpu.copy_(host, non_blocking=True)
                            sums.append(on_gpu.sum(dtype=torch.int64))
                            on_gpu.zero_()
                        stream.synchronize()
                        wanted = [elements * (turn + 1) for turn in range(4)]
                        self.count += 1
                        if [int(one) for one in sums] != wanted:
                            self.wrong.append(f"order in, GPU {gpu}")
                # An event orders work on the other stream after this work.
                host = self.host(elements, torch.int32, pinned=True)
                on_gpu = torch.zeros(elements, dtype=torch.int32, device="cuda")
                torch.cuda.synchronize()
                with torch.cuda.stream(side):
                    on_gpu.copy_(host, non_blocking=True)
                torch.cuda.current_stream().wait_stream(side)
                self.same("after an event", on_gpu + 0, host)

    def windows(self) -> None:
        torch = self.torch
        streams = [torch.cuda.Stream() for _ in range(3)]
        hosts = [self.host(8 * MIB, torch.uint8, pinned=True) for _ in range(16)]
        there = [torch.empty_like(host, device="cuda") for host in hosts]
        back = [torch.empty_like(host, pin_memory=True) for host in hosts]
        torch.cuda.synchronize()
        for _ in range(3):
            for index, host in enumerate(hosts):
                with torch.cuda.stream(streams[index % 3]):
                    there[index].copy_(host, non_blocking=True)
                    back[index].copy_(there[index], non_blocking=True)
            torch.cuda.synchronize()
            for index, host in enumerate(hosts):
                self.same(f"window, {index} in", there[index], host)
                self.same(f"window, {index} out", back[index], host)
                host.random_(0, 256)

    def capture(self) -> None:
        torch = self.torch
        host = self.host(16 * MIB, torch.uint8, pinned=True)
        back = torch.empty_like(host, pin_memory=True)
        there = torch.zeros_like(host, device="cuda")
        there.copy_(host, non_blocking=True)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            there.copy_(host, non_blocking=True)
            more = there + 1
            back.copy_(more, non_blocking=True)
        for turn in range(3):
            host.random_(0, 256)
            graph.replay()
            torch.cuda.synchronize()
            self.same(f"graph, {turn}", back, host + 1)

    def registered(self) -> None:
        """Check copies from and to memory that was allocated first and page-locked later."""
        torch = self.torch
        plain = self.host(32 * MIB, torch.uint8, pinned=False)
        cudart = torch.cuda.cudart()
        if int(cudart.cudaHostRegister(plain.data_ptr(), plain.numel(), 0)) != 0:
            return
        there = torch.empty_like(plain, device="cuda")
        for _ in range(3):
            there.copy_(plain, non_blocking=True)
            self.same("registered memory, in", there, plain)
            plain.random_(0, 256)
        plain.copy_(there.add_(1), non_blocking=True)
        torch.cuda.synchronize()
        self.same("registered memory, out", plain, there)
        cudart.cudaHostUnregister(plain.data_ptr())

    def threads(self) -> None:
        failures: list[BaseException] = []

        def work(number: int) -> None:
            try:
                own = Checks(self.torch, number)
                gpu = number % self.gpus
                with self.torch.cuda.device(gpu), self.torch.cuda.stream(self.torch.cuda.Stream()):
                    for _ in range(12):
                        size = own.random.randrange(1 * MIB, 24 * MIB)
                        host = own.host(size, self.torch.uint8, pinned=True)
                        there = host.to(f"cuda:{gpu}", non_blocking=True)
                        other = own.random.randrange(self.gpus)
                        moved = there.to(f"cuda:{other}", non_blocking=True)
                        self.torch.cuda.current_stream().synchronize()
                        own.same(f"thread {number}", moved, host)
                self.count += own.count
                self.wrong += own.wrong
            except BaseException as error:
                failures.append(error)

        all_threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in all_threads:
            thread.start()
        for thread in all_threads:
            thread.join()
        if failures:
            raise failures[0]


def receive(queue: Any, gpu: int, answers: Any) -> None:
    """Copy from and to memory of another process."""
    import torch

    checks = Checks(torch, gpu)
    shared, wanted = queue.get()
    for turn in range(3):
        checks.same(f"shared memory to GPU {gpu}, {turn}", shared.to(f"cuda:{gpu}"), wanted)
        back = torch.empty_like(wanted).pin_memory()
        back.copy_(shared, non_blocking=True)
        torch.cuda.synchronize(shared.device)
        checks.same(f"shared memory to the host, {turn}", back, wanted)
    shared.copy_((wanted + 1).pin_memory(), non_blocking=True)
    torch.cuda.synchronize(shared.device)
    del shared
    answers.put((checks.count, checks.wrong))


def share(checks: Checks) -> None:
    import torch.multiprocessing as processes

    context = processes.get_context("spawn")
    queue, answers = context.Queue(), context.Queue()
    host = checks.host(24 * MIB, checks.torch.uint8, pinned=False)
    tensor = checks.upload(host, 0)
    child = context.Process(target=receive, args=(queue, checks.gpus - 1, answers))
    child.start()
    queue.put((tensor, host))
    count, wrong = answers.get(timeout=120)
    child.join()
    checks.count += count
    checks.wrong += wrong
    checks.same("shared memory, written by the other process", tensor, host + 1)


def work(seed: int) -> int:
    import torch

    checks = Checks(torch, seed)
    checks.run()
    if "backend" not in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""):
        share(checks)
    print(json.dumps({"checked": checks.count, "wrong": checks.wrong}))
    return 1 if checks.wrong else 0


def timed(torch: Any, copy: Callable[[], Any], repeats: int) -> float:
    """Return the median time of one copy in seconds."""
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        copy()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def warm_up(torch: Any) -> None:
    """Wait until the engine has started, at most 10 s."""
    host = torch.empty(64 * MIB, dtype=torch.uint8).pin_memory()
    there = torch.empty_like(host, device="cuda")
    limit = time.monotonic() + (10 if "LD_PRELOAD" in os.environ else 0.5)
    while time.monotonic() < limit:
        there.copy_(host, non_blocking=True)
        host.copy_(there, non_blocking=True)
        torch.cuda.synchronize()


def rate(mebibytes: int, repeats: int) -> int:
    import torch

    host = torch.empty(mebibytes * MIB, dtype=torch.uint8).random_(0, 256).pin_memory()
    there = torch.empty_like(host, device="cuda")
    warm_up(torch)
    to_gpu = timed(torch, lambda: there.copy_(host, non_blocking=True), repeats)
    to_host = timed(torch, lambda: host.copy_(there, non_blocking=True), repeats)
    called = []
    for _ in range(repeats):  # the time of the call on the host, for a large and a small copy
        for size in (64 * MIB, PIECE):
            begin = time.perf_counter()
            there[:size].copy_(host[:size], non_blocking=True)
            called.append((size, time.perf_counter() - begin))
            torch.cuda.synchronize()
    found = {
        "host to GPU, GB/s": host.numel() / to_gpu / 1e9,
        "GPU to host, GB/s": host.numel() / to_host / 1e9,
        "call of 64 MiB, us": statistics.median(t for size, t in called if size > PIECE) * 1e6,
        "call of 1 MiB, us": statistics.median(t for size, t in called if size == PIECE) * 1e6,
    }
    print(json.dumps(found))
    return 0


def model_shapes() -> Iterator[tuple[int, ...]]:
    """Yield the shapes of a transformer: 8e9 parameters, grouped heads, 32 layers of 4096, 128256
    words.
    """
    words, wide, keys, inner = 128256, 4096, 1024, 14336
    yield (words, wide)
    for _ in range(32):
        yield from ((wide, wide), (keys, wide), (keys, wide), (wide, wide))
        yield from ((inner, wide), (inner, wide), (wide, inner), (wide,), (wide,))
    yield (wide,)
    yield (words, wide)


def model() -> int:
    import torch

    hosts = [
        torch.empty(shape, dtype=torch.bfloat16, pin_memory=True).view(torch.int16).random_()
        for shape in model_shapes()
    ]
    total = sum(host.numel() * 2 for host in hosts)
    warm_up(torch)
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        there = [host.to("cuda", non_blocking=True) for host in hosts]
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
        checks = Checks(torch, 0)
        for index in (0, 1, 5, len(hosts) // 2, len(hosts) - 1):
            checks.same(f"tensor {index}", there[index], hosts[index])
        if checks.wrong:
            return 1
        del there
    print(json.dumps({"GB": total / 1e9, "s": min(times), "GB/s": total / min(times) / 1e9}))
    return 0


# --- the program that runs the checks -------------------------------------------------------------


def run(
    words: list[str], environment: dict[str, str], *, preloaded: bool
) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Return the exit code, the last line of output as JSON, and the counters."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "counted.json"
        command = [sys.executable, __file__, *words]
        if preloaded:
            start = [sys.executable, "-m", "interlace.cli.main", "run", "--json", str(file), "--"]
            command = [*start, *command]
        ended = subprocess.run(
            command,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            text=True,
            timeout=900,
            check=False,
        )
        lines = [line for line in ended.stdout.splitlines() if line]
        for line in lines[:-1]:
            print(f"  {line}")
        counted = json.loads(file.read_text()) if file.exists() else {}
        try:
            return ended.returncode, json.loads(lines[-1]), counted
        except (IndexError, json.JSONDecodeError):
            return ended.returncode or 1, {}, counted


def taken_over(counted: dict[str, Any]) -> int:
    return sum(
        one["copies"]
        for one in counted.get("copies", [])
        if one["outcome"] in counted["taken_over"]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--work", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--rate", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--model-work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--model", action="store_true", help="also copy 16 GB of a model's tensors")
    parser.add_argument(
        "--mebibytes", type=int, default=1024, help="size of the timed copies in MiB"
    )
    parser.add_argument("--repeats", type=int, default=20)
    asked = parser.parse_args()
    if asked.work is not None:
        return work(asked.work)
    if asked.rate:
        return rate(asked.mebibytes, asked.repeats)
    if asked.model_work:
        return model()

    failed = 0
    for allocator in ALLOCATORS:
        environment = {**ALL, **({"PYTORCH_CUDA_ALLOC_CONF": allocator} if allocator else {})}
        print(f"every kind of copy, {allocator or 'native allocator'}", flush=True)
        code, found, counted = run(["--work", "1"], environment, preloaded=True)
        print(f"  exit code {code}, {found}, taken over: {taken_over(counted)}", flush=True)
        failed += code != 0 or found.get("checked", 0) == 0 or taken_over(counted) == 0
    sized = ["--mebibytes", str(asked.mebibytes), "--repeats", str(asked.repeats)]
    timings = [["--rate", *sized]] + ([["--model-work"]] if asked.model else [])
    for words in timings:
        results = []
        for preloaded in (False, True):
            print(f"{words[0][2:]}, {'preloaded' if preloaded else 'as it is'}", flush=True)
            code, found, counted = run(words, {}, preloaded=preloaded)
            print(f"  exit code {code}, {found}", flush=True)
            failed += code != 0 or (preloaded and taken_over(counted) == 0)
            results.append(found)
        for name, value in results[0].items():
            if name in results[1]:
                print(f"  {name}: {value:.2f} -> {results[1][name]:.2f}")
    print("failed" if failed else "all right")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
