"""Measures the rows of a calibration on this computer's GPUs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from interlace.base.errors import UserError
from interlace.base.turns import turn
from interlace.model.mechanisms import Config
from interlace.model.run import RunFailure, core_errors
from interlace.nodes.nodes import CudaNode
from interlace.study.copy_bench import DEFAULT_REPEATS as MESSAGE_REPEATS
from interlace.study.copy_bench import DEFAULT_WARMUP as MESSAGE_WARMUP
from interlace.study.copy_bench import Pairs
from interlace.study.overlap import Balance, Overlap

Copies = Sequence[
    tuple[int, int, int, int]
]  # source, destination, bytes and stream; -1 stands for the host

REPEATS = 5
CALL_REPEATS = 200  # the number of copies that the host starts and waits for, one by one
# Epochs run back to back, so that their start and end take less than a hundredth of the time.
KERNEL_EPOCHS = 128
OVERLAP_EPOCHS = 5
OVERLAP_WARMUP = 1

METHOD = (
    f"interlace calibrate: medians of {REPEATS} repeats after one warm-up. Copies by copy engines "
    "(cudaMemcpyPeerAsync; with the host cudaMemcpyAsync and page-locked memory): timed by the "
    "GPUs on streams that wait until all is enqueued, copies below 64 MiB up to 64 times in a row. "
    f"Round trips through the host: timed by the host, {CALL_REPEATS} calls. Relayed messages: "
    f"interlace::copy_async with its default paths, timed by the host, {MESSAGE_REPEATS} calls "
    f"after {MESSAGE_WARMUP} warm-ups. Stores, loads and copy kernels: the kernels and sizes of "
    "the simulation, and the time of a launch with the exchange after stores, "
    f"{KERNEL_EPOCHS} of them in a row in a graph. Raw bytes: NVML's counters of the sending GPU, "
    f"over {2 * KERNEL_EPOCHS} launches. Overlap: as in interlace bench overlap, "
    f"{OVERLAP_EPOCHS} epochs a run. Operations and load loops: clocks that the multiprocessors "
    "count, of a block or two on each of them, as the median of the multiprocessors; dependent "
    "loads: one warp. Small kernels and library calls: the difference of graphs of 64 and 320 of "
    "them. Caches: launches that fill the GPU, timed by it."
)


class Gpus:
    """This computer's GPUs. Each call measures one row while no other command measures.

    Raises UserError if a measurement is refused, and RunFailure if a measurement fails.
    """

    def __init__(self, node: CudaNode) -> None:
        self.cuda = node.cuda
        self.count = node.gpus
        self._balances: dict[tuple[int, int], Balance] = {}

    def copies_rate(self, copies: Copies, senders: int) -> float:
        """Return the GB/s of each sender while all senders copy at the same time."""
        with turn(), core_errors():
            time_s = self.cuda.measure_streams(list(copies), by_host=False, repeats=REPEATS)
        return 1e-9 * sum(size for _, _, size, _ in copies) / senders / _median(time_s)

    def copy_us(self, size: int) -> float:
        """Return the microseconds of a copy to a peer, from the host's call until the host sees its
        end.
        """
        with turn(), core_errors():
            time_s = self.cuda.measure_streams(
                [(0, 1, size, 0)], by_host=True, repeats=CALL_REPEATS
            )
        return 1e6 * _median(time_s)

    def message_rate(self, pairs: Pairs, size: int) -> float:
        """Return the GB/s of messages that the copy engine sends over its default paths."""
        with turn(), core_errors():
            ((_, time_s, _, wrong),) = self.cuda.measure_copies(
                pairs, size, ["auto"], MESSAGE_WARMUP, MESSAGE_REPEATS
            )
        if wrong:
            raise RunFailure(f"the copy engine left {wrong} wrong bytes at the destination")
        return 1e-9 * len(pairs) * size / _median(time_s)

    def copy_kernel_rate(self, size: int, blocks: int) -> float:
        """Return the GB/s of a kernel that copies to a peer with this number of blocks."""
        with turn(), core_errors():
            time_s, payload = self.cuda.measure_copy_kernel(size, blocks, KERNEL_EPOCHS, REPEATS)
        return 1e-9 * int(payload) / _median(time_s)

    def store_rate(
        self, gpus: int, senders: int, element: int, elements: int, together: int
    ) -> float:
        """Return the GB/s of the stores that each sender makes to all other GPUs."""
        with turn(), core_errors():
            time_s, payload = self.cuda.measure_stores(
                gpus, senders, element, elements, together, KERNEL_EPOCHS, REPEATS
            )
        return 1e-9 * int(payload) / senders / _median(time_s)

    def raw_bytes(self, element: int, elements: int, together: int) -> float:
        """Return the bytes on the wire for each byte of stores to a peer."""
        with turn(), core_errors():
            found = self.cuda.measure_store_wire(
                element, elements, together, KERNEL_EPOCHS, REPEATS
            )
        if found is None:
            raise UserError("the driver has no NVLink counters on this computer")
        return _median(found)

    def load_rate(self, element: int, elements: int) -> float:
        """Return the GB/s of scattered loads from a peer."""
        with turn(), core_errors():
            time_s, payload = self.cuda.measure_loads(element, elements, KERNEL_EPOCHS, REPEATS)
        return 1e-9 * int(payload) / _median(time_s)

    def of_one(self, name: str, scale: float, arguments: tuple[Any, ...]) -> float:
        """Return a property of one GPU: the median of `measure_NAME`'s results, multiplied by
        `scale`.
        """
        with turn(), core_errors():
            found = getattr(self.cuda, f"measure_{name}")(*arguments, repeats=REPEATS)
        return scale * _median(found)

    def fft_kernels(self, *, planes: bool, length: int) -> float:
        """Return the kernels that one call of the library of Fourier transforms launches."""
        return float(self._fft(planes=planes, length=length)[0])

    def fft_us(self, *, planes: bool, length: int) -> float:
        """Return the microseconds of one call of the library of Fourier transforms."""
        return 1e6 * _median(self._fft(planes=planes, length=length)[1])

    def _fft(self, *, planes: bool, length: int) -> tuple[int, list[float]]:
        with turn(), core_errors():
            found: tuple[int, list[float]] = self.cuda.measure_fft(planes, length, repeats=REPEATS)
        return found

    def gain(self, peers: int, size: int, mechanism: str, config: Config) -> float:
        """Return a mechanism's speedup over bulk-copy if the kernel takes as long as the
        transfer.
        """
        overlap = Overlap(self.cuda, size, OVERLAP_EPOCHS, OVERLAP_WARMUP, REPEATS)
        if (peers, size) not in self._balances:
            self._balances[peers, size] = overlap.balance(peers)
        return overlap.gain(self._balances[peers, size], mechanism, config)


def _median(values: Sequence[float]) -> float:
    return float(statistics.median(values))
