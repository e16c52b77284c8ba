"""A program that copies batches of blocks and compares every byte.

Host memory stands for the memory of GPUs. The program uses the stand-ins of fake_gpus.py. It prints
one line of JSON that says how each batch was copied.
"""

from __future__ import annotations

import ctypes
import json
from typing import Any

import numpy as np

import interlace
from fake_gpus import Device, check, driver, on_gpu, stand_in, synchronize
from interlace.base.errors import UserError

ROWS, BYTES = 64, 1024


def pinned(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    address = ctypes.c_void_p()
    check(driver.cuMemHostAlloc(ctypes.byref(address), ctypes.c_size_t(values.nbytes), 1))
    assert address.value is not None
    memory = (ctypes.c_ubyte * values.nbytes).from_address(address.value)
    made = np.frombuffer(memory, values.dtype).reshape(values.shape)
    made[...] = values
    return made


def rows_of(chance: np.random.Generator, count: int) -> Any:
    return chance.permutation(ROWS)[:count]


def work() -> dict[str, Any]:
    chance = np.random.default_rng(7)
    ways = []
    with Device(0):
        for trial in range(24):
            values = chance.integers(0, 256, (ROWS, BYTES), np.uint8)
            host = (np.copy if trial % 4 == 3 else pinned)(values)
            cache = on_gpu(chance.integers(0, 256, (ROWS, BYTES), np.uint8), 0)
            to, source = (cache.exported(), host) if trial % 2 else (host, cache.exported())
            target, origin = (cache, host) if trial % 2 else (host, cache)
            wanted = np.array(target)
            count = int(chance.integers(1, ROWS))
            dst_rows, src_rows = rows_of(chance, count), rows_of(chance, count)
            if trial % 3 == 0:
                dst_rows = dst_rows.astype(np.int32)
            if trial % 5 == 0:
                dst_rows = None
            wanted[np.arange(count) if dst_rows is None else dst_rows] = origin[src_rows]
            pageable = "stage" if trial % 4 == 3 else "refuse"
            if trial % 3 == 2:
                base = [int(one.__array_interface__["data"][0]) for one in (target, origin)]
                picked = np.arange(count) if dst_rows is None else dst_rows
                sizes = np.full(count, BYTES) if trial % 2 else BYTES
                ways.append(
                    interlace.copy_blocks(
                        base[0] + BYTES * picked.astype(np.uint64),
                        base[1] + BYTES * src_rows.astype(np.uint64),
                        sizes=sizes,
                        pageable=pageable,
                    )
                )
            else:
                ways.append(
                    interlace.copy_blocks(
                        to, source, dst_rows=dst_rows, src_rows=src_rows, pageable=pageable
                    )
                )
            synchronize()
            if np.any(np.asarray(target) != wanted):
                raise RuntimeError(f"batch {trial} ({ways[-1]}) is wrong")
    refusals = []
    with Device(0):
        for rows in ([0, ROWS], [0, -1]):
            try:
                interlace.copy_blocks(cache.exported(), pinned(values), src_rows=rows)
            except UserError as error:
                refusals.append(str(error))
        try:
            interlace.copy_blocks(cache.exported(), np.copy(values))
        except UserError as error:
            refusals.append(str(error))
    return {"ways": sorted(set(ways)), "refusals": refusals}


if __name__ == "__main__":
    check(driver.cuInit(0))
    stand_in()
    print(json.dumps(work()))
