"""interlace.copy_blocks on a real GPU with PyTorch, byte by byte.

    python tests/gpu/blocks_torch.py

The script checks lists of rows in host memory and on the GPU, both directions, addresses in many
allocations at all alignments, captured graphs, pageable memory, each way to copy a batch, and calls
that must be refused. It prints a line for each check. The exit code is 1 if a check fails, and 77
if there is no GPU.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

ROWS, BYTES, BLOCKS = 8192, 4096, 4096
PART = 100_003


class Checks:
    def __init__(self, torch: Any) -> None:
        import interlace

        self.torch, self.copy, self.error = torch, interlace.copy_blocks, interlace.UserError
        self.chance = np.random.default_rng(3)
        self.pool = self.content(ROWS, BYTES).pin_memory()
        self.cache = torch.zeros((ROWS, BYTES), dtype=torch.uint8, device="cuda:0")
        self.to, self.source = (self.chance.permutation(ROWS)[:BLOCKS] for _ in range(2))
        self.wrong = 0

    def content(self, *shape: int) -> Any:
        return self.torch.randint(0, 256, shape, dtype=self.torch.uint8)

    def say(self, name: str, right: bool, more: str = "") -> None:
        self.wrong += not right
        print(f"{name}: {'right' if right else 'WRONG'} {more}".rstrip(), flush=True)

    def arrived(self, to: Any, rows: Any, source: Any, origin: Any) -> bool:
        self.torch.cuda.synchronize()
        index, other = (self.torch.from_numpy(one.astype(np.int64)) for one in (rows, origin))
        return bool((to.cpu()[index] == source.cpu()[other]).all())

    def rows(self) -> None:
        narrow = self.to.astype(np.int32), self.source.astype(np.int32)
        on_gpu = [self.torch.from_numpy(one).cuda() for one in (self.to, self.source)]
        for name, lists in (
            ("rows of 8 bytes", (self.to, self.source)),
            ("rows of 4 bytes", narrow),
            ("rows on the GPU", on_gpu),
        ):
            self.cache.zero_()
            way = self.copy(self.cache, self.pool, dst_rows=lists[0], src_rows=lists[1])
            self.say(name, self.arrived(self.cache, self.to, self.pool, self.source), way)
        back = self.torch.zeros_like(self.pool).pin_memory()
        way = self.copy(back, self.cache, dst_rows=self.source, src_rows=self.to)
        self.say("rows back", self.arrived(back, self.source, self.pool, self.source), way)

    def pageable(self) -> None:
        ordinary, back = self.content(ROWS, BYTES), self.torch.zeros_like(self.pool)
        lists = {"dst_rows": self.to, "src_rows": self.source, "pageable": "stage"}
        begin = time.perf_counter()
        self.copy(self.cache, ordinary, **lists)
        rate = 1e-9 * BLOCKS * BYTES / (time.perf_counter() - begin)
        right = self.arrived(self.cache, self.to, ordinary, self.source)
        self.say("pageable memory to the GPU", right, f"{rate:.1f} GB/s")
        lists = {"dst_rows": self.source, "src_rows": self.to, "pageable": "stage"}
        begin = time.perf_counter()
        self.copy(back, self.cache, **lists)
        rate = 1e-9 * BLOCKS * BYTES / (time.perf_counter() - begin)
        right = self.arrived(back, self.source, ordinary, self.source)
        self.say("and back", right, f"{rate:.1f} GB/s")
        for name, source, rows, part in (
            ("pageable memory", ordinary, [1, 2], "not page-locked"),
            ("a row outside of the array", self.pool, [1, ROWS], f"source number {ROWS},"),
        ):
            try:
                self.copy(self.cache, source, dst_rows=[0, 1], src_rows=rows)
                self.say(f"refusal of {name}", False)
            except self.error as error:
                self.say(f"refusal of {name}", part in str(error), str(error))

    def captured(self) -> None:
        for count in (64, BLOCKS):
            to, source = self.to[:count].copy(), self.source[:count].copy()
            self.cache.zero_()
            self.torch.cuda.synchronize()
            graph = self.torch.cuda.CUDAGraph()
            with self.torch.cuda.graph(graph):
                way = self.copy(self.cache, self.pool, dst_rows=to, src_rows=source)
            wanted = to.copy(), source.copy()
            to[:] = source[:] = 0  # the graph has its own copies of the lists
            right = True
            for _ in range(3):
                self.pool.add_(1)
                graph.replay()
                right &= self.arrived(self.cache, wanted[0], self.pool, wanted[1])
            self.say(f"a graph with {count} blocks", right, way)

    def addresses(self) -> None:
        device = [self.content(PART).cuda() for _ in range(40)]
        host = [self.torch.zeros(PART, dtype=self.torch.uint8).pin_memory() for _ in range(40)]
        lists: tuple[list[int], list[int], list[int]] = ([], [], [])
        places = [(2000 * k + k, 2000 * k + 3, 1 + 37 * k) for k in range(49)]
        for source, to in zip(device, host, strict=True):
            for at, origin, size in places:
                for values, value in zip(
                    lists, (to.data_ptr() + at, source.data_ptr() + origin, size), strict=True
                ):
                    values.append(value)
        to_list, from_list, sizes = (np.array(values, np.uint64) for values in lists)
        way = self.copy(to_list, from_list, sizes=sizes)
        self.torch.cuda.synchronize()
        right = all(
            bool((to[at : at + size] == source.cpu()[origin : origin + size]).all())
            for source, to in zip(device, host, strict=True)
            for at, origin, size in places
        )
        self.say("blocks of all alignments in 80 allocations", right, way)

    def ways(self) -> None:
        stream = self.torch.cuda.Stream()
        for only in ("kernel", "driver-batch", "copies"):
            self.cache.zero_()
            self.torch.cuda.synchronize()
            way = self.copy(
                self.cache, self.pool, dst_rows=self.to, src_rows=self.source, only=only,
                stream=stream,
            )  # fmt: skip
            right = way == only and self.arrived(self.cache, self.to, self.pool, self.source)
            self.say(f"only {only}", right, way)


def main() -> int:
    try:
        import torch
    except ImportError:
        return 77
    if not torch.cuda.is_available():
        return 77
    checks = Checks(torch)
    for check in (checks.rows, checks.pageable, checks.captured, checks.addresses, checks.ways):
        check()
    print(f"{checks.wrong} checks failed")
    return 1 if checks.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
