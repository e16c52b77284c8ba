"""interlace.copy on real GPUs with PyTorch, and with CuPy if it is installed, byte by byte.

    python tests/gpu/copying_torch.py [--seconds 75] [--seed 1]

Three processes make the checks: one with the defaults, one with streams, and one with graphs. Each
process checks all dtypes, streams, captures, NumPy over page-locked and other memory, all
directions, order on two GPUs, memory that is freed at once, and threads. It then copies random
sizes at random offsets until the time is over. Every destination has other contents before the
copy, and the bytes around the copied bytes must not change. PyTorch moves the bytes for the
comparison. The script prints counts. The exit code is 1 if a check fails, and 77 if there is no
GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

KIB, MIB = 1 << 10, 1 << 20
POISON = 0xA5
WAYS: dict[str, dict[str, str]] = {
    "by default": {},
    "streams": {"INTERLACE_COPY": "streams", "INTERLACE_COPY_THRESHOLD": "64K"},
    "graphs": {"INTERLACE_COPY": "graphs", "INTERLACE_COPY_THRESHOLD": "64K"},
}
Place = int | None  # a GPU, or the host's page-locked memory


class Checks:
    def __init__(self, torch: Any, seed: int) -> None:
        import interlace

        self.torch = torch
        self.copy = interlace.copy
        self.random = random.Random(seed)
        self.gpus = int(torch.cuda.device_count())
        self.places: list[Place] = [None, *range(self.gpus)]
        self.count = 0
        self.wrong: list[str] = []

    # --- memory -----------------------------------------------------------------------------------

    def content(self, size: int) -> Any:
        """Return random bytes in pageable host memory."""
        generator = self.torch.Generator().manual_seed(self.random.getrandbits(60))
        return self.torch.randint(0, 256, (size,), dtype=self.torch.uint8, generator=generator)

    def memory(self, place: Place, bytes_: Any) -> Any:
        """Return bytes at a place, ready for use on any stream."""
        if place is None:
            return bytes_.clone().pin_memory()
        made = bytes_.to(f"cuda:{place}")
        self.torch.cuda.synchronize(place)
        return made

    def poisoned(self, place: Place, size: int) -> Any:
        return self.memory(place, self.torch.full((size,), POISON, dtype=self.torch.uint8))

    def wait(self) -> None:
        for gpu in range(self.gpus):
            self.torch.cuda.synchronize(gpu)

    def same(self, what: str, found: Any, wanted: Any) -> None:
        self.wait()
        self.expect(what, bool(self.torch.equal(found.cpu(), wanted.cpu())))

    def expect(self, what: str, holds: bool) -> None:
        self.count += 1
        if not holds:
            self.wrong.append(what)
            print(f"wrong: {what}", flush=True)

    def pairs(self) -> Iterator[tuple[Place, Place]]:
        for source in self.places:
            for target in self.places:
                if source is not None or target is not None:
                    yield source, target

    def name(self, place: Place) -> str:
        return "host" if place is None else f"gpu{place}"

    # --- checks -----------------------------------------------------------------------------------

    def directions(self) -> None:
        for source, target in self.pairs():
            for size in (1, 5, 4 * KIB, 64 * KIB + 1, MIB, 3 * MIB + 7, 33 * MIB):
                wanted = self.content(size)
                given, into = self.memory(source, wanted), self.poisoned(target, size)
                self.copy(into, given)
                what = f"{self.name(source)} to {self.name(target)}, {size} B"
                self.same(what, into, wanted)

    def dtypes(self) -> None:
        torch = self.torch
        gpu = self.gpus - 1
        for name in (
            *("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "bool"),
            *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
            *("float8_e4m3fn", "float8_e5m2"),
        ):
            dtype = getattr(torch, name, None)
            if dtype is None:
                continue
            wanted = self.content(3 * MIB + 16)
            if name == "bool":
                wanted &= 1
            given = self.memory(None, wanted)
            there, back = self.poisoned(gpu, wanted.numel()), self.poisoned(None, wanted.numel())
            self.copy(there.view(dtype), given.view(dtype).view(-1))
            self.same(f"{name} to the GPU", there, wanted)
            self.copy(back.view(dtype).view(1, -1), there.view(dtype))
            self.same(f"{name} to the host", back, wanted)

    def streams(self) -> None:
        """Check that streams may be None, PyTorch's streams or numbers, even if another GPU is
        current.
        """
        torch = self.torch
        for gpu in range(self.gpus):
            with torch.cuda.device(gpu):
                side = torch.cuda.Stream()
            kinds: dict[str, Any] = {
                "the default stream": torch.cuda.default_stream(gpu),
                "a stream": side,
                "a number": side.cuda_stream,
                "number 0": 0,
            }
            for current in {0, gpu}:
                for kind, stream in kinds.items():
                    wanted = self.content(9 * MIB)
                    given = self.memory(None, wanted)
                    there = self.poisoned(gpu, wanted.numel())
                    back = self.poisoned(None, wanted.numel())
                    with torch.cuda.device(current):
                        self.copy(there, given, stream)
                        self.copy(back, there, stream)
                    what = f"{kind} of gpu{gpu}, gpu{current} is current"
                    self.same(what, back, wanted)
                with torch.cuda.device(current), torch.cuda.stream(side):
                    wanted = self.content(9 * MIB)
                    given, back = self.memory(None, wanted), self.poisoned(None, wanted.numel())
                    there = self.poisoned(gpu, wanted.numel())
                    self.copy(there, given)
                    self.copy(back, there)
                    self.same(f"the current stream of gpu{gpu}", back, wanted)

    def order(self) -> None:
        """Check that a copy runs after earlier work on its stream, and before later work."""
        torch = self.torch
        elements = 8 * MIB
        for gpu in range(self.gpus):
            for stream in (torch.cuda.default_stream(gpu), torch.cuda.Stream(gpu)):
                with torch.cuda.device(gpu), torch.cuda.stream(stream):
                    there = torch.zeros(elements, dtype=torch.int32, device=f"cuda:{gpu}")
                    hosts = [torch.zeros(elements, dtype=torch.int32).pin_memory() for _ in "abc"]
                    for turn, host in enumerate(hosts):
                        there.fill_(turn + 1)
                        self.copy(host, there)
                        there.fill_(-1)
                    stream.synchronize()
                    for turn, host in enumerate(hosts):
                        self.expect(
                            f"order of copies from gpu{gpu}", bool((host == turn + 1).all())
                        )
                    sums = []
                    for host in hosts:
                        self.copy(there, host)
                        sums.append(there.sum(dtype=torch.int64))
                        there.zero_()
                    found = [int(one) for one in sums]
                    self.expect(
                        f"order of copies to gpu{gpu}", found == [elements * k for k in (1, 2, 3)]
                    )

    def two_gpus(self) -> None:
        """Without a stream, a copy keeps the order of both GPUs' current streams, as Tensor.copy_
        does.
        """
        torch = self.torch
        for source in range(self.gpus):
            for target in range(self.gpus):
                if source == target:
                    continue
                given = torch.zeros(8 * MIB, dtype=torch.int32, device=f"cuda:{source}")
                into = torch.full_like(given, -2, device=f"cuda:{target}")
                self.wait()
                for turn in range(3):
                    for _ in range(20):  # these additions delay the source
                        given.add_(1)
                    self.copy(into, given)
                    wanted = 20 * (turn + 1)
                    what = f"order of gpu{source} and gpu{target}"
                    right = (into == wanted).all()
                    given.add_(1000)  # these two additions must run after the copy
                    given.sub_(1000)
                    self.expect(what, bool(right))
                    into.fill_(-2)

    def freed(self) -> None:
        """Check that a copy reads page-locked memory before another owner gets the memory."""
        torch = self.torch
        into = self.poisoned(0, 64 * MIB)
        for turn in range(4):
            stream = torch.cuda.Stream(0)
            wanted = self.content(64 * MIB)
            given = self.memory(None, wanted)
            with torch.cuda.stream(stream):
                torch.cuda._sleep(20_000_000)
                self.copy(into, given)
            del given
            others = [torch.zeros(64 * MIB, dtype=torch.uint8).pin_memory() for _ in "ab"]
            self.same(f"freed memory, {turn}", into, wanted)
            del others

    def capture(self) -> None:
        torch = self.torch
        for gpu in range(self.gpus):
            with torch.cuda.device(gpu):
                size = 16 * MIB
                host = self.memory(None, self.content(size))
                back, there = self.poisoned(None, size), self.poisoned(gpu, size)
                other = (gpu + 1) % self.gpus
                elsewhere = self.poisoned(other, size)
                self.copy(there, host)
                self.copy(back, there)
                self.wait()
                graph = torch.cuda.CUDAGraph()
                # PyTorch's default stream for captures belongs to the GPU that captured first.
                with torch.cuda.graph(graph, stream=torch.cuda.Stream(gpu)):
                    self.copy(there, host)
                    there.add_(1)
                    self.copy(elsewhere, there, torch.cuda.current_stream())
                    self.copy(back, elsewhere, torch.cuda.current_stream())
                for turn in range(3):
                    host.copy_(self.content(size))
                    back.fill_(POISON)
                    graph.replay()
                    self.same(f"captured on gpu{gpu}, {turn}", back, host + 1)
                del graph

    def numpy_arrays(self) -> None:
        import numpy as np

        size = 12 * MIB
        for gpu in range(self.gpus):
            wanted = self.content(size)
            pinned, back = self.memory(None, wanted).numpy(), self.poisoned(None, size)
            there = self.poisoned(gpu, size)
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # a copy of a page-locked array must not warn
                self.copy(there[5:], pinned[5:])
                self.copy(back.numpy()[: size - 5], there[5:])
            expected = self.torch.full((size,), POISON, dtype=self.torch.uint8)
            expected[5:] = wanted[5:]
            self.same(f"page-locked NumPy to gpu{gpu}", there, expected)
            self.same(f"page-locked NumPy from gpu{gpu}", back[: size - 5], wanted[5:])
        told = 0
        for turn in range(2):
            wanted = self.content(size)
            there = self.poisoned(0, size)
            pageable = np.array(wanted.numpy())
            out = np.full(size, POISON, np.uint8)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                self.copy(there, pageable)
                self.copy(out, there)
                told += len(said)
            self.same(f"pageable NumPy in, {turn}", there, wanted)
            self.same(f"pageable NumPy out, {turn}", self.torch.from_numpy(out), wanted)
        self.expect("pageable memory gives one warning", told == 1)
        buffer = bytearray(self.content(3 * MIB).numpy().tobytes())
        there = self.poisoned(0, 3 * MIB)
        self.copy(there, buffer)
        self.same("a bytearray", there, self.torch.frombuffer(buffer, dtype=self.torch.uint8))

    def cupy_arrays(self) -> None:
        try:
            import cupy
        except ImportError:
            print("  CuPy is not installed", flush=True)
            return
        for gpu in range(self.gpus):
            with cupy.cuda.Device(gpu):
                for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
                    with stream:
                        wanted = self.content(9 * MIB)
                        given = self.memory(None, wanted).numpy()
                        there = cupy.full(9 * MIB, POISON, dtype=cupy.uint8)
                        back = self.poisoned(None, 9 * MIB)
                        self.copy(there, given)
                        there += cupy.uint8(1)
                        self.copy(back.numpy(), there)
                        stream.synchronize()
                    self.same(f"CuPy, gpu{gpu}", back, wanted + 1)
                    tensor = self.poisoned((gpu + 1) % self.gpus, 9 * MIB)
                    self.copy(tensor, there)
                    self.same(f"CuPy of gpu{gpu} to PyTorch", tensor, wanted + 1)

    def threads(self) -> None:
        failures: list[BaseException] = []

        def work(number: int, seed: int) -> None:
            try:
                own = Checks(self.torch, seed)
                with self.torch.cuda.device(number % self.gpus):
                    stream = self.torch.cuda.Stream()
                for _ in range(8):
                    own.random_copy(8 * MIB, stream)
                self.count += own.count
                self.wrong += own.wrong
            except BaseException as error:
                failures.append(error)

        workers = [
            threading.Thread(target=work, args=(number, self.random.getrandbits(40)))
            for number in range(4)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if failures:
            raise failures[0]

    def refused(self) -> None:
        from interlace.base.errors import UserError

        on_gpu, host = self.poisoned(0, 4 * KIB), self.poisoned(None, 4 * KIB)
        cases: dict[str, tuple[Callable[[], None], str]] = {
            "overlap": (lambda: self.copy(on_gpu[1:], on_gpu[:-1]), "overlap"),
            "two arrays in the host": (
                lambda: self.copy(host, host.clone()),
                "the host's memory",
            ),
            "strides": (lambda: self.copy(on_gpu[::2], host[::2]), "not contiguous"),
            "sizes": (lambda: self.copy(on_gpu, host[1:]), "bytes"),
            "dtypes": (lambda: self.copy(on_gpu, host.view(self.torch.int8)), "converts nothing"),
            "read-only": (lambda: self.copy(bytes(4 * KIB), on_gpu), "read-only"),
        }
        for what, (call, part) in cases.items():
            text = "nothing"
            try:
                call()
            except UserError as error:
                text = str(error)
            self.expect(f"{what} is refused, not: {text}", part in text)
        self.copy(on_gpu[:0], host[:0])

    def random_copy(self, most: int, stream: Any = None) -> None:
        """Copy a part of an array to a part of another. No other byte may change."""
        source, target = self.random.choice(list(self.pairs()))
        size = int(most ** self.random.uniform(0.3, 1))
        begin, at = self.random.randrange(300), self.random.randrange(300)
        content = self.content(size + 600)
        given, into = self.memory(source, content), self.poisoned(target, size + 600)
        expected = self.torch.full((size + 600,), POISON, dtype=self.torch.uint8)
        expected[at : at + size] = content[begin : begin + size]
        self.copy(into[at : at + size], given[begin : begin + size], stream)
        if stream is not None:
            stream.synchronize()
        what = f"{size} B of {self.name(source)} from {begin} to {self.name(target)} at {at}"
        if stream is None:
            self.wait()
        self.expect(what, bool(self.torch.equal(into.cpu(), expected)))


CHECKS: list[Callable[[Checks], None]] = [
    Checks.refused,
    Checks.directions,
    Checks.dtypes,
    Checks.streams,
    Checks.order,
    Checks.two_gpus,
    Checks.freed,
    Checks.capture,
    Checks.numpy_arrays,
    Checks.cupy_arrays,
    Checks.threads,
]


def work(seed: int, seconds: float) -> int:
    """Run the checks in this process. The last line of output has the findings."""
    import torch

    from interlace.runtime import copying

    begin = time.monotonic()
    run = Checks(torch, seed)
    for check in CHECKS:
        before, since = run.count, time.monotonic()
        check(run)
        took = time.monotonic() - since
        print(f"  {check.__name__}: {run.count - before} checks, {took:.1f} s", flush=True)
    before = run.count
    while time.monotonic() - begin < seconds:
        run.random_copy(32 * MIB)
    print(f"  random: {run.count - before} checks", flush=True)
    found = {
        "checks": run.count,
        "wrong": len(run.wrong),
        "gpus": run.gpus,
        **copying.copy_statistics(),
    }
    print(json.dumps(found), flush=True)
    return 1 if run.wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=75, help="all processes together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        return work(asked.seed, asked.seconds)
    import torch

    if torch.cuda.device_count() == 0:
        print("there is no GPU")
        return 77
    end = time.monotonic() + asked.seconds
    failed = 0
    for number, (way, environment) in enumerate(WAYS.items()):
        print(way, flush=True)
        left = max((end - time.monotonic()) / (len(WAYS) - number), 1)
        words = ["--work", "--seed", str(asked.seed + number), "--seconds", f"{left - 4:.1f}"]
        ended = subprocess.run(
            [sys.executable, __file__, *words],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        print(ended.stdout, end="", flush=True)
        lines = ended.stdout.splitlines()
        found = json.loads(lines[-1]) if ended.returncode in (0, 1) and lines else {}
        several = found.get("streams", 0) + found.get("graphs", 0)
        if found and found["gpus"] > 1 and several == 0:
            print("  no copy took several paths", flush=True)
            failed += 1
        failed += ended.returncode != 0
    print("failed" if failed else "all right")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
