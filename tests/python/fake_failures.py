"""A program whose loads fail repeatedly. It counts the resources that failed loads leave open.

It runs with the stand-in driver, as fake_gpus.py does, and with failing_reads.cpp preloaded. Its
arguments are a folder, a number of turns, and N. Each turn makes each kind of failure. Every N-th
turn also presses Ctrl-C. The program prints one line of JSON: the messages of the failures by kind,
the resources that it holds after a tenth of the turns, and the resources that it holds after all
turns.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fake_gpus
import interlace

driver: Any = fake_gpus.driver
disk: Any = ctypes.CDLL(None)  # with the functions of failing_reads.cpp, which is preloaded
driver.fake_bytes.restype = ctypes.c_uint64
OPTIONS: dict[str, Any] = {"framework": "cupy", "threads": 3}
MIB = 1 << 20
GPUS = {"a": "cuda:0", "b": "cuda:1", "": "cuda:2"}


def weights(folder: Path) -> Path:
    random = np.random.default_rng(1)
    tensors = {f"{name}.w": random.integers(0, 256, (3, 100_000), np.uint8) for name in "abcd"}
    file = folder / "model.safetensors"
    interlace.save(tensors, file, checksums=True)
    return file


def load(file: Path) -> Any:
    return interlace.load(file, GPUS, ring=(3, 1 << 16), **OPTIONS)


def stream(file: Path) -> Any:
    return dict(interlace.stream(file, GPUS, ahead=MIB // 2, **OPTIONS))


def prefetch(file: Path) -> Any:
    with (
        interlace.safe_open(file, "cupy", "cuda:1") as opened,
        opened.prefetch(threads=2) as loader,
    ):
        return dict(loader)


ACTIONS: tuple[Callable[[Path], Any], ...] = (load, stream, prefetch)


def lying_header(file: Path, _act: Callable[[Path], Any]) -> None:
    """Fail with a tensor that is longer than the file says."""
    wrong = file.with_name("wrong.safetensors")
    text = file.read_bytes().replace(b"[3,100000]", b"[4,100000]", 1)
    wrong.write_bytes(text)
    _act(wrong)


def shrinking(file: Path, act: Callable[[Path], Any]) -> None:
    """Fail with a file that becomes shorter after its header was read."""
    shrinks = file.with_name("shrinks.safetensors")
    shrinks.write_bytes(file.read_bytes())
    parse = interlace.runtime.safetensors_header.parse  # type: ignore[attr-defined]

    def cut(*arguments: Any) -> Any:
        found = parse(*arguments)
        os.truncate(shrinks, shrinks.stat().st_size - 150_000)
        return found

    interlace.runtime.safetensors_header.parse = cut  # type: ignore[attr-defined]
    try:
        act(shrinks)
    finally:
        interlace.runtime.safetensors_header.parse = parse  # type: ignore[attr-defined]


def bad_disk(file: Path, act: Callable[[Path], Any]) -> None:
    """Fail with an error of the disk after the header was read."""
    disk.fail_read(ctypes.c_long(3))
    try:
        act(file)
    finally:
        disk.fail_read(ctypes.c_long(-1))


def full_gpu(file: Path, act: Callable[[Path], Any]) -> None:
    """Fail with a GPU that has no memory for the later tensors."""
    driver.fake_limit_memory(ctypes.c_uint64(700_000))
    held: list[Any] = []
    try:
        held += [act(file), act(file)]
    finally:
        driver.fake_limit_memory(ctypes.c_uint64(0))


def interrupt(file: Path, act: Callable[[Path], Any]) -> None:
    """Press Ctrl-C while the bytes are on their way."""
    disk.interrupt_read(ctypes.c_long(3))
    try:
        act(file)
    finally:
        disk.interrupt_read(ctypes.c_long(-1))


FAILURES = (lying_header, shrinking, bad_disk, full_gpu)


def left(file: Path) -> dict[str, int]:
    """Return the resources that the process holds.

    The process keeps the ring of the last load, and the ring counts as page-locked memory. The
    number of slots in the ring of a failed load depends on how far the load came. This function
    therefore first makes a load that succeeds, so that the kept ring always has the same size.
    """
    load(file)
    gc.collect()
    return {
        "on_gpus": driver.fake_bytes(1),
        "page_locked": driver.fake_bytes(0),
        "descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208
        "threads": len(os.listdir("/proc/self/task")),  # noqa: PTH208
    }


def main() -> None:
    fake_gpus.stand_in()
    file, times, seldom = weights(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
    for act in ACTIONS:
        act(file)
    said: dict[str, str] = {}
    early: dict[str, int] = {}
    happened = 0
    for number in range(times):
        kinds = FAILURES if number % seldom else (*FAILURES, interrupt)
        for fail, act in itertools.product(kinds, ACTIONS):
            try:
                fail(file, act)
            except KeyboardInterrupt:
                said[f"{fail.__name__} {act.__name__}"] = "KeyboardInterrupt"
            except (interlace.UserError, interlace.DeviceError) as error:
                said[f"{fail.__name__} {act.__name__}"] = str(error)
            else:
                raise RuntimeError(f"{fail.__name__} {act.__name__} did not fail")
            happened += 1
        if number == times // 10:
            early = left(file)
    late = left(file)
    print(json.dumps({"happened": happened, "said": said, "early": early, "late": late}))


if __name__ == "__main__":
    fake_gpus.check(driver.cuInit(0))
    main()
