"""Tests the kernels that copy batches of blocks.

An interpreter runs the kernels thread by thread. The tests also compile the kernels for each GPU
architecture.
"""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from ptx import Memory, launch

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "src/cuda/transfer/block_kernels.ptx"
TEXT = FILE.read_text()
FIELDS = (
    "to_base",
    "from_base",
    "to_scale",
    "from_scale",
    "to_list",
    "from_list",
    "size_list",
    "bytes",
)
EVEN, ANY = "interlace_copy_even_blocks", "interlace_copy_any_blocks"
# The first addresses of the destination, the source and the lists.
TO, FROM, LISTS = 1 << 20, 1 << 30, 1 << 40
WIDE_TO, WIDE_FROM, INSIDE = 1, 2, 4
HEAD = 80
ptxas = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")


def arguments(
    count: int, *, run: int = 1, bits: int = 0, lists: bytes = b"", **given: int
) -> bytes:
    """Return the struct block_arguments of block_arguments.hpp as bytes."""
    values = {"to_scale": 1, "from_scale": 1, **given}
    head = struct.pack("<8Q4I", *(values.get(name, 0) for name in FIELDS), count, run, bits, 0)
    return (head + lists).ljust(1024, b"\0")


def buffers(seed: int, size: int) -> tuple[random.Random, bytearray, bytearray, bytearray, Memory]:
    chance = random.Random(seed)
    source, target = bytearray(chance.randbytes(size)), bytearray(chance.randbytes(size))
    memory = Memory()
    memory.add(TO, target)
    memory.add(FROM, source)
    return chance, source, target, bytearray(target), memory


@pytest.mark.parametrize("seed", range(24))
def test_even_blocks_arrive(seed: int) -> None:
    chance, source, target, wanted, memory = buffers(seed, 1 << 14)
    # In every fourth batch, the list of addresses is longer than a thread block reads at a time.
    long_runs = seed % 4 == 3
    size = 16 * chance.randint(1, 4 if long_runs else 40)
    rows = len(source) // size
    longest = 59 if seed % 3 == 0 else 200  # the arguments have room for 59 addresses of each side
    count = chance.randint(40, longest) if long_runs else chance.randint(1, min(30, rows))
    to, origin = chance.sample(range(rows), count), [chance.randrange(rows) for _ in range(count)]
    run = chance.randint(40, 200) if long_runs else chance.randint(1, 16)
    if seed % 3 == 0:  # the addresses are in the arguments
        lists = struct.pack(
            f"<{2 * count}Q", *(TO + size * k for k in to), *(FROM + size * k for k in origin)
        )
        given = arguments(
            count, run=run, bytes=size, bits=WIDE_TO | WIDE_FROM | INSIDE,
            to_list=HEAD, from_list=HEAD + 8 * count, lists=lists,
        )  # fmt: skip
    elif seed % 3 == 1:  # row numbers of 4 and 8 bytes are in memory
        memory.add(LISTS, bytearray(struct.pack(f"<{count}Q{count}I", *to, *origin)))
        given = arguments(
            count, run=run, bytes=size, bits=WIDE_TO, to_base=TO, to_scale=size, from_base=FROM,
            from_scale=size, to_list=LISTS, from_list=LISTS + 8 * count,
        )  # fmt: skip
    else:  # the blocks of one side follow one another
        to = list(range(count))
        memory.add(LISTS, bytearray(struct.pack(f"<{count}I", *origin)))
        given = arguments(
            count, run=run, bytes=size, to_base=TO, to_scale=size, from_base=FROM, from_scale=size,
            from_list=LISTS,
        )  # fmt: skip
    for a, b in zip(to, origin, strict=True):
        wanted[a * size : (a + 1) * size] = source[b * size : (b + 1) * size]
    launch(TEXT, EVEN, chance.randint(1, 4), 32 * chance.randint(1, 3), given, memory, 16 * run)
    assert target == wanted


@pytest.mark.parametrize("seed", range(8))
def test_blocks_of_any_size_arrive(seed: int) -> None:
    chance, source, target, wanted, memory = buffers(seed, 1 << 14)
    count, at = chance.randint(1, 24), 0
    lists: tuple[list[int], list[int], list[int]] = ([], [], [])
    for _ in range(count):
        size = chance.choice([0, 1, 3, 15, 16, 17, chance.randint(0, 500)])
        at += chance.randint(0, 20)
        origin = chance.randrange(len(source) - size)
        for values, value in zip(lists, (TO + at, FROM + origin, size), strict=True):
            values.append(value)
        wanted[at : at + size] = source[origin : origin + size]
        at += size
    memory.add(LISTS, bytearray(struct.pack(f"<{3 * count}Q", *lists[0], *lists[1], *lists[2])))
    given = arguments(
        count, bits=WIDE_TO | WIDE_FROM, to_list=LISTS, from_list=LISTS + 8 * count,
        size_list=LISTS + 16 * count,
    )  # fmt: skip
    launch(TEXT, ANY, chance.randint(1, 3), 32 * chance.randint(1, 3), given, memory, 0)
    assert target == wanted


@pytest.mark.parametrize("shift", range(16))
def test_every_residue_of_both_addresses(shift: int) -> None:
    _, source, target, wanted, memory = buffers(shift, 1 << 13)
    lists: tuple[list[int], list[int]] = ([], [])
    size = 75 + shift  # so the block has vectors of each width, and single bytes around them
    for k in range(16):
        to, origin = 512 * k + shift, 256 * k + k
        lists[0].append(TO + to)
        lists[1].append(FROM + origin)
        wanted[to : to + size] = source[origin : origin + size]
    given = arguments(
        16, bits=WIDE_TO | WIDE_FROM | INSIDE, bytes=size, to_list=HEAD, from_list=HEAD + 128,
        lists=struct.pack("<32Q", *lists[0], *lists[1]),
    )  # fmt: skip
    launch(TEXT, ANY, 1, 64, given, memory, 0)
    assert target == wanted


@pytest.mark.skipif(ptxas is None, reason="there is no ptxas")
@pytest.mark.parametrize("architecture", ["80", "86", "89", "90", "100", "120"])
def test_ptxas_accepts_the_kernels(architecture: str, tmp_path: Path) -> None:
    words = [str(ptxas), f"-arch=sm_{architecture}", "-v", str(FILE), "-o", str(tmp_path / "made")]
    made = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert made.returncode == 0, made.stderr
    assert made.stderr.count(" 0 bytes spill stores") == 2  # no kernel spills registers
    # 512 threads of a kernel must fit on a multiprocessor.
    used = [
        int(line.split("Used ")[1].split()[0])
        for line in made.stderr.splitlines()
        if "Used" in line
    ]
    assert len(used) == 2
    assert max(used) * 512 <= 65536


def test_the_text_is_for_the_oldest_driver_and_gpu() -> None:
    head = [line for line in TEXT.splitlines() if line and not line.startswith("//")][:3]
    assert head == [".version 7.8", ".target sm_80", ".address_size 64"]
