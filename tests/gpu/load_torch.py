"""Checks interlace.load and interlace.save on GPUs with PyTorch against safetensors' own reader.

    python tests/gpu/load_torch.py [--bytes SIZE] [--folder DIR] [--no-speed]

The checks cover all dtypes, odd shapes, empty tensors, unaligned files, many files, maps over all
GPUs and the host, checksums, page-locked results, several threads, memory that is freed, and files
saved from GPUs. The script then runs `interlace bench load` with several sizes of the ring of
buffers. The exit code is 0 if all checks pass, and 77 if there is no GPU.
"""

from __future__ import annotations

import argparse
import gc
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import interlace
from interlace.base.errors import UserError
from interlace.runtime import tensor_memory

Tensors = dict[str, Any]


def as_bytes(tensor: Any) -> Any:
    import torch

    return tensor.reshape(-1).view(torch.uint8)


def moved(tensor: Any, device: str) -> Any:
    """Move a tensor as bytes, since PyTorch cannot move every dtype."""
    return as_bytes(tensor).to(device).view(tensor.dtype).view(tensor.shape)


def same_bytes(one: Any, other: Any) -> bool:
    import torch

    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return one.numel() == 0 or bool(torch.equal(as_bytes(one).cpu(), as_bytes(other).cpu()))


def expect_equal(found: Tensors, expected: Tensors, what: str) -> None:
    assert set(found) == set(expected), f"{what}: {set(found) ^ set(expected)}"
    wrong = [name for name in expected if not same_bytes(found[name], expected[name])]
    assert not wrong, f"{what}: {wrong[:5]} differ"


def random_tensor(choice: random.Random, dtype: str, shape: list[int]) -> Any:
    import torch

    kind = getattr(torch, tensor_memory.TORCH[dtype])
    size = torch.empty(0, dtype=kind).element_size()
    generator = torch.Generator().manual_seed(choice.getrandbits(60))
    high = 2 if dtype == "BOOL" else 256
    count = size
    for extent in shape:
        count *= extent
    raw = torch.randint(0, high, (count,), dtype=torch.uint8, generator=generator)
    return raw.view(kind).view(shape)


def available_dtypes() -> list[str]:
    import torch

    return [dtype for dtype, name in tensor_memory.TORCH.items() if hasattr(torch, name)]


def model(seed: int, prefix: str = "m", largest: int = 40 << 20) -> Tensors:
    """Return tensors of every dtype: small, odd and empty ones, and some large ones."""
    choice = random.Random(seed)
    made: Tensors = {}
    for number, dtype in enumerate(available_dtypes()):
        for k in range(6):
            rank = choice.randint(1 if dtype == tensor_memory.PACKED else 0, 4)
            shape = [choice.randint(0 if k == 1 else 1, 17) for _ in range(rank)]
            made[f"{prefix}.{number % 4}.{dtype}.{k}"] = random_tensor(choice, dtype, shape)
        made[f"{prefix}.{number % 4}.{dtype}.odd"] = random_tensor(choice, dtype, [7, 4099, 3])
    for k in range(3):
        rows = choice.randint(1, largest // 2 // 4096)
        made[f"{prefix}.{k}.large"] = random_tensor(choice, "BF16", [rows, 4096])
    return made


def check_one_file(folder: Path, gpus: int) -> None:
    from safetensors.torch import load_file, save_file

    for seed in range(3):
        tensors, file = model(seed), folder / "one.safetensors"
        save_file(tensors, file)
        expect_equal(interlace.load(file, "cuda:0"), load_file(file), "as safetensors")
        usual = {name: t for name, t in tensors.items() if f".{tensor_memory.PACKED}." not in name}
        save_file(usual, folder / "usual.safetensors")
        for gpu in range(gpus):
            device = f"cuda:{gpu}"
            found = interlace.load(file, device)
            expect_equal(found, tensors, device)
            theirs = load_file(folder / "usual.safetensors", device=device)
            expect_equal({name: found[name] for name in usual}, theirs, f"{device}, as safetensors")
            assert all(t.device.index == gpu for t in found.values())
            assert all(t.is_contiguous() for t in found.values())
        for threads in (1, 3):
            for ring in ((1, 4096), (2, 100_000), (3, 1 << 20)):
                found = interlace.load(file, "cuda:0", threads=threads, ring=ring)
                expect_equal(found, tensors, f"{threads} threads, ring {ring}")


def check_unaligned(folder: Path, _gpus: int) -> None:
    """Check a float64 tensor that begins at an odd byte of the file."""
    from safetensors.torch import load_file

    file = folder / "unaligned.safetensors"
    text = b'{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},'
    text += b'"b":{"dtype":"F64","shape":[1000],"data_offsets":[3,8003]}}'
    file.write_bytes(len(text).to_bytes(8, "little") + text + random.Random(1).randbytes(8003))
    found = interlace.load(file, "cuda:0")
    expect_equal(found, load_file(file), "unaligned")
    assert found["b"].data_ptr() % 8 == 0


def check_many_files(folder: Path, gpus: int) -> None:
    parts = folder / "parts"
    parts.mkdir()
    every: Tensors = {}
    for number in range(12):
        own = model(100 + number, f"p{number}", 4 << 20)
        interlace.save(own, parts / f"model-{number:02}.safetensors", checksums=number % 2 == 0)
        every |= own
    expect_equal(interlace.load(parts, "cuda:0"), every, "a folder")
    by_prefix: dict[str, Any] = {f"p{n}": f"cuda:{n % gpus}" for n in range(6)}
    by_prefix |= {"p3.1": "cpu", "p7": gpus - 1, "": "cuda:0"}
    found = interlace.load(sorted(parts.glob("*")), by_prefix)
    expect_equal(found, every, "a map")
    for name, tensor in found.items():
        first, second = name.split(".")[:2]
        wanted = by_prefix.get(f"{first}.{second}", by_prefix.get(first, by_prefix[""]))
        gpu = tensor_memory.gpu_of(wanted)
        assert (tensor.device.index if tensor.is_cuda else None) == gpu, name


def check_save(folder: Path, gpus: int) -> None:
    from safetensors.torch import load_file, save_file

    theirs, ours = folder / "theirs.safetensors", folder / "ours.safetensors"
    tensors = model(7)
    save_file(tensors, theirs)
    spread = {
        name: moved(tensor, f"cuda:{k % (gpus + 1)}") if k % (gpus + 1) < gpus else tensor
        for k, (name, tensor) in enumerate(tensors.items())
    }
    interlace.save(spread, ours)
    assert ours.read_bytes() == theirs.read_bytes(), "the saved file differs from safetensors' file"
    for ring in ((1, 4096), (3, 1 << 20)):
        interlace.save(spread, ours, checksums=True, ring=ring, threads=3)
        expect_equal(load_file(ours), tensors, f"saved, ring {ring}")
        expect_equal(interlace.load(ours, "cuda:0", verify=True, ring=ring), tensors, "verified")
    whole = bytearray(ours.read_bytes())
    whole[-1] ^= 1
    ours.write_bytes(whole)
    text = ""
    try:
        interlace.load(ours, "cuda:0", verify=True)
    except UserError as error:
        text = str(error)
    assert "is damaged" in text, text


def check_order(folder: Path, _gpus: int) -> None:
    """Check that a save contains the earlier work of the current stream, and that every stream can
    read loaded data.
    """
    import torch

    file = folder / "order.safetensors"
    for k in range(3):
        work = torch.full((64 << 20,), k, dtype=torch.float32, device="cuda:0")
        for _ in range(50):
            work += 1
        interlace.save({"x": work}, file)
        with torch.cuda.stream(torch.cuda.Stream()):
            found = interlace.load(file, "cuda:0")["x"]
            right = bool((found == k + 50).all())
        assert right, "the save was too early, or the read was before the end of the load"
        del work, found


def check_memory(folder: Path, _gpus: int) -> None:
    import torch

    file = folder / "memory.safetensors"
    interlace.save({f"x{k}": torch.ones(1 << 20) for k in range(8)}, file)
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated(0)
    found = interlace.load(file, "cuda:0")
    assert torch.cuda.memory_allocated(0) >= before + (32 << 20)
    kept = found["x3"]
    del found
    assert bool((kept == 1).all())
    del kept
    gc.collect()
    assert torch.cuda.memory_allocated(0) == before
    pinned = interlace.load(file, pin_memory=True)
    assert all(tensor.is_pinned() for tensor in pinned.values())


def check_threads(folder: Path, gpus: int) -> None:
    """Check that simultaneous calls take turns, and that a failed call does not affect the rest."""
    tensors, file = model(9), folder / "threads.safetensors"
    interlace.save(tensors, file)
    cut = folder / "cut.safetensors"
    cut.write_bytes(file.read_bytes()[:-1])
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            for _ in range(3):
                if number == 3:
                    try:
                        interlace.load(cut, "cuda:0")
                    except UserError:
                        continue
                    raise AssertionError("a truncated file was loaded")
                found = interlace.load(file, number % gpus)
                expect_equal(found, tensors, f"thread {number}")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def check_interruption(folder: Path, _gpus: int) -> None:
    tensors, file = model(10), folder / "stopped.safetensors"
    interlace.save(tensors, file)

    def stop(_done: int, _of: int) -> None:
        raise KeyboardInterrupt

    for _ in range(3):
        try:
            interlace.load(file, "cuda:0", progress=stop, threads=2)
        except KeyboardInterrupt:
            continue
        raise AssertionError("the exception of a progress callback did not stop the load")
    expect_equal(interlace.load(file, "cuda:0"), tensors, "after stops")


CHECKS: list[Callable[[Path, int], None]] = [
    check_one_file,
    check_unaligned,
    check_many_files,
    check_save,
    check_order,
    check_memory,
    check_threads,
    check_interruption,
]


def speed(size: str, folder: Path) -> int:
    """Run the benchmark for each ring and number of threads. Return its exit code, which is 0 if
    all bytes are right.
    """
    worst = 0
    for options in (
        [],
        ["--slots", "8", "--slot", "16M"],
        ["--slots", "8", "--slot", "32M"],
        ["--slots", "8", "--slot", "64M"],
        ["--slots", "16", "--slot", "16M"],
        ["--slots", "4", "--slot", "64M"],
        ["--threads", "16"],
    ):
        words = ["bench", "load", "--bytes", size, "--folder", str(folder), "-n", "3", *options]
        print(f"\n$ interlace {' '.join(words)}", flush=True)
        worst = max(worst, subprocess.call([sys.executable, "-m", "interlace", *words]))
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", default="16G")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--no-speed", action="store_true")
    asked = parser.parse_args()
    import torch

    gpus = torch.cuda.device_count()
    if gpus == 0:
        print("there is no GPU")
        return 77
    with tempfile.TemporaryDirectory(prefix="interlace-", dir=asked.folder) as inside:
        for number, check in enumerate(CHECKS):
            folder = Path(inside) / str(number)
            folder.mkdir()
            begin = time.monotonic()
            check(folder, gpus)
            print(f"{check.__name__}: right ({time.monotonic() - begin:.1f} s)", flush=True)
    print(f"{len(CHECKS)} checks passed on {gpus} GPUs; {len(available_dtypes())} dtypes")
    return 0 if asked.no_speed else speed(asked.bytes, asked.folder)


if __name__ == "__main__":
    sys.exit(main())
