"""Measures the rows of a calibration on this computer's GPUs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

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
]  # (source, destination, bytes, stream); -1 as a source or destination stands for the host

REPEATS = 5
CALL_REPEATS = 200  # the host makes this many copies one by one, and waits for each copy
# This many epochs run back to back, so that their start and end take less than a hundredth of the
# time.
KERNEL_EPOCHS = 128
OVERLAP_EPOCHS = 5
OVERLAP_WARMUP = 1

METHOD = (
    f"interlace calibrate: medians of {REPEATS} repeats after one warm-up. Copies by copy engines "
    "(cudaMemcpyPeerAsync; with the host cudaMemcpyAsync and page-locked memory): timed by the "
    "GPUs, on streams that wait until all copies are enqueued; copies below 64 MiB are repeated up "
    "to 64 times in a row. Round trips through the host: timed by the host, "
    f"{CALL_REPEATS} calls. Relayed messages: interlace::copy_async with its default paths, timed "
    f"by the host, {MESSAGE_REPEATS} calls after {MESSAGE_WARMUP} warm-ups. Stores, loads and copy "
    "kernels: the kernels and sizes of the simulation; stores include the exchange; "
    f"{KERNEL_EPOCHS} launches in a row in a graph. Raw bytes: NVML's counters of the sending GPU, "
    f"over {2 * KERNEL_EPOCHS} launches. Overlap: as in interlace bench overlap, "
    f"{OVERLAP_EPOCHS} epochs per run. Operations and load loops: clocks that the multiprocessors "
    "count, with one or two blocks on each multiprocessor; the median over the multiprocessors; "
    "dependent loads: one warp. Small kernels and library calls: the difference between graphs "
    "with 64 and with 320 calls. Caches: launches that fill the GPU, timed by the GPU."
)


class Stores(NamedTuple):
    """The stores of a sender.

    The lanes of a group are adjacent, and store elements to adjacent places. The places of
    different groups are apart. Only the first `lanes` lanes of each group store. All places are
    moved by `shift` elements.
    """

    element: int  # the bytes of an element: 4 or 16
    elements: int  # the elements of a sender, with the elements that no lane stores; a power of two
    together: int  # the lanes of a group, a power of two; 0: all lanes store to adjacent places
    lanes: int = 0  # 0: all lanes of a group
    shift: int = 0

    def but(self, elements: int) -> Stores:
        """Return the same stores with another number of elements."""
        return self._replace(elements=elements)


class Gpus:
    """This computer's GPUs. Each function measures one row while no other command measures.

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
        """Return the time of a copy to a peer in microseconds.

        The time begins with the host's call, and ends when the host knows that the copy has ended.
        """
        with turn(), core_errors():
            time_s = self.cuda.measure_streams(
                [(0, 1, size, 0)], by_host=True, repeats=CALL_REPEATS
            )
        return 1e6 * _median(time_s)

    def message_rate(self, pairs: Pairs, size: int) -> float:
        """Return the total GB/s of messages that the copy engine sends over its default paths."""
        with turn(), core_errors():
            ((_, time_s, _, wrong),) = self.cuda.measure_copies(
                pairs, size, ["auto"], MESSAGE_WARMUP, MESSAGE_REPEATS
            )
        if wrong:
            raise RunFailure(f"the copy engine left {wrong} wrong bytes at the destination")
        return 1e-9 * len(pairs) * size / _median(time_s)

    def copy_kernel_rate(self, size: int, blocks: int) -> float:
        """Return the GB/s of a kernel with this number of blocks that copies to a peer."""
        with turn(), core_errors():
            time_s, payload = self.cuda.measure_copy_kernel(size, blocks, KERNEL_EPOCHS, REPEATS)
        return 1e-9 * int(payload) / _median(time_s)

    def store_rate(self, gpus: int, senders: int, stores: Stores) -> float:
        """Return the GB/s of the stores that each sender makes to all other GPUs."""
        with turn(), core_errors():
            time_s, payload = self.cuda.measure_stores(
                gpus, senders, *stores, KERNEL_EPOCHS, REPEATS
            )
        return 1e-9 * int(payload) / senders / _median(time_s)

    def raw_bytes(self, stores: Stores) -> float:
        """Return the number of bytes on the wire for each byte that is stored to a peer."""
        with turn(), core_errors():
            found = self.cuda.measure_store_wire(*stores, KERNEL_EPOCHS, REPEATS)
        if found is None:
            raise UserError("the driver has no NVLink counters on this computer")
        return _median(found)

    def load_rate(self, element: int, elements: int) -> float:
        """Return the GB/s of scattered loads from a peer."""
        with turn(), core_errors():
            time_s, payload = self.cuda.measure_loads(element, elements, KERNEL_EPOCHS, REPEATS)
        return 1e-9 * int(payload) / _median(time_s)

    def of_one(self, name: str, scale: float, arguments: tuple[Any, ...]) -> float:
        """Return a property of one GPU: the median of `measure_NAME`'s results, times `scale`."""
        with turn(), core_errors():
            found = getattr(self.cuda, f"measure_{name}")(*arguments, repeats=REPEATS)
        return scale * _median(found)

    def fft_kernels(self, *, planes: bool, length: int) -> float:
        """Return the number of kernels that one call of the Fourier transform library launches."""
        return float(self._fft(planes=planes, length=length)[0])

    def fft_us(self, *, planes: bool, length: int) -> float:
        """Return the time of one call of the Fourier transform library in microseconds."""
        return 1e6 * _median(self._fft(planes=planes, length=length)[1])

    def _fft(self, *, planes: bool, length: int) -> tuple[int, list[float]]:
        with turn(), core_errors():
            found: tuple[int, list[float]] = self.cuda.measure_fft(planes, length, repeats=REPEATS)
        return found

    def gain(self, peers: int, size: int, mechanism: str, config: Config) -> float:
        """Return the speedup of a mechanism over bulk-copy.

        The kernel takes as long as the transfer.
        """
        overlap = Overlap(self.cuda, size, OVERLAP_EPOCHS, OVERLAP_WARMUP, REPEATS)
        if (peers, size) not in self._balances:
            self._balances[peers, size] = overlap.balance(peers)
        return overlap.gain(self._balances[peers, size], mechanism, config)


def _median(values: Sequence[float]) -> float:
    return float(statistics.median(values))
