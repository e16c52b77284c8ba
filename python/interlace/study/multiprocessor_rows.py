"""The rows of a calibration that need only one GPU.

The rows measure a GPU's multiprocessors, its caches, and the start of its kernels. A row of the
group ONE_PROPERTY measures one property, so keys of a machine file may be fitted to this row.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from interlace.machine.schema import Machine
from interlace.model.mechanisms import MIB, size_text
from interlace.study.calibration_gpus import Gpus
from interlace.study.calibration_row import ONE_PROPERTY, PREDICTED, Definition

CHAINS = (
    "IADD3", "IMAD", "FFMA", "DFMA", "MUFU", "SHFL", "barrier", "32-bit integer division",
    "fp32 division", "LOP3", "VIMNMX", "IMAD.HI", "IMAD.WIDE", "F2I", "REDUX", "VOTE", "VIMNMX3",
)  # fmt: skip
WARPS = (1, 2, 4, 8, 16)  # the numbers of warps on a sub-core
FEW_WARPS, MANY_WARPS = WARPS[0], WARPS[-1]
UNROLLED = (1, 2, 4)
LOOPS = ("shared memory", "L1", "L2")
LOAD_CHAINS = (  # where the data is, the path that the loads take, and the bytes of the data
    ("shared memory", "shared memory", 16 << 10),
    ("L1", "L1", 16 << 10),
    ("L2", "L2", MIB),
    ("L2", "L2", 16 * MIB),
    ("L2", "L2", 32 * MIB),
    ("memory", "L2", 1024 * MIB),
)
JUST_WRITTEN = (MIB, 16 * MIB)
LINES = (1, 2, 4, 8, 16, 32)  # the number of lines that a load touches
OFFSETS = (1, 16)  # a load of 128 bytes begins this many words after the beginning of a line
INSTRUCTIONS = (0, 50, 200, 500, 1000)  # the numbers of instructions in a small kernel
KERNELS = (1, 8)  # the numbers of different small kernels, which are launched in turn
EXCHANGED_SUMS = (0, 2)
REGISTERS = (32, 64, 128)
GATHERED = (16 * MIB, 256 * MIB)
SECTORS = (16 * MIB, 32 * MIB, 48 * MIB, 256 * MIB)
READ_AGAIN = tuple(size * MIB for size in (20, 30, 40, 50, 60, 120))
WRITTEN = tuple(size * MIB for size in (20, 40, 120))
COPIED = tuple(size * MIB for size in (8, 10, 12))
READ_FRESH = tuple(size * MIB for size in (20, 40))
FFT_LENGTHS = (96, 192)  # no workload of the calibration uses these sizes


def _a_sub_core(warps: int) -> str:
    return f"{warps} warp{'' if warps == 1 else 's'} a sub-core"


def _simulated(name: str, scale: float, *arguments: Any) -> Any:
    """Return a function that calls the compiled module with a C++ machine and these arguments."""

    def simulate(core: Any, machine: Any, _: Machine) -> float:
        return scale * float(getattr(core, f"simulate_{name}")(machine, *arguments))

    return simulate


def _row(
    key: str, family: str, unit: str, name: str, scale: float, *arguments: Any,
    group: str = ONE_PROPERTY,
) -> Definition:  # fmt: skip
    return Definition(
        key, family, unit, group, 1, _simulated(name, scale, *arguments),
        partial(Gpus.of_one, name=name, scale=scale, arguments=arguments),
    )  # fmt: skip


def _clock_mhz(_core: Any, _machine: Any, described: Machine) -> float:
    return float(described.gpu.clock_MHz)


def _kernels_of_fft(_core: Any, _machine: Any, _: Machine, *, planes: bool) -> float:
    return 2.0 if planes else 1.0  # the simulated call has one kernel for each dimension


def _operations() -> list[Definition]:
    busy = Definition(
        "clock of busy multiprocessors", "operations", "MHz", ONE_PROPERTY, 1, _clock_mhz,
        partial(Gpus.of_one, name="busy_clock", scale=1.0, arguments=()),
    )  # fmt: skip
    chains = [
        _row(
            f"chain of {kind}, {_a_sub_core(warps)}", "operations", "clocks", "chain", 1.0,
            kind, warps,
        )
        for kind in CHAINS
        for warps in WARPS
        # A barrier joins the warps of one block, and one block has at most 8 warps per sub-core.
        if not (kind == "barrier" and warps == MANY_WARPS)
    ]  # fmt: skip
    return [busy, *chains]


def _loads() -> list[Definition]:
    chains = [
        _row(
            f"dependent loads, {name}, {size_text(size)}", "loads", "clocks", "load_chain", 1.0,
            path, size,
        )
        for name, path, size in LOAD_CHAINS
    ]  # fmt: skip
    fresh = [
        _row(
            f"dependent loads, L2, {size_text(size)} just written", "loads", "clocks",
            "fresh_load_chain", 1.0, size,
        )
        for size in JUST_WRITTEN
    ]  # fmt: skip
    from_peer = Definition(
        f"dependent loads from a peer, {size_text(MIB)}", "loads", "clocks", ONE_PROPERTY, 2,
        _simulated("peer_load_chain", 1.0, MIB),
        partial(Gpus.of_one, name="peer_load_chain", scale=1.0, arguments=(MIB,)),
    )  # fmt: skip
    loops = [
        _row(
            f"load loop, {name}, unrolled by {unroll}, {_a_sub_core(warps)}", "loads", "clocks",
            "load_loop", 1.0, name, unroll, warps,
        )
        for name in LOOPS
        for warps in (FEW_WARPS, MANY_WARPS)
        for unroll in UNROLLED
    ]  # fmt: skip
    lines = [
        _row(
            f"loads of {lines} line{'' if lines == 1 else 's'} of the L1", "loads", "clocks",
            "line_loads", 1.0, lines, 0,
        )
        for lines in LINES
    ]  # fmt: skip
    off = [
        _row(
            f"loads of 128 B of the L1, {4 * words} B off a line", "loads", "clocks",
            "line_loads", 1.0, 1, words,
        )
        for words in OFFSETS
    ]  # fmt: skip
    return [*chains, *fresh, from_peer, *loops, *lines, *off]


def _kernel_starts() -> list[Definition]:
    blocks = _row("blocks of an empty kernel", "kernel starts", "ns", "blocks", 1e9)
    exchanges = [
        _row(
            f"kernel of one block, and an exchange{f' of {sums} sums' if sums else ''}",
            "kernel starts", "us", "exchange", 1e6, sums,
        )
        for sums in EXCHANGED_SUMS
    ]  # fmt: skip
    return [blocks, *_small_kernels(), *exchanges]


def _small_kernels() -> list[Definition]:
    return [
        _row(
            f"kernels of {instructions} instructions in a graph, {kernels} in turn",
            "kernel starts", "us", "small_kernels", 1e6, instructions, kernels,
        )
        for kernels in KERNELS
        for instructions in INSTRUCTIONS
        if instructions or kernels == 1
    ]  # fmt: skip


def _caches() -> list[Definition]:
    gathers = [
        _row(
            f"gather with {registers} registers from {size_text(size)}", "caches", "G/s", "gather",
            1e-9, registers, size, group=PREDICTED,
        )
        for size in GATHERED
        for registers in REGISTERS
    ]  # fmt: skip
    sectors = [
        _row(f"scattered sectors of {size_text(size)}", "caches", "G/s", "sectors", 1e-9, size)
        for size in SECTORS
    ]
    reads = [
        _row(f"reads of {size_text(size)} again", "caches", "GB/s", "reads", 1e-9, size)
        for size in READ_AGAIN
    ]
    writes = [
        _row(f"writes of {size_text(size)} again", "caches", "GB/s", "writes", 1e-9, size)
        for size in WRITTEN
    ]
    copies = [
        _row(f"copies of {size_text(size)} again", "caches", "GB/s", "cached_copies", 1e-9, size)
        for size in COPIED
    ]
    fresh = [
        _row(
            f"reads of {size_text(size)} just written", "caches", "GB/s", "fresh_reads", 1e-9, size
        )
        for size in READ_FRESH
    ]
    return [*gathers, *sectors, *reads, *writes, *copies, *fresh]


def _library() -> list[Definition]:
    def transforms(length: int, *, planes: bool) -> list[Definition]:
        name = f"FFT of {'the planes' if planes else 'the columns'} of {length}^3"
        return [
            Definition(
                f"{name}: kernels", "library", "", ONE_PROPERTY, 1,
                partial(_kernels_of_fft, planes=planes),
                partial(Gpus.fft_kernels, planes=planes, length=length),
            ),
            Definition(
                name, "library", "us", PREDICTED, 1, _simulated("fft", 1e6, planes, length),
                partial(Gpus.fft_us, planes=planes, length=length),
            ),
        ]  # fmt: skip

    return [
        row
        for length in FFT_LENGTHS
        for planes in (True, False)
        for row in transforms(length, planes=planes)
    ]


def multiprocessor_rows() -> list[Definition]:
    """Return the rows that need only one GPU, family by family."""
    return [*_operations(), *_loads(), *_kernel_starts(), *_caches(), *_library()]
